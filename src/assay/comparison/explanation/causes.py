"""What was asked otherwise: the requests of one doc in two runs, piece by piece, each difference under its cause."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from assay.comparison.runs import AskedDoc, AskedRequest
from assay.instance import Message, context_text

BOS = ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>", "<｜begin▁of▁sentence｜>", "[BOS]")
_TEMPLATE = re.compile(
    r"<\|im_start\|>|<\|im_end\|>|<\|start_header_id\|>|<\|eot_id\|>|\[/?INST\]|<start_of_turn>|<end_of_turn>|<\|user\|>|<\|assistant\|>"
)
_PIECES = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_PIECES = 600
"""Longer differences are taken as one: matching them piece by piece takes the square of their length."""


@dataclass(frozen=True)
class Hints:
    """What the configs of the two runs say of their prompts; None where a format keeps no such thing."""

    shots: tuple[int | None, int | None] = (None, None)
    system: tuple[str, str] = ("", "")
    """System instruction, or description."""

    @property
    def shots_differ(self) -> bool:
        return self.shots[0] != self.shots[1]


@dataclass(frozen=True)
class Segment:
    """A stretch of two prompts: the same in both, or different for one cause."""

    a: str
    b: str
    cause: str | None = None


@dataclass(frozen=True)
class RequestChange:
    """Where one request of a doc differs. Choosing for each cause whose side to take gives every request in between."""

    a: AskedRequest
    b: AskedRequest
    segments: tuple[Segment, ...]
    causes: frozenset[str]

    def with_causes(self, chosen: frozenset[str]) -> AskedRequest:
        """A's request with what `chosen` names taken from B."""
        if "chat template" in self.causes and not self.segments:
            prompt: Any = self.b.prompt if "chat template" in chosen else self.a.prompt
        else:
            prompt = "".join(s.b if s.cause in chosen else s.a for s in self.segments)
        settings = dict(self.a.settings)
        if "stop strings" in chosen:
            settings["until"] = self.b.settings.get("until", [])
        if "generation settings" in chosen:
            settings = {**self.b.settings, "until": settings.get("until", [])}
        theirs = {"delimiters", "choices"} & chosen
        return AskedRequest(prompt, self.b.continuation if theirs else self.a.continuation, settings)


def compare_requests(a: AskedDoc, b: AskedDoc, hints: Hints) -> tuple[RequestChange, ...]:
    return tuple(_change(x, y, hints) for x, y in zip(a.requests, b.requests, strict=False))


def causes_of(a: AskedDoc, b: AskedDoc, changes: Sequence[RequestChange]) -> frozenset[str]:
    """Why the answers of a doc may differ, as far as its requests tell."""
    causes = {cause for change in changes for cause in change.causes}
    if len(a.requests) != len(b.requests):
        causes.add("choices")
    elif any(len(x) != len(y) for x, y in zip(a.responses, b.responses, strict=False)):
        causes.add("repeats")
    return frozenset(causes)


def _change(a: AskedRequest, b: AskedRequest, hints: Hints) -> RequestChange:
    causes = set()
    segments: tuple[Segment, ...] = ()
    if isinstance(a.prompt, str) and isinstance(b.prompt, str):
        segments = tuple(text_segments(a.prompt, b.prompt, hints))
        causes |= {s.cause for s in segments if s.cause is not None}
    elif a.prompt != b.prompt:
        causes |= _chat_causes(a.prompt, b.prompt, hints)
    if a.continuation != b.continuation:
        same_words = (a.continuation or "").strip() == (b.continuation or "").strip()
        causes.add("delimiters" if same_words else "choices")
    causes |= _setting_causes(a.settings, b.settings)
    return RequestChange(a, b, segments, frozenset(causes))


def _setting_causes(a: Mapping[str, Any], b: Mapping[str, Any]) -> set[str]:
    if not a or not b:  # a format that keeps no settings says nothing about them
        return set()
    causes = set()
    if sorted(map(str, a.get("until") or ())) != sorted(map(str, b.get("until") or ())):
        causes.add("stop strings")
    if {k: v for k, v in a.items() if k != "until"} != {k: v for k, v in b.items() if k != "until"}:
        causes.add("generation settings")
    return causes


