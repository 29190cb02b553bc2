"""What was sent otherwise: the requests of one doc in two runs, piece by piece, each difference under its cause."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from assay.finished import AnsweredDoc, SentRequest, template_around
from assay.instance import Message, context_text, is_chat

BOS = ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<|endoftext|>", "<｜begin▁of▁sentence｜>", "[BOS]")
_TEMPLATE = re.compile(
    r"<\|im_start\|>|<\|im_end\|>|<\|start_header_id\|>|<\|eot_id\|>|\[/?INST\]|<start_of_turn>|<end_of_turn>|<\|user\|>|<\|assistant\|>"
)
_PIECES = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_PIECES = 600
"""Longer differences are taken as one: matching them piece by piece takes the square of their length."""


@dataclass(frozen=True)
class Hints:
    """What the two runs say of their prompts; None where a format keeps no such thing."""

    shots: tuple[int | None, int | None] = (None, None)
    system: tuple[str, str] = ("", "")
    """System instruction, or description."""
    longest: tuple[int, int] = (0, 0)
    """Tokens of the longest prompts of each run, if several are of just that length: they may have been cut there."""
    one_more: bool = False
    """Whether one run reads just one token more in every prompt."""

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

    a: SentRequest
    b: SentRequest
    segments: tuple[Segment, ...]
    """Of the prompts, or of the last turns of two chats."""
    causes: frozenset[str]
    hidden: frozenset[str] = frozenset()
    """Causes that the request does not show: the same text became other tokens."""

    def with_causes(self, chosen: frozenset[str]) -> SentRequest:
        """A's request with what `chosen` names taken from B."""
        text = "".join(s.b if s.cause in chosen else s.a for s in self.segments)
        if isinstance(self.a.prompt, str) and isinstance(self.b.prompt, str):
            prompt: Any = text
        elif is_chat(self.a.prompt) and is_chat(self.b.prompt):
            prompt = self._chat(chosen, text)
        else:
            prompt = self.b.prompt if "chat template" in chosen else self.a.prompt
        settings = dict(self.a.settings)
        if "stop strings" in chosen:
            settings["until"] = self.b.settings.get("until", [])
        if "generation settings" in chosen:
            settings = {**self.b.settings, "until": settings.get("until", [])}
        theirs = {"delimiters", "choices"} & chosen
        return SentRequest(prompt, self.b.continuation if theirs else self.a.continuation, settings)

    def _chat(self, chosen: frozenset[str], last: str) -> tuple[Message, ...]:
        """System turns, examples and the last turn, each from the side that its cause says."""
        a, b = (_parts(request.prompt) for request in (self.a, self.b))
        # Turns that say the same stay as they are, with all that is not text.
        is_same = all(segment.cause is None for segment in self.segments)
        ends = a.last if is_same else tuple(Message(turn.role, last) for turn in a.last)
        return (
            *(b if "system text" in chosen else a).system,
            *(b if "shots" in chosen else a).examples,
            *ends,
        )


def compare_requests(a: AnsweredDoc, b: AnsweredDoc, hints: Hints) -> tuple[RequestChange, ...]:
    return tuple(_change(x, y, hints) for x, y in zip(a.requests, b.requests, strict=False))


def with_tokens(hints: Hints, a: Sequence[AnsweredDoc], b: Sequence[AnsweredDoc]) -> Hints:
    """What all prompts together say of their tokens. One prompt alone may be one token short because it was cut."""
    counts = [[doc.requests[0].tokens or 0 if doc.requests else 0 for doc in docs] for docs in (a, b)]
    more = {y - x for x, y in zip(*counts, strict=True)}
    return replace(
        hints, longest=(_common_maximum(counts[0]), _common_maximum(counts[1])), one_more=more in ({1}, {-1})
    )


def _common_maximum(counts: Sequence[int]) -> int:
    """0 where only one prompt is that long: a limit cuts several."""
    longest = max(counts, default=0)
    return longest if counts.count(longest) > 1 else 0


