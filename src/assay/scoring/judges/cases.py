"""What is judged: the answers of a doc, each with the question, the reference and the other answer that it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.data import doc_hash
from assay.errors import AssayError, ConfigError
from assay.instance import Instance, context_text, is_chat
from assay.scoring.judges.kinds import Case, JudgeKind
from assay.scoring.judges.opponents import Opponent
from assay.scoring.results import filtered
from assay.templates import compile_template


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
        """Read the answers to compare with, where there are some, before anything is asked."""
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
        asked = [message.content for message in context if message.role == "user"]
        return asked[-1] if asked and isinstance(asked[-1], str) else context_text(context)
    return context_text(context)
