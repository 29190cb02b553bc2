"""Answers that an earlier run kept in its sample files, and what its judges said of them.

The docs are read and the requests built anew, so that an edited task file is taken as it is now. A doc whose requests
came out different is left out and counted: its kept answer was given to another question.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from assay.finished import stored_docs, stored_questions
from assay.instance import Instance, Response
from assay.results import RunDirectory
from assay.run.units import KeptDoc, Unit
from assay.store import join_digests, request_digest, request_hash


class KeptDocs:
    """The docs of one sample file, each to be taken once. Those that are passed over wait until they are asked for."""

    def __init__(self, path: Path) -> None:
        self._rows = ((doc_id, KeptDoc(*stored)) for doc_id, stored in stored_docs(path))
        self._waiting: dict[int, KeptDoc] = {}

    def take(self, doc_id: int) -> KeptDoc | None:
        if doc_id in self._waiting:
            return self._waiting.pop(doc_id)
        for position, kept in self._rows:
            if position == doc_id:
                return kept
            self._waiting[position] = kept
        return None


class KeptAnswerer:
    """Gives docs their kept responses back."""

    window_requests = 4096
    """No prefixes are to be shared, so a few at once do."""
    windows_at_once = 1

    def __init__(self, source: RunDirectory, *, rebuilt: bool, strict: bool = False) -> None:
        self.source = source
        self.rebuilt = rebuilt
        """Whether prompts can be built as they were: a chat template needs the model, so there they are taken as kept."""
        self.strict = strict
        """Whether prompts that are taken as kept must be those of the kept hash."""
        self._left_out: dict[tuple[str, str], list[int]] = {}
        self._docs: dict[str, KeptDocs] = {}

    def answer(self, units: Sequence[Unit], done: Callable[[Unit], None]) -> None:
        for unit in units:
            self._answer(unit)
            done(unit)

    def check(self, units: Sequence[Unit]) -> None:
        """Only now are all requests of a doc built, and can be compared with those that were answered."""
        for unit in units:
            if unit.kept is None:
                continue
            if not self.rebuilt:
                if len(json.loads(unit.kept.resps)) != len(unit.requests.instances):
                    self._leave_out(unit, "requests would differ", "the number of requests would differ")
                elif self.strict and request_hash(unit.requests.instances) != unit.kept.request_hash:
                    self._leave_out(unit, "requests do not match their hash", "the kept request has another hash")
            elif join_digests(unit.digests) != unit.kept.request_hash:
                self._leave_out(
                    unit, "requests would differ", "the request would differ from the one that was answered"
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

    def _answer(self, unit: Unit) -> None:
        doc = unit.requests
        unit.digests += [request_digest(instance) for instance in unit.round]
        if unit.kept is None:
            if unit.task not in self._docs:
                self._docs[unit.task] = KeptDocs(self.source.sample_file(unit.task))
            unit.kept = self._docs[unit.task].take(doc.doc_id)
        if unit.kept is None or unit.kept.doc_hash != doc.doc_hash:
            self._leave_out(unit, "no kept answer", "the run kept no answer for this doc")
        elif not unit.kept.give_answers(unit.round):
            self._leave_out(unit, "requests would differ", "the number of requests would differ")
        elif not self.rebuilt:
            unit.kept.give_arguments(unit.round)

    def _leave_out(self, unit: Unit, reason: str, failure: str) -> None:
        unit.kept = None
        self._left_out.setdefault((unit.task, reason), []).append(unit.requests.doc_id)
        for instance in unit.requests.instances:
            instance.resps, instance.failure = [], failure


class KeptVerdicts:
    """What judges said in an earlier run, given back where they are asked the same: no judge needs to be reachable for it."""

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
        for kept in self._questions(task, question.doc_id):
            if (
                kept.get("role") == question.role
                and (kept.get("note") or {}).get("asked") == question.note["asked"]
                and kept.get("failure") is None
                and len(kept["resps"]) == question.repeats
            ):
                stops = kept.get("stops") or [None] * len(kept["resps"])
                question.arguments = tuple(kept["arguments"])  # as they were sent, with the chat template around them
                question.resps = list(kept["resps"])
                question.responses = [Response(text, stop) for text, stop in zip(kept["resps"], stops)]
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
