"""What a model was sent for one doc, as text to read: few-shot examples apart from the question, a chat as its turns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.instance import Message, is_chat
from assay.results import kept_arguments, unpack_arguments

Request = Sequence[Any]
"""The arguments of one request."""


@dataclass(frozen=True)
class PromptParts:
    """What the model was sent: `shots` examples first, then the question."""

    examples: str
    question: str
    shots: int

    @property
    def text(self) -> str:
        return self.examples + self.question


def requests_of(row: Mapping[str, Any], *, as_logged: bool = False) -> list[list[Any]]:
    """The requests of a doc; none where the cell holds something else, as a file of somebody else's may.

    A chat is its messages, or, as it is logged, their JSON text.
    """
    try:
        requests = (unpack_arguments if as_logged else kept_arguments)(row["arguments"] or "[]")
        return requests if all(isinstance(request, list) and request for request in requests) else []
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


def prompt_of(requests: Sequence[Request], shots: int, delimiter: str) -> PromptParts:
    """The first prompt. Examples of a chat are turns before the last of the user's, or text like any other."""
    context = requests[0][0] if requests else ""
    if shots and is_chat(context):
        asked = [i for i, message in enumerate(context) if message.role == "user"]
        if len(asked) > 1:
            last = asked[-1]
            return PromptParts(turns_text(context[:last]) + "\n\n", turns_text(context[last:]), shots)
    return split_prompt(context_of(requests), shots, delimiter)


def context_of(requests: Sequence[Request]) -> str:
    """What the first request begins with, as text."""
    context = requests[0][0] if requests else ""
    return turns_text(context) if is_chat(context) else str(context)


def turns_text(messages: Sequence[Message]) -> str:
    """Turns one after the other. Of parts that are no text only the kind is shown.

    >>> turns_text([Message("user", ({"type": "text", "text": "What is it?"}, {"type": "image_url"}))])
    'user: What is it? [image_url]'
    """

    def content(message: Message) -> str:
        if isinstance(message.content, str):
            return message.content
        parts = [part if isinstance(part, Mapping) else {"text": str(part)} for part in message.content]
        return " ".join(str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]" for part in parts)

    return "\n\n".join(f"{message.role}: {content(message)}" for message in messages)


def split_prompt(context: str, shots: int, delimiter: str = "\n\n") -> PromptParts:
    """Few-shot examples apart from the question.

    The delimiter may occur inside an example. Examples are worded alike, so the question begins at the last delimiter after
    which the text starts as the examples do, provided that gives the right number of them.

    >>> split_prompt("Q: 1\\n\\nA: 1\\n\\nQ: 2\\n\\nA:", 1).question
    'Q: 2\\n\\nA:'
    """
    if shots < 1 or not delimiter:
        return PromptParts("", context, 0)
    starts = [0, *(match.end() for match in re.finditer(re.escape(delimiter), context))]
    if len(starts) == shots + 1:
        return PromptParts(context[: starts[-1]], context[starts[-1] :], shots)
    heads: dict[str, list[int]] = {}
    for start in starts:
        if head := re.match(r"\s*\S+", context[start : start + 60]):
            heads.setdefault(head[0].strip(), []).append(start)
    for places in heads.values():
        if len(places) == shots + 1:
            return PromptParts(context[: places[-1]], context[places[-1] :], shots)
    return PromptParts("", context, 0)
