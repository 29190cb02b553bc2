"""Prompts of conversations with their keys and values: the request of the next step extends that of the last one.

Only what prompts gave is kept, not what was generated behind it: that was computed with other kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from assay.models.hf.decoding import Base
from assay.models.prefix_tree import Tokens, common_prefix

Prompt = tuple[int, ...]
_LEAST = 32
"""A shorter beginning costs less than it takes to look after it."""
_SEAM = 8
"""Tokens at the end of a prompt that may be others when more text follows."""


@dataclass(frozen=True, eq=False, slots=True)
class _Kept:
    tokens: Tokens
    base: Base

    @property
    def size(self) -> int:
        return sum(part.numel() * part.element_size() for pair in self.base.states for part in pair)


class KeptPrompts:
    """At most `most_bytes` of them; the oldest go first."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._kept: list[_Kept] = []
        self._bytes = 0

    def put(self, prompt: Prompt, base: Base) -> None:
        kept = _Kept(np.asarray(prompt, dtype=np.int32), base)
        self._kept.append(kept)
        self._bytes += kept.size
        while self._bytes > self.most_bytes:
            self._bytes -= self._kept.pop(0).size

    def clear(self) -> None:
        self._kept, self._bytes = [], 0

    def parts(self, prompts: Sequence[Prompt]) -> Iterator[tuple[Base | None, int, list[Prompt]]]:
        """The prompts by what they extend, and how much of it they share; those that extend nothing come first, behind what
        all of them share with another. What was extended is given up: the longer prompt takes its place."""
        new: list[Prompt] = []
        found: dict[int, tuple[_Kept, int, list[Prompt]]] = {}
        for prompt in prompts:
            kept, length = self._nearest(prompt)
            if kept is None or length < len(kept.tokens) - _SEAM:
                new.append(prompt)
            else:
                _, before, members = found.get(id(kept), (kept, length, []))
                found[id(kept)] = kept, min(before, length), [*members, prompt]
        if new:
            kept, _ = self._nearest(new[0])
            length = 0 if kept is None else min(_shared(kept, prompt) for prompt in new)
            yield (kept.base, length, new) if kept is not None and length >= _LEAST else (None, 0, new)
        for kept, length, members in found.values():
            yield kept.base, length, members
            if kept in self._kept:
                self._kept.remove(kept)
                self._bytes -= kept.size

    def _nearest(self, prompt: Prompt) -> tuple[_Kept | None, int]:
        """The one that shares most with a prompt."""
        shared = [_shared(kept, prompt) for kept in self._kept]
        longest = max(shared, default=0)
        return (self._kept[shared.index(longest)], longest) if longest >= _LEAST else (None, 0)


def _shared(kept: _Kept, prompt: Prompt) -> int:
    """Of a prompt the last token is always computed: its answer begins there."""
    return common_prefix(kept.tokens, np.asarray(prompt[:-1], dtype=np.int32))