def _chat_causes(a: Any, b: Any, hints: Hints) -> set[str]:
    """Two chats are compared turn by turn; a chat and a text differ by the template."""
    if a is None or b is None:
        return set()
    if isinstance(a, str) or isinstance(b, str):
        return {"chat template"}
    causes = set()
    systems = [[turn for turn in chat if turn.role == "system"] for chat in (a, b)]
    if systems[0] != systems[1]:
        causes.add("system text")
    left, right = ([turn for turn in chat if turn.role != "system"] for chat in (a, b))
    if len(left) != len(right):
        causes.add("shots")
    if left and right and left[-1] != right[-1]:
        found = text_segments(_text(left[-1]), _text(right[-1]), hints)
        causes |= {segment.cause for segment in found if segment.cause is not None}
    elif len(left) == len(right) and left != right:
        causes.add("shots")
    return causes


def _text(turn: Message) -> str:
    return turn.content if isinstance(turn.content, str) else context_text((turn,))


def text_segments(a: str, b: str, hints: Hints) -> list[Segment]:
    """Two prompts as stretches that are the same, and stretches that differ for one cause each.

    >>> [(s.a, s.b, s.cause) for s in text_segments("Q: 1+1\\nA:", "<s>Q: 1+1\\n\\nA:", Hints())]
    [('', '<s>', 'BOS token'), ('Q: 1+1', 'Q: 1+1', None), ('\\n', '\\n\\n', 'delimiters'), ('A:', 'A:', None)]
    """
    segments: list[Segment] = []
    marks = [next((mark for mark in BOS if text.startswith(mark)), "") for text in (a, b)]
    if marks[0] != marks[1]:
        segments.append(Segment(marks[0], marks[1], "BOS token"))
        a, b = a[len(marks[0]) :], b[len(marks[1]) :]
    elif marks[0]:
        segments.append(Segment(marks[0], marks[0]))
        a, b = a[len(marks[0]) :], b[len(marks[0]) :]
    if bool(_TEMPLATE.search(a)) != bool(_TEMPLATE.search(b)):
        return [*segments, Segment(a, b, "chat template")]
    said = [_said(text, side) for text, side in zip(hints.system, (a, b), strict=True)]
    if said[0] != said[1]:
        segments.append(Segment(said[0], said[1], "system text"))
        a, b = a[len(said[0]) :], b[len(said[1]) :]
    return [*segments, *_matched(a, b, hints)]


def _said(text: str, prompt: str) -> str:
    """The system text at the start of a prompt, with the blank that sets it off."""
    if not text or not prompt.startswith(text):
        return ""
    rest = prompt[len(text) :]
    return text + rest[: len(rest) - len(rest.lstrip())]


def _matched(a: str, b: str, hints: Hints) -> list[Segment]:
    if a == b:
        return [Segment(a, b)] if a else []
    if a.endswith(b) or b.endswith(a):  # something stands before one of them, or was cut off, maybe inside a word
        rest = min(a, b, key=len)
        more, other = a[: len(a) - len(rest)], b[: len(b) - len(rest)]
        return [Segment(more, other, _lead(more, other, rest, hints)), *([Segment(rest, rest)] if rest else [])]
    left, right = _PIECES.findall(a), _PIECES.findall(b)
    tail = 0
    while tail < min(len(left), len(right)) and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    end = "".join(left[len(left) - tail :])
    left, right = left[: len(left) - tail], right[: len(right) - tail]
    # What stands before a prompt's own text (examples, what was cut off) is one thing, however alike its pieces are.
    if tail and hints.shots_differ:
        return [Segment("".join(left), "".join(right), "shots"), Segment(end, end)]
    if len(left) + len(right) > _MOST_PIECES:
        return [Segment("".join(left), "".join(right), "prompt wording"), *([Segment(end, end)] if end else [])]
    segments = []
    for kind, i, j, k, m in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        one, other = "".join(left[i:j]), "".join(right[k:m])
        segments.append(Segment(one, other, None if kind == "equal" else _wording(one, other)))
    return [*segments, *([Segment(end, end)] if end else [])]


def _lead(a: str, b: str, rest: str, hints: Hints) -> str:
    """Why one prompt has more before the same text, or something else."""
    more = a or b
    if not more.strip():
        return "delimiters"
    if hints.shots_differ:
        return "shots"
    cue = re.match(r"\s*(\w+\s*:)", rest)
    if cue is not None and cue[1] in more:
        return "shots"
    # What a limit cuts off ends where it likes; a paragraph of its own was put there by somebody.
    return "system text" if more.endswith("\n") or rest.startswith("\n") else "truncation"


def _wording(a: str, b: str) -> str:
    bare = re.sub(r"[\s:.,;–—-]", "", a) == re.sub(r"[\s:.,;–—-]", "", b)
    return "delimiters" if bare else "prompt wording"
