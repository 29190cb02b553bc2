"""What a model was sent for one doc, as text to read: few-shot examples apart from the question, a chat as its turns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from assay.instance import Message, is_chat
from assay.results import TOOK, kept_arguments, unpack_arguments

Request = Sequence[Any]
"""The arguments of one request."""


@dataclass(frozen=True)
class Picture:
    """An image that went to the model. `source` is a `data:` address of a known kind, or empty: nothing is fetched."""

    name: str
    source: str = ""


@dataclass(frozen=True)
class Turn:
    """What one side of a chat said."""

    role: str
    text: str
    pictures: tuple[Picture, ...] = ()
    calls: tuple[Any, ...] = ()
    """Of tools, that an assistant's turn asks for."""
    took: Mapping[str, float] = field(default_factory=dict)
    """Tokens and seconds, as far as they are known of this turn alone."""


@dataclass(frozen=True)
class PromptParts:
    """What the model was sent: `shots` examples first, then the question. A chat has its turns as well."""

    examples: str
    question: str
    shots: int
    example_turns: tuple[Turn, ...] = ()
    turns: tuple[Turn, ...] = ()

    @property
    def text(self) -> str:
        return self.examples + self.question

    def with_pictures(self, pictures: tuple[Picture, ...]) -> PromptParts:
        """With these in the last turn."""
        *before, last = self.turns
        return replace(self, turns=(*before, replace(last, pictures=(*last.pictures, *pictures))))

    @property
    def preamble(self) -> tuple[Turn, ...]:
        """Turns of a chat that stand before its examples, such as the system prompt."""
        if not self.example_turns:
            return ()
        return tuple(takewhile(lambda turn: turn.role not in ("user", "assistant"), self.turns))


def requests_of(row: Mapping[str, Any], *, as_logged: bool = False) -> list[list[Any]]:
    """The requests of a doc; none where the cell holds something else, as a file of somebody else's may.

    A chat is its messages, or, as it is logged, their JSON text.
    """
    try:
        requests = (unpack_arguments if as_logged else kept_arguments)(row["arguments"] or "[]")
        return requests if all(isinstance(request, list) and request for request in requests) else []
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def prompt_of(requests: Sequence[Request], shots: int, delimiter: str) -> PromptParts:
    """The first prompt. Examples of a chat are turns before the last of the user's, or text like any other."""
    context = requests[0][0] if requests else ""
    if is_chat(context):
        asked = [i for i, message in enumerate(context) if message.role == "user"]
        last = asked[-1] if shots and len(asked) > 1 else 0
        # What a system prompt says belongs to the question, not to the examples.
        first = [i for i in range(last) if context[i].role not in ("user", "assistant")]
        examples = [context[i] for i in range(last) if i not in first]
        question = [*(context[i] for i in first), *context[last:]]
        return PromptParts(
            turns_text(examples) + "\n\n" if examples else "",
            turns_text(question),
            shots if examples else 0,
            tuple(map(turn_of_message, examples)),
            tuple(map(turn_of_message, question)),
        )
    return split_prompt(context_of(requests), shots, delimiter)


def turn_of(context: Any) -> Turn | None:
    """The last turn of a chat; what is no chat is what the user said."""
    if is_chat(context):
        return turn_of_message(context[-1]) if context else None
    return None if context is None else Turn("user", str(context))


def turn_of_message(message: Message) -> Turn:
    parts = () if isinstance(message.content, str) else tuple(message.content)
    pictures = tuple(picture for part in parts for picture in _pictures(part))
    told = message.more.get(TOOK)
    spent = told.items() if isinstance(told, Mapping) else ()
    took = {name: value for name, value in spent if isinstance(value, int | float)}
    return Turn(str(message.role), message_text(message), pictures, message.tool_calls, took)


def _pictures(part: Any) -> Iterator[Picture]:
    if isinstance(part, Mapping) and "image" in str(part.get("type", "")):
        given = part.get("image_url", part.get("image", part.get("source")))
        if isinstance(given, Mapping):
            given = next((given[name] for name in ("url", "data", "path") if given.get(name)), "")
        yield picture(given)


def pictures_of(requests: Sequence[Request]) -> Iterator[Picture]:
    """Images that went beside the text of the first request."""
    for argument in requests[0][1:] if requests else ():
        images = argument.get("visual") if isinstance(argument, Mapping) else None
        for given in images if isinstance(images, list) else [images] if images else ():
            yield picture(given)


_IMAGE = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")
_LARGEST = 8 << 20


def picture(given: Any) -> Picture:
    """A picture that is part of the sample is shown; one that lies elsewhere is named, for a run may be anybody's.

    >>> picture("https://example.org/a.png"), picture("data:image/png;base64,iVBOR").source
    (Picture(name='https://example.org/a.png', source=''), 'data:image/png;base64,iVBOR')
    """
    text = str(given)
    if len(text) <= _LARGEST and _IMAGE.fullmatch(text):
        return Picture(f"{text[5 : text.index(';')]}, {3 * len(text) // 4:,} bytes", text)
    return Picture(text if len(text) <= 200 else f"{text[:199]}…")


def context_of(requests: Sequence[Request]) -> str:
    """What the first request begins with, as text."""
    context = requests[0][0] if requests else ""
    return turns_text(context) if is_chat(context) else str(context)


def turns_text(messages: Sequence[Message]) -> str:
    """Turns one after the other. Of parts that are no text only the kind is shown.

    >>> turns_text([Message("user", ({"type": "text", "text": "What is it?"}, {"type": "image_url"}))])
    'user: What is it? [image_url]'
    """

    return "\n\n".join(f"{message.role}: {message_text(message)}" for message in messages)


def message_text(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    parts = [part if isinstance(part, Mapping) else {"text": str(part)} for part in message.content]
    return " ".join(map(_part_text, parts))


def _part_text(part: Mapping[str, Any]) -> str:
    if part.get("type") == "reasoning":
        return f"[reasoning] {part.get('reasoning') or part.get('summary') or '(not told)'}\n\n"
    return str(part["text"]) if "text" in part else f"[{part.get('type', 'part')}]"


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
