"""Cutting requests into shards along the prefix tree, so that what is shared is computed in one place.

Sorting by prompt walks the tree of prefixes depth first; a shard is a stretch of that walk. It ends where two neighbours
have least in common: between subjects rather than between questions, between questions rather than between choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from assay.instance import Instance, context_text

SMALLEST, LARGEST = 8, 4096
TARGET_SECONDS = 5.0
"""How long a shard should take: long enough that handing it out costs nothing, short enough to lose little with it."""


@dataclass(slots=True, eq=False)
class Shard:
    """Positions of some requests, and what they did to replicas so far."""

    positions: list[int]
    deaths: list[str] = field(default_factory=list)
    """Why each replica ended that was working on it."""

    def __len__(self) -> int:
        return len(self.positions)


class ShardCutter:
    """Gives out one shard after the other, each as large as whoever takes it can use."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self._prompts = [_prompt(instance) for instance in instances]
        self._order = sorted(range(len(instances)), key=self._prompts.__getitem__)
        self._at = 0

    @property
    def remaining(self) -> int:
        return len(self._order) - self._at

    def take(self, size: int) -> Shard | None:
        """About `size` of what remains, or None when nothing does."""
        if not self.remaining:
            return None
        end = self._best_cut(self._at + max(1, size))
        shard = Shard(self._order[self._at : end])
        self._at = end
        return shard

    def _best_cut(self, wanted: int) -> int:
        """The place near `wanted` whose two neighbours share least; the nearest one among equals."""
        last = len(self._order)
        if wanted >= last:
            return last
        slack = max(1, (wanted - self._at) // 4)
        places = range(max(self._at + 1, wanted - slack), min(last, wanted + slack) + 1)
        return min(places, key=lambda at: (self._shared(at), abs(at - wanted)))

    def _shared(self, at: int) -> int:
        """How many characters the prompts on both sides of a cut share; at the very end, none."""
        if at >= len(self._order):
            return 0
        return common_prefix(self._prompts[self._order[at - 1]], self._prompts[self._order[at]])


def shard_size(*, remaining: int, replicas: int, requests_per_second: float | None) -> int:
    """As many requests as take a few seconds, but never so many that others would be left without work at the end.

    >>> shard_size(remaining=16000, replicas=2, requests_per_second=None)
    32
    >>> shard_size(remaining=16000, replicas=2, requests_per_second=10_000)
    4000
    >>> shard_size(remaining=100, replicas=2, requests_per_second=10_000)
    25
    """
    by_time = 4 * SMALLEST if requests_per_second is None else int(requests_per_second * TARGET_SECONDS)
    fair = -(-remaining // (2 * max(1, replicas)))
    return max(SMALLEST, min(LARGEST, by_time, fair))


def common_prefix(one: str, two: str) -> int:
    """
    >>> common_prefix("The sky is", "The sea")
    5
    """
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(two[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


def _prompt(instance: Instance) -> str:
    return context_text(instance.arguments[0]) if instance.arguments else ""
