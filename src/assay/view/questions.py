"""What scoring asked other models about a doc, a judge above all, and what they said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.view.cells import as_list, as_text, read_cell
from assay.view.database import SampleRecord


@dataclass(frozen=True)
class QuestionReply:
    """What another model said; of a judge, with the verdict that was read from it."""

    text: str
    verdict: str | None = None
    """In the words of the scale, or the grade."""
    is_unread: bool = False
    """A judge's reply from which no verdict could be read."""


@dataclass(frozen=True)
class OtherQuestion:
    """A question to another model about the responses, a judge's say, and what it answered."""

    role: str
    question: str
    replies: tuple[QuestionReply, ...]
    about: tuple[str, ...] = ()
    """What tells it from the other questions about this doc: the filter, the part, the draw, the second attempt."""
    failure: str | None = None


def questions_of(row: SampleRecord) -> Iterator[OtherQuestion]:
    """What scoring asked other models about this doc."""
    for question in as_list(read_cell(row.get("questions"), [])):
        if isinstance(question, dict):
            arguments, note = as_list(question.get("arguments")), question.get("note")
            note = note if isinstance(note, dict) else {}
            yield OtherQuestion(
                role=str(question.get("role")),
                question=as_text(arguments[0]) if arguments else "",
                replies=tuple(_reply(text, note, i) for i, text in enumerate(as_list(question.get("resps")))),
                about=tuple(_told_apart(note)),
                failure=None if question.get("failure") is None else as_text(question["failure"]),
            )


def _told_apart(note: Mapping[str, Any]) -> Iterator[str]:
    if note.get("filter", "none") != "none":
        yield f"filter {note['filter']}"
    if note.get("part"):
        yield str(note["part"]).replace("_", " ")
    if note.get("draw"):
        yield f"answer {note['draw'] + 1}"
    if note.get("attempt", 1) != 1:
        yield "asked once more"


def _reply(text: Any, note: Mapping[str, Any], position: int) -> QuestionReply:
    verdicts = note.get("verdicts")
    if not isinstance(verdicts, list) or position >= len(verdicts):
        return QuestionReply(as_text(text))
    value = verdicts[position]
    if not isinstance(value, int | float):
        return QuestionReply(as_text(text), is_unread=True)
    if (
        note.get("part") == "mine second"
    ):  # the judge named the first answer or the second: here it is ours or the other
        value = 1 - value
    allowed = note.get("allowed")
    words = allowed.get("words") if isinstance(allowed, dict) else None
    named = [word for word, stands_for in words.items() if stands_for == value] if isinstance(words, dict) else []
    return QuestionReply(as_text(text), verdict=str(named[0]) if named else f"{value:g}")
