"""Answers of a finished run that were cut off, continued with a larger limit; the others are taken as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from assay.errors import ConfigError
from assay.instance import Instance, Response, context_text, is_chat
from assay.models import LENGTH_NAMES, LM, GenerationSettings, cut_at_stop
from assay.results import RunDirectory, kept_arguments
from assay.run.answerers import Answerer
from assay.run.doc_work import DocWork
from assay.run.stored import StoredDocs
from assay.store import request_digest

Cut = tuple[Instance, int, Response, Instance]
"""A request, which of its draws was cut off, what is kept of that, and the request for the rest."""


NOTHING_SAID = Response("")


class ExtendingAnswerer:
    """First the finished run, then whoever answers otherwise.

    A text is continued behind its prompt. A chat, or an answer of which thoughts stand apart, has no such place to go on: there the
    whole is requested again.
    """

    takes_steps = True

    def __init__(self, answerer: Answerer, source: RunDirectory, lm: LM) -> None:
        self.answerer, self.source = answerer, source
        self.window_requests, self.windows_at_once = answerer.window_requests, answerer.windows_at_once
        self.default_limit = lm.info().max_gen_toks
        self.taken = self.continued = self.whole = self.new = 0
        self._docs: dict[str, StoredDocs] = {}
        self._lock = Lock()
        """Windows of docs come on several threads."""

    @classmethod
    def open(cls, run: str, answerer: Answerer, lm: LM) -> ExtendingAnswerer:
        source = RunDirectory.open(run)
        about = source.read_json("run.json") or {}
        stored = about.get("model", {}).get("fingerprint")
        if stored != lm.fingerprint():
            raise ConfigError(
                f"extend: {run} has answers of another model, or of the same with other arguments",
                hint="Use the model and --model_args of that run; its run.json has them.",
            )
        return cls(answerer, source, lm)

    def answer(self, docs: Sequence[DocWork], done: Callable[[DocWork], None]) -> None:
        ask: list[DocWork] = []
        rests: dict[int, tuple[DocWork, list[Cut]]] = {}
        for work in docs:
            cut = self._take(work)
            if cut is None:
                ask.append(work)
            elif cut:
                rest = DocWork(work.task, replace(work.requests, instances=[request for *_, request in cut]))
                rests[id(rest)] = work, cut
                ask.append(rest)
            else:
                done(work)

        def answered(work: DocWork) -> None:
            if id(work) in rests:
                work, cut = rests[id(work)]
                for each in cut:
                    _join(*each)
            done(work)

        self.answerer.answer(ask, answered)

    def check(self, docs: Sequence[DocWork]) -> None:
        self.answerer.check(docs)

    def notes(self) -> list[str]:
        parts = [
            f"{self.taken} were taken from {self.source.path}",
            f"{self.continued} were cut off there and continued" if self.continued else "",
            f"{self.whole} were cut off there and requested again as a whole" if self.whole else "",
            f"{self.new} are not in that run and were requested" if self.new else "",
        ]
        return [f"of the answers {', '.join(filter(None, parts))}", *self.answerer.notes()]

    def cancel(self) -> None:
        self.answerer.cancel()

    def _take(self, work: DocWork) -> list[Cut] | None:
        """Give a doc what the run stored of it; the draws that were cut off. None where the doc has to be requested as it is."""
        generates = all(each.request_type == "generate_until" for each in work.round)
        if not generates or not work.is_first_round or work.of is not None:
            return None
        with self._lock:
            if work.task not in self._docs:
                path: Path = self.source.sample_file(work.task)
                self._docs[work.task] = StoredDocs(path)
            stored = self._docs[work.task].take(work.requests.doc_id)
        draws = sum(each.repeats for each in work.round)
        if stored is None or stored.doc_hash != work.requests.doc_hash or not stored.give_answers(work.round):
            self._forget(work, draws)
            return None
        cut: list[Cut] = []
        for instance, arguments in zip(work.round, kept_arguments(stored.arguments)):
            before = self._longer(instance, arguments)
            if before is None or len(instance.resps) != instance.repeats or instance.failure is not None:
                self._forget(work, draws)
                return None
            for draw, response in enumerate(instance.responses):
                assert response is not None
                if response.stop_reason == "length":
                    kept = response if _can_go_on(instance, response) else NOTHING_SAID
                    cut.append((instance, draw, kept, _rest(instance, draw, kept, before)))
        work.digests += [request_digest(instance) for instance in work.round]
        whole = sum(kept is NOTHING_SAID for _, _, kept, _ in cut)
        with self._lock:
            self.taken += draws - len(cut)
            self.continued += len(cut) - whole
            self.whole += whole
        return cut

    def _forget(self, work: DocWork, new: int) -> None:
        for instance in work.round:
            instance.resps, instance.responses, instance.failure = [], [], None
        with self._lock:
            self.new += new

    def _longer(self, instance: Instance, stored: list[Any]) -> int | None:
        """The limit of the run, where this is its request but for a larger one."""
        now = GenerationSettings.parse(instance.arguments[1], max_gen_toks=self.default_limit)
        then = GenerationSettings.parse(stored[1], max_gen_toks=self.default_limit)
        same = context_text(instance.arguments[0]) == context_text(stored[0])
        if not same or replace(now, max_gen_toks=then.max_gen_toks) != then:
            return None
        if now.max_gen_toks <= then.max_gen_toks:
            raise ConfigError(
                f"extend: answers of {instance.task_name} may have {now.max_gen_toks} tokens, and had {then.max_gen_toks} in {self.source.path}",
                hint=f"Add --gen_kwargs max_gen_toks={4 * then.max_gen_toks}, or another number above {then.max_gen_toks}.",
            )
        return then.max_gen_toks


def _can_go_on(instance: Instance, said: Response) -> bool:
    """Behind a prompt that is text, unless thoughts or calls stand apart, or the last character was cut in two."""
    apart = said.reasoning or said.tool_calls or said.answer.endswith("\ufffd")
    return not is_chat(instance.arguments[0]) and not apart


def _rest(instance: Instance, draw: int, said: Response, limit: int) -> Instance:
    """The request for the rest of an answer of which `limit` tokens are there."""
    single = replace(
        instance, repeats=1, draw=instance.draw + draw, resps=[], responses=[], filtered_resps={}, failure=None
    )
    if said is NOTHING_SAID:
        return single
    settings = {name: value for name, value in instance.arguments[1].items() if name not in LENGTH_NAMES}
    whole = GenerationSettings.parse(instance.arguments[1]).max_gen_toks
    used = said.tokens[1] if said.tokens else limit
    single.arguments = (instance.arguments[0] + said.answer, {**settings, "max_gen_toks": max(1, whole - used)})
    return single


def _join(instance: Instance, draw: int, said: Response, rest: Instance) -> None:
    """What was said and its rest are one answer; a stop string may begin in one and end in the other."""
    if rest.failure is not None:
        instance.failure = rest.failure
        return
    if not rest.resps:  # who answers only counts
        instance.resps = []
        return
    further = rest.responses[0] or Response(rest.resps[0])
    until = GenerationSettings.parse(instance.arguments[1]).until
    text, was_cut = cut_at_stop(said.answer + further.answer, until)
    tokens = further.tokens if said is NOTHING_SAID else None
    if said.tokens and further.tokens:
        tokens = (said.tokens[0], said.tokens[1] + further.tokens[1])
    reason = "stop" if was_cut else further.stop_reason
    instance.resps[draw] = text
    instance.responses[draw] = further._replace(answer=text, stop_reason=reason, tokens=tokens)
