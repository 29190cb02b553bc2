"""The other models of a run, such as a judge: loaded when something is first requested of them, answered through the same store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from threading import RLock
from typing import Any

from assay.config import RunConfig
from assay.errors import ConfigError, ModelError
from assay.instance import Instance, Message
from assay.models import LM, CostLimit
from assay.run.answerers import ModelAnswerer, ModelStore
from assay.run.doc_work import DocWork
from assay.run.progress import Counts, Progress, Quiet
from assay.run.stored import StoredVerdicts
from assay.store import ResponseStore, request_digest
from assay.tasks import DocRequests


class MessagesOnly(Quiet):
    """How far another model is with its questions is counted with the docs that they are about."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def message(self, text: str) -> None:
        self.progress.message(text)


class Roles:
    """Answers questions by the role they name. Each role keeps its own counts, apart from the model under test."""

    def __init__(
        self,
        config: RunConfig,
        store: ResponseStore | None,
        run: str,
        *,
        load: Callable[[RunConfig, Callable[[str], None]], LM],
        stop: Callable[[], bool],
        progress: Progress,
        counts: Counts,
        stack: ExitStack,
        stored: StoredVerdicts | None = None,
        stored_only: bool = False,
        limit: CostLimit | None = None,
    ) -> None:
        self.config, self.store, self.run, self.stop, self.progress, self.counts = (
            config,
            store,
            run,
            stop,
            progress,
            counts,
        )
        self._load, self._stack, self._stored = load, stack, stored
        self._stored_only = stored_only
        """Whether nothing is sent: a question that was not answered before is a failed one."""
        self._limit = limit
        self._answerers: dict[str, ModelAnswerer] = {}
        self._lock = RLock()
        """Trajectories come side by side: a model is loaded once, and one that takes one stream at a time gets one."""

    def answer(self, task: str, questions: Sequence[Instance]) -> None:
        """Have every question answered; a question that fails carries the reason, as any request does."""
        by_role: dict[str, list[Instance]] = {}
        for question in questions:
            question.note["asked"] = request_digest(question).hex()[:32]
            if self._stored is None or not self._stored.give(task, question):
                by_role.setdefault(question.role, []).append(question)
        if self._stored_only:
            for question in (each for waiting in by_role.values() for each in waiting):
                question.resps = [None] * question.repeats
                question.failure = f"no verdict of the {question.role} was kept for this answer"
            return
        for role, waiting in by_role.items():
            self.counts.questions[role] = (0, len(waiting))

            def done(work: DocWork, role: str = role) -> None:
                answered, total = self.counts.questions[role]
                self.counts.questions[role] = (answered + 1, total)
                self.progress.update(self.counts)

            answerer = self._answerer(role)
            if self._chat_template(role):
                for question in waiting:
                    text, *rest = question.arguments
                    question.arguments = (answerer.lm.to_context([Message("user", text)]), *rest)
            docs = [DocWork(task, DocRequests(q.doc_id, q.doc, q.target, [q])) for q in waiting]
            self._require_same(role, answerer)
            answerer.answer(docs, done)

    def answer_round(self, work: DocWork) -> None:
        """A round of a doc that is for another model than the one under test, such as a simulated user."""
        with self._lock:
            takes_one = self._answerer(work.round[0].role).windows_at_once == 1
        with self._lock if takes_one else nullcontext():
            self.answer(work.task, work.round)

    def _require_same(self, role: str, answerer: ModelAnswerer) -> None:
        """Never the verdicts of two judges in one score."""
        if self._stored is None or role not in self._stored.given:
            return
        if answerer.store is not None:
            answerer.store.recognize()
        before, now = self._stored.fingerprint(role), answerer.lm.fingerprint()
        if (before is not None and before != now) or (answerer.store is not None and answerer.store.is_another):
            raise ModelError(
                f"the {role} is no longer the model whose verdicts {self._stored.source.path} keeps, and some answers still have to be judged",
                hint=f"--role {role}=… judges all of them again.",
            )

    def _chat_template(self, role: str) -> bool | str:
        """Among the role's arguments: `judge=hf,pretrained=NAME,apply_chat_template=true`. Servers of chats have theirs."""
        named = self.config.roles.get(role)
        given: bool | str = False if named is None else named.model_args.get("apply_chat_template", False)
        return given

    def _answerer(self, role: str) -> ModelAnswerer:
        if role not in self._answerers:
            if role not in self.config.roles:
                known = ", ".join(self.config.roles) or "none"
                raise ConfigError(f"this run has no {role}", hint=f"Name one with --role {role}=…; there is: {known}.")
            named = self.config.roles[role]
            arguments = {key: value for key, value in named.model_args.items() if key != "apply_chat_template"}
            template = self._chat_template(role)
            kwargs: dict[str, Any] = {"model": named.model, "model_args": arguments, "apply_chat_template": template}
            kwargs["reasoning_effort"] = None  # meant for the model under test
            self.progress.message(f"loading the {role} model")
            lm = self._load(self.config.model_copy(update=kwargs), self.progress.message)
            if template:
                lm.chat_template(template)
            self._stack.callback(lm.close)
            lm.cost_limit = self._limit
            own = None
            if self.store is not None:
                name = str(named.model_args.get("pretrained") or named.model_args.get("model") or named.model)
                own = ModelStore(self.store, lm, self.config, run=self.run, model=name, notify=self.progress.message)
            self._answerers[role] = ModelAnswerer(
                lm,
                own,
                fresh=self.config.fresh,
                offline=self.config.offline,
                stop=self.stop,
                progress=MessagesOnly(self.progress),
                counts=Counts(),
            )
        return self._answerers[role]

    def spent(self) -> dict[str, dict[str, Any]]:
        """Which model had each role, what was requested of it and what that cost, for `run.json`."""
        spent: dict[str, dict[str, Any]] = {}
        for role, answerer in self._answerers.items():
            counts = answerer.counts
            spent[role] = {
                "fingerprint": answerer.lm.fingerprint(),
                "computed": counts.computed,
                "reused": counts.reused,
                "failed": counts.failed,
            }
            if (usage := answerer.lm.usage) is not None:
                names = ("prompt_tokens", "computed_tokens", "generated_tokens")
                spent[role] |= {name: getattr(usage, name) for name in names}
        return spent

    def summaries(self) -> list[str]:
        """Where each role's answers came from."""
        return [
            f"{role}: {answerer.store.summary(answerer.counts)}"
            for role, answerer in self._answerers.items()
            if answerer.store is not None
        ]
