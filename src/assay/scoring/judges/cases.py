"""What is judged: the answers of a doc, each with the question, the reference and the other answer that it is compared with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.data import doc_hash
from assay.errors import AssayError, ConfigError
from assay.instance import Instance, context_text, is_chat
from assay.results import RunDirectory, read_columns
from assay.scoring.judges.kinds import Case, JudgeKind
from assay.scoring.judges.labels import read_rows
from assay.scoring.results import filtered
from assay.templates import compile_template

_FORM = 'Use a run directory, or a JSONL file with {"doc_hash": "…", "answer": "…"} (or doc_id) on each line.'


@dataclass(frozen=True)
class Opponent:
    """Answers by the hash of the doc, or where a file has none by its position."""

    by_hash: dict[str, str]
    by_id: dict[int, str]

    def answer(self, doc_hash: str, doc_id: int) -> str | None:
        return self.by_hash.get(doc_hash, self.by_id.get(doc_id))

    @classmethod
    def read(cls, given: str, task: str, filter_name: str) -> Opponent:
        path = Path(given).expanduser()
        if path.is_dir():
            return cls(dict(_of_run(RunDirectory.open(path), task, filter_name)), {})
        if path.is_file():
            return _of_file(path)
        raise ConfigError(f"the opponent {given!r} does not exist", hint=_FORM)


def _of_run(run: RunDirectory, task: str, filter_name: str) -> Iterator[tuple[str, str]]:
    """Under the same filter where the run has it, else under its first: the first row of a doc is of that."""
    path = run.sample_file(task)
    if not path.is_file():
        raise ConfigError(f"the opponent {run.path} kept no samples of {task!r}", hint=_FORM)
    seen: dict[str, str] = {}
    for doc, name, text, raw in read_columns(path, ["doc_hash", "filter", "filtered_resps", "resps"]):
        if name == filter_name or doc not in seen:
            left = json.loads(text)
            # A run of answers only (`--predict_only`) applied no filter.
            seen[doc] = _text(json.loads(raw) if all(each is None for each in left) else left)
    yield from seen.items()


def _text(responses: Any) -> str:
    """The last request's answer, which ends a conversation; the first of several draws."""
    last = responses[-1] if isinstance(responses, list) and responses else ""
    while isinstance(last, list) and last:
        last = last[0]
    return last if isinstance(last, str) else ""


def _of_file(path: Path) -> Opponent:
    by_hash: dict[str, str] = {}
    by_id: dict[int, str] = {}
    for place, row in read_rows(path, "opponent", _FORM):
        try:
            answer = row["answer"]
            if "doc_hash" in row:
                by_hash[str(row["doc_hash"])] = str(answer)
            else:
                by_id[int(row["doc_id"])] = str(answer)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{place}: {error!r}", hint=_FORM) from error
    return Opponent(by_hash, by_id)


class Cases:
    """Makes the cases of docs. `question`, `reference` and `opponent_answer` are templates over the doc."""

    def __init__(
        self,
        kind: JudgeKind,
        question: str | None = None,
        reference: str | None = None,
        opponent: str | None = None,
        opponent_answer: str | None = None,
    ) -> None:
        self.kind, self.question, self.reference = kind, question, reference
        self.opponent, self.opponent_answer = opponent, opponent_answer
        self._opponents: dict[tuple[str, str], Opponent] = {}
        if kind.needs_opponent and opponent is None and opponent_answer is None:
            raise ConfigError(
                "a pairwise judge has nothing to compare with",
                hint="Set opponent to a run directory or a JSONL file with doc_hash and answer, or opponent_answer to a template.",
            )

    def prepare(self, task: str, filter_name: str) -> None:
        """Read the answers to compare with, where there are some, before anything is sent."""
        if self.opponent is not None:
            self._opponent_of(task, filter_name)

    def of(self, instances: Sequence[Instance], filter_name: str) -> list[Case]:
        """One for each draw of the answer; none where the filter dropped the doc or the opponent has no answer."""
        last = instances[-1]
        if filter_name not in last.filtered_resps:
            return []
        try:
            opponent = self._answer_of_opponent(last, filter_name)
            if self.kind.needs_opponent and opponent is None:
                return []
            return [self._case(instances, text, filter_name, opponent) for text in texts(filtered(last, filter_name))]
        except AssayError as error:
            place = f"task {last.task_name!r}, doc {last.doc_id}"
            raise type(error)(f"{place}: {error.message}", hint=error.hint) from error

    def _case(self, instances: Sequence[Instance], answer: str, filter_name: str, opponent: str | None) -> Case:
        first, last = instances[0], instances[-1]
        turns: list[tuple[str, str]] = []
        if self.kind.needs_turns:
            said = [texts(filtered(each, filter_name))[0] for each in instances[:-1]]
            turns = list(zip(map(said_to, instances), [*said, answer]))
        question = said_to(first if self.kind.needs_turns else last)
        return Case(
            last.doc,
            question if self.question is None else compile_template(self.question).render(last.doc),
            answer,
            self._reference(last),
            turns,
            opponent,
        )

    def _answer_of_opponent(self, last: Instance, filter_name: str) -> str | None:
        if self.opponent_answer is not None:
            return compile_template(self.opponent_answer).render(last.doc)
        if not self.kind.needs_opponent:
            return None
        return self._opponent_of(last.task_name, filter_name).answer(doc_hash(last.doc), last.doc_id)

    def _opponent_of(self, task: str, filter_name: str) -> Opponent:
        if (task, filter_name) not in self._opponents:
            assert self.opponent is not None
            self._opponents[task, filter_name] = Opponent.read(self.opponent, task, filter_name)
        return self._opponents[task, filter_name]

    def _reference(self, instance: Instance) -> str | None:
        if self.reference is not None:
            return compile_template(self.reference).render(instance.doc) or None
        target = instance.target
        if instance.choices is not None and isinstance(target, int) and 0 <= target < len(instance.choices):
            return instance.choices[target]
        if isinstance(target, list | tuple):
            return " or ".join(map(str, target)) or None
        return None if target is None or not str(target).strip() else str(target)


def texts(response: Any) -> list[str]:
    """What a filter left of the answer, one text a draw."""
    return [str(each) for each in response] if isinstance(response, list) else [str(response)]


def said_to(instance: Instance) -> str:
    """What the user said last: the turn itself where the task noted it, the last message of a chat, or the whole prompt."""
    noted = instance.note.get("said")
    if noted is not None:
        return str(noted)
    context = instance.arguments[0]
    if is_chat(context):
        said = [message.content for message in context if message.role == "user"]
        return said[-1] if said and isinstance(said[-1], str) else context_text(context)
    return context_text(context)