def causes_of(a: AnsweredDoc, b: AnsweredDoc, changes: Sequence[RequestChange]) -> frozenset[str]:
    """Why the answers of a doc may differ, as far as its requests tell."""
    causes = {cause for change in changes for cause in change.causes}
    if len(a.requests) != len(b.requests):
        causes.add("choices")
    elif any(len(x) != len(y) for x, y in zip(a.responses, b.responses, strict=False)):
        causes.add("repeats")
    return frozenset(causes)


def _change(a: SentRequest, b: SentRequest, hints: Hints) -> RequestChange:
    causes: set[str] = set()
    segments: tuple[Segment, ...] = ()
    if isinstance(a.prompt, str) and isinstance(b.prompt, str):
        segments = tuple(text_segments(a.prompt, b.prompt, hints))
    elif is_chat(a.prompt) and is_chat(b.prompt):
        segments, causes = _chat_changes(_parts(a.prompt), _parts(b.prompt), hints)
    elif a.prompt != b.prompt and None not in (a.prompt, b.prompt) and template_around(a, b) is None:
        causes.add("chat template")
    causes |= {s.cause for s in segments if s.cause is not None}
    hidden = frozenset() if causes else _hidden_causes(a, b, hints)
    if a.continuation != b.continuation:
        same_words = (a.continuation or "").strip() == (b.continuation or "").strip()
        causes.add("delimiters" if same_words else "choices")
    causes |= _setting_causes(a.settings, b.settings)
    return RequestChange(a, b, segments, frozenset(causes | hidden), hidden)


def _hidden_causes(a: SentRequest, b: SentRequest, hints: Hints) -> frozenset[str]:
    """Why the same prompt has another number of tokens in the other run.

    >>> long, cut = SentRequest("…", tokens=90), SentRequest("…", tokens=64)
    >>> _hidden_causes(long, cut, Hints(longest=(120, 64))), _hidden_causes(cut, SentRequest("…", tokens=65), Hints())
    (frozenset({'truncation'}), frozenset({'BOS token'}))
    """
    if a.tokens is None or b.tokens is None or a.tokens == b.tokens:
        return frozenset()
    if hints.one_more:
        return frozenset({"BOS token"})
    shorter = 0 if a.tokens < b.tokens else 1
    if (a.tokens, b.tokens)[shorter] == hints.longest[shorter]:
        return frozenset({"truncation"})
    return frozenset({"BOS token" if abs(a.tokens - b.tokens) == 1 else "tokenizer"})


def _setting_causes(a: Mapping[str, Any], b: Mapping[str, Any]) -> set[str]:
    if not a or not b:  # a format that keeps no settings says nothing about them
        return set()
    causes = set()
    if sorted(map(str, a.get("until") or ())) != sorted(map(str, b.get("until") or ())):
        causes.add("stop strings")
    if {k: v for k, v in a.items() if k != "until"} != {k: v for k, v in b.items() if k != "until"}:
        causes.add("generation settings")
    return causes


@dataclass(frozen=True)
class _ChatParts:
    system: tuple[Message, ...]
    examples: tuple[Message, ...]
    last: tuple[Message, ...]


def _parts(chat: Any) -> _ChatParts:
    turns = tuple(turn for turn in chat if turn.role != "system")
    return _ChatParts(tuple(turn for turn in chat if turn.role == "system"), turns[:-1], turns[-1:])


def _chat_changes(a: _ChatParts, b: _ChatParts, hints: Hints) -> tuple[tuple[Segment, ...], set[str]]:
    """Two chats turn by turn: stretches of the last turns, and what differs before them."""
    causes = {name for name, x, y in (("system text", a.system, b.system), ("shots", a.examples, b.examples)) if x != y}
    segments: tuple[Segment, ...] = ()
    if a.last and b.last:
        segments = tuple(text_segments(_text(a.last[0]), _text(b.last[0]), hints))
    return segments, causes


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
