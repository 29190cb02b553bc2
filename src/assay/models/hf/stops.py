"""When a generation ends, and what of its text is the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.models.hf.tokenization import TextEncoder

_SLACK = 8
"""Tokens decoded beyond what a stop string can need: the first ones of a cut-out may come out broken."""


@dataclass(frozen=True, slots=True)
class StopRules:
    """Stop strings and end tokens of one request.

    A thinking model is stopped by strings only after its thinking: a trace is full of blank lines and question marks
    that are no end of the answer.
    """

    until: tuple[str, ...]
    eos: frozenset[int]
    eos_text: str = ""
    max_gen_toks: int = 256
    think_end_token: str | int | None = None

    @property
    def tail(self) -> int:
        """Tokens that a stop string can be spread over, at worst one for each of its bytes."""
        return max((len(stop.encode()) for stop in self.until), default=0) + _SLACK


def stop_reason(ids: Sequence[int], rules: StopRules, encoder: TextEncoder) -> str | None:
    """Why the generation ends with its last token, or None if it goes on. Asked after each token.

    Stop strings are looked for in decoded text, so it does not matter how the model cut them into tokens; specials are
    kept there, because a stop string may be one.
    """
    if ids[-1] in rules.eos:
        return "eos"
    if rules.until and not _is_thinking(ids, rules, encoder):
        text = encoder.decode(ids[-rules.tail :], skip_special_tokens=False)
        if any(stop in text for stop in rules.until):
            return "stop"
    return "length" if len(ids) >= rules.max_gen_toks else None


def _is_thinking(ids: Sequence[int], rules: StopRules, encoder: TextEncoder) -> bool:
    if rules.think_end_token is None:
        return False
    if isinstance(rules.think_end_token, int):
        return rules.think_end_token not in ids
    return rules.think_end_token not in encoder.decode(ids, skip_special_tokens=False)


def final_text(ids: Sequence[int], rules: StopRules, encoder: TextEncoder) -> str:
    """Decoded without specials, after the thinking, before the first stop string.

    Without an end of thinking the whole text is the answer, as in lm-evaluation-harness.
    """
    think_end = rules.think_end_token
    if isinstance(think_end, int) and think_end in ids:
        last = max(place for place, token in enumerate(ids) if token == think_end)
        text = encoder.decode(ids[last + 1 :]).lstrip()
    elif isinstance(think_end, str) and think_end not in (text := encoder.decode(ids)):
        # The marker may be a special token, which plain decoding leaves out.
        full = encoder.decode(ids, skip_special_tokens=False)
        if think_end in full:
            text = _drop(full.split(think_end)[-1].lstrip(), rules.eos_text)
    else:
        text = encoder.decode(ids)
        if isinstance(think_end, str):
            text = text.split(think_end)[-1].lstrip()
    for stop in rules.until:
        text = text.split(stop)[0]
    return _drop(text, rules.eos_text)


def _drop(text: str, eos: str) -> str:
    return text.split(eos)[0] if eos else text
