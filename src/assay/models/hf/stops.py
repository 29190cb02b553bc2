"""When a generation ends, and what of its text is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.models.hf.tokenization import TextEncoder

_SLACK = 8
"""Tokens decoded beyond what a string can need: the first ones of a cut-out may come out broken."""


@dataclass(frozen=True, slots=True)
class StopRules:
    """Stop strings and end tokens of one request.

    A thinking model is stopped by strings only after its thinking, and after the blank that follows it: a trace is full of
    blank lines and question marks that are no end of the answer, and `</think>\\n\\n` is how most answers begin.
    """

    until: tuple[str, ...]
    eos: frozenset[int]
    eos_text: str = ""
    max_gen_toks: int = 256
    think_end_token: str | int | None = None
    """Where thinking is known to end: what comes before it is thought."""
    thoughts: tuple[str, str] | None = None
    """Marks in which thoughts may begin and end, where the model opens them itself."""


class StopWatch:
    """One generation, watched token by token. Only its last tokens are decoded, however long it gets.

    Stop strings are looked for in decoded text, so it does not matter how the model cut them into tokens; specials are
    kept there, because a stop string may be one.
    """

    def __init__(self, rules: StopRules, encoder: TextEncoder) -> None:
        self.rules = rules
        self.encoder = encoder
        self._stop_tail = _tail(rules.until)
        self._answer_from: int | None = 0 if rules.think_end_token is None else None
        """Place of the first token that is neither thought nor the blank after it; None while the model thinks."""
        self._mark = rules.think_end_token

    def reason(self, ids: Sequence[int]) -> str | None:
        """Why the generation ends with its last token, or None if it goes on. To be called after every token."""
        if ids[-1] in self.rules.eos:
            return "eos"
        if self._mark is None and self.rules.thoughts and len(ids) <= _tail(self.rules.thoughts[:1]):
            self._mark = opened_thought(ids, self.rules, self.encoder)
            self._answer_from = self._answer_from if self._mark is None else None
        if self._answer_from is None:
            self._answer_from = len(ids) if self._thinking_ends(ids) else None
        elif self._holds_stop(ids):
            return "stop"
        return "length" if len(ids) >= self.rules.max_gen_toks else None

    def _thinking_ends(self, ids: Sequence[int]) -> bool:
        mark = self._mark
        if not isinstance(mark, str):
            return ids[-1] == mark
        return mark in self.encoder.decode(ids[-_tail([mark]) :], skip_special_tokens=False)

    def _holds_stop(self, ids: Sequence[int]) -> bool:
        if not self.rules.until or self._answer_from is None:
            return False
        first = max(self._answer_from, len(ids) - self._stop_tail)
        text = self.encoder.decode(ids[first:], skip_special_tokens=False)
        if self._mark is not None and first == self._answer_from:
            text = text.lstrip()
            self._answer_from = first if text else len(ids)
        return any(stop in text for stop in self.rules.until)


def _tail(strings: Sequence[str]) -> int:
    """Tokens that one of the strings can be spread over, at worst one for each of its bytes."""
    return max((len(string.encode()) for string in strings), default=0) + _SLACK


def stop_reason(ids: Sequence[int], rules: StopRules, encoder: TextEncoder) -> str | None:
    """The same for a generation that was not watched from its start."""
    if ids[-1] in rules.eos:
        return "eos"
    mark = rules.think_end_token or opened_thought(ids, rules, encoder)
    if mark is None:
        text = encoder.decode(ids[-_tail(rules.until) :], skip_special_tokens=False)
    else:
        text = _split_thinking(ids, mark, encoder, skip_special_tokens=False)[1] or ""
    if any(stop in text for stop in rules.until):
        return "stop"
    return "length" if len(ids) >= rules.max_gen_toks else None


def final_text(ids: Sequence[int], rules: StopRules, encoder: TextEncoder) -> tuple[str | None, str]:
    """The reasoning, and the answer: decoded without specials, after the reasoning, before the first stop string.

    Without an end of thinking the whole text is the answer, as in lm-evaluation-harness.
    """
    reasoning, text = None, None
    opened = opened_thought(ids, rules, encoder) if rules.think_end_token is None else None
    mark = rules.think_end_token or opened
    if mark is not None:
        reasoning, text = _split_thinking(ids, mark, encoder)
        if text is None:  # the marker may be a special token, which plain decoding leaves out
            reasoning, text = _split_thinking(ids, mark, encoder, skip_special_tokens=False)
    if opened is not None:
        if text is None:  # it was opened, and never ended
            reasoning, text = encoder.decode(ids, skip_special_tokens=False), ""
        reasoning = (reasoning or "").lstrip().removeprefix(rules.thoughts[0] if rules.thoughts else "").strip()
    if text is None:
        text = encoder.decode(ids)
    for stop in (*rules.until, rules.eos_text):
        text = text.split(stop)[0] if stop else text
    return reasoning, text


def opened_thought(ids: Sequence[int], rules: StopRules, encoder: TextEncoder) -> str | None:
    """The mark that ends the thought with which the generation began; None where it began with none."""
    if not rules.thoughts or not ids:
        return None
    opening, closing = rules.thoughts
    text = encoder.decode(ids[: _tail([opening])], skip_special_tokens=False).lstrip()
    return closing if text.startswith(opening) else None


def _split_thinking(
    ids: Sequence[int], mark: str | int, encoder: TextEncoder, *, skip_special_tokens: bool = True
) -> tuple[str, str] | tuple[None, None]:
    """What stands before the last mark, and what follows it without the blank; None while there is no mark."""
    if isinstance(mark, int):
        places = [place for place, token in enumerate(ids) if token == mark]
        if not places:
            return None, None
        parts = (ids[: places[-1]], ids[places[-1] + 1 :])
        before, after = (encoder.decode(part, skip_special_tokens=skip_special_tokens) for part in parts)
        return before, after.lstrip()
    before, separator, after = encoder.decode(ids, skip_special_tokens=skip_special_tokens).rpartition(mark)
    return (before, after.lstrip()) if separator else (None, None)
