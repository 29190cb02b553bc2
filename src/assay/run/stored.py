"""Answers that an earlier run stored in its sample files, and what its judges said of them.

The docs are read and the requests built anew, so that an edited task file is taken as it is now. A doc whose requests
came out different is left out and counted: its stored answer was given to another request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay.errors import ModelError
from assay.finished import stored_docs, stored_questions
from assay.instance import Instance, Response, context_text, is_chat
from assay.models import LM
from assay.results import RunDirectory
from assay.run.answerers import WINDOW_REQUESTS, is_sampled, stream_answers
from assay.run.doc_work import DocWork, StoredDoc
from assay.store import join_digests, request_digest, request_hash


class StoredDocs:
    """The docs of one sample file, each to be taken once. Those that are passed over wait until somebody takes them."""

    def __init__(self, path: Path) -> None:
        self._rows = ((doc_id, StoredDoc(*stored)) for doc_id, stored in stored_docs(path))
        self._waiting: dict[int, StoredDoc] = {}

    def take(self, doc_id: int) -> StoredDoc | None:
        if doc_id in self._waiting:
            return self._waiting.pop(doc_id)
        for position, stored in self._rows:
            if position == doc_id:
                return stored
            self._waiting[position] = stored
        return None


class StoredAnswerer:
    """Gives docs their stored responses back."""

    window_requests = 4096
    """No prefixes are to be shared, so a few at once do."""
    windows_at_once = 1
    takes_steps = False

    def __init__(self, source: RunDirectory, *, rebuilt: bool, strict: bool = False) -> None:
        self.source = source
        self.rebuilt = rebuilt
        """Whether prompts can be built as they were: a chat template needs the model, so there they are taken as stored."""
        self.strict = strict
        """Whether prompts that are taken as stored must be those of the stored hash."""
        self._left_out: dict[tuple[str, str], list[int]] = {}
        self._docs: dict[str, StoredDocs] = {}

    def answer(self, docs: Sequence[DocWork], done: Callable[[DocWork], None]) -> None:
        for work in docs:
            self._answer(work)
            done(work)

    def check(self, docs: Sequence[DocWork]) -> None:
        """Only now are all requests of a doc built, and can be compared with those that were answered."""
        for work in docs:
            if work.stored is None:
                continue
            if not self.rebuilt:
                if len(json.loads(work.stored.resps)) != len(work.requests.instances):
                    self._leave_out(work, "requests would differ", "the number of requests would differ")
                elif self.strict and request_hash(work.requests.instances) != work.stored.request_hash:
                    self._leave_out(work, "requests do not match their hash", "the kept request has another hash")
            elif join_digests(work.digests) != work.stored.request_hash:
                self._leave_out(
                    work, "requests would differ", "the request would differ from the one that was answered"
                )

    def cancel(self) -> None:
        pass

    def notes(self) -> list[str]:
        """What was left out, in words."""
        notes = []
        for (task, reason), ids in self._left_out.items():
            shown = ", ".join(map(str, ids[:5])) + (", …" if len(ids) > 5 else "")
            notes.append(f"{task}: {reason} for {len(ids)} docs ({shown}); they are left out")
        if not self.rebuilt:
            notes.append("prompts were taken as kept, not built again")
        return notes

    def _answer(self, work: DocWork) -> None:
        doc = work.requests
        work.digests += [request_digest(instance) for instance in work.round]
        if work.stored is None:
            if work.task not in self._docs:
                self._docs[work.task] = StoredDocs(self.source.sample_file(work.task))
            work.stored = self._docs[work.task].take(doc.doc_id)
        if work.stored is None or work.stored.doc_hash != doc.doc_hash:
            self._leave_out(work, "no kept answer", "the run kept no answer for this doc")
        elif not work.stored.give_answers(work.round):
            self._leave_out(work, "requests would differ", "the number of requests would differ")
        elif not self.rebuilt:
            work.stored.give_arguments(work.round)

    def _leave_out(self, work: DocWork, reason: str, failure: str) -> None:
        work.stored = None
        self._left_out.setdefault((work.task, reason), []).append(work.requests.doc_id)
        for instance in work.requests.instances:
            instance.resps, instance.failure = [], failure


class StoredVerdicts:
    """What judges said in an earlier run, given back where the same is requested of them: no judge needs to be reachable for it."""

    def __init__(self, source: RunDirectory, roles: Collection[str]) -> None:
        self.source, self.roles = source, roles
        self.given: set[str] = set()
        """Roles for which something was found."""
        self._docs: dict[str, dict[int, str]] = {}

    def fingerprint(self, role: str) -> str | None:
        """Of the model that had this role, where the run says."""
        said = (self.source.read_json("run.json") or {}).get("roles", {}).get(role, {})
        return said.get("fingerprint") if isinstance(said, dict) else None

    def give(self, task: str, question: Instance) -> bool:
        """Answer the question as it was answered then; False where it was not."""
        if question.role not in self.roles:
            return False
        for stored in self._questions(task, question.doc_id):
            if (
                stored.get("role") == question.role
                and (stored.get("note") or {}).get("asked") == question.note["asked"]
                and stored.get("failure") is None
                and len(stored["resps"]) == question.repeats
            ):
                stops = stored.get("stops") or [None] * len(stored["resps"])
                question.arguments = tuple(stored["arguments"])  # as they were sent, with the chat template around them
                question.resps = list(stored["resps"])
                question.responses = [Response(text, stop) for text, stop in zip(stored["resps"], stops)]
                self.given.add(question.role)
                return True
        return False

    def _questions(self, task: str, doc_id: int) -> list[dict[str, Any]]:
        if task not in self._docs:
            path = self.source.sample_file(task)
            rows = stored_questions(path) if path.is_file() else ()
            self._docs[task] = {doc_id: questions for doc_id, _, questions in rows}
        questions: list[dict[str, Any]] = json.loads(self._docs[task].get(doc_id, "[]"))
        return questions


@dataclass
class AskedAgain:
    """One doc: what the run stored of it, and what it is answered now."""

    task: str
    doc_id: int
    kept: list[Any]
    """Of each request, the answer."""
    now: list[list[Any]] = field(default_factory=list)
    """One such list for every time it was sent again."""
    prompt: str = ""


class AgainAnswerer:
    """Sends the first round of each doc again, so many times, past the store, and writes down what comes back.

    Docs whose answers were drawn at random are left out: nothing can be said about one draw by another.
    """

    window_requests = WINDOW_REQUESTS
    windows_at_once = 1
    takes_steps = False

    def __init__(
        self, lm: LM, source: RunDirectory, *, replays: int, as_stored: bool, stop: Callable[[], bool]
    ) -> None:
        self.lm, self.source, self.replays, self.as_stored, self.stop = lm, source, replays, as_stored, stop
        self.found: list[AskedAgain] = []
        self._docs: dict[str, StoredDocs] = {}

    def answer(self, docs: Sequence[DocWork], done: Callable[[DocWork], None]) -> None:
        sent: list[tuple[AskedAgain, Sequence[Instance]]] = []
        for work in docs:
            if (entry := self._entry(work)) is not None:
                sent.append((entry, work.round))
        for _ in range(self.replays):
            self._send(sent)
        self.found += [entry for entry, _ in sent]
        for work in docs:
            for instance in work.round:
                instance.resps = []  # a doc without answers gives rise to no further round

    def check(self, docs: Sequence[DocWork]) -> None:
        pass

    def cancel(self) -> None:
        self.lm.cancel()

    def notes(self) -> list[str]:
        return []

    def _entry(self, work: DocWork) -> AskedAgain | None:
        if work.task not in self._docs:
            self._docs[work.task] = StoredDocs(self.source.sample_file(work.task))
        stored = self._docs[work.task].take(work.requests.doc_id)
        if stored is None:
            return None
        if self.as_stored:
            stored.give_arguments(work.round)
        if not stored.give_answers(work.round) or any(each.failure or is_sampled(each) for each in work.round):
            return None
        first = work.round[0].arguments[0]
        prompt = context_text(first) if is_chat(first) else str(first)
        return AskedAgain(work.task, work.requests.doc_id, [each.resps[0] for each in work.round], prompt=prompt)

    def _send(self, sent: Sequence[tuple[AskedAgain, Sequence[Instance]]]) -> None:
        places: dict[str, list[tuple[AskedAgain, int, Instance]]] = {}
        for entry, instances in sent:
            entry.now.append([None] * len(instances))
            for number, instance in enumerate(instances):
                places.setdefault(instance.request_type, []).append((entry, number, instance))
        for request_type, waiting in places.items():
            instances = [each[2] for each in waiting]
            for place, answer in stream_answers(self.lm, request_type, instances, [0] * len(waiting), self.stop):
                if answer.failure is not None:
                    raise ModelError(f"the model did not answer: {answer.failure}", hint="Try again later.")
                entry, number, _ = waiting[place]
                entry.now[-1][number] = answer.answer
