"""Few-shot examples: which docs, drawn how, and never the doc that is asked about.

One generator per task is consumed in the order of the docs, so that the draws are those of lm-evaluation-harness. A
sampler draws positions in the pool, not docs: the pool is read only where it is drawn from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol, TypeAlias

from assay.errors import DataError
from assay.registry import Registry

IsAsked: TypeAlias = Callable[[int], bool]
"""Whether the doc at this position of the pool is the doc that is asked about."""


class Sampler(Protocol):
    """Draws `n` positions out of a pool of `size` docs. `exclude` is given where lm-evaluation-harness excludes the doc."""

    def draw(self, n: int, exclude: IsAsked | None) -> list[int]: ...

    def another(self, drawn: Sequence[int], is_asked: IsAsked, key: str) -> int | None:
        """A further position for a doc that was drawn as its own shot, without touching the generator of the others."""


class RandomSampler:
    """`default`: without replacement, afresh for every doc.

    Where the doc is excluded, one more is drawn and the doc removed; if copies of it were drawn too, all are drawn
    again from the rest.
    """

    def __init__(self, size: int, seed: int | None) -> None:
        self.size, self.seed = size, seed
        self._random = Random(seed)

    def draw(self, n: int, exclude: IsAsked | None) -> list[int]:
        _check_size(n, self.size)
        if exclude is None:
            return self._random.sample(range(self.size), n)
        drawn = self._random.sample(range(self.size), min(n + 1, self.size))
        kept = [i for i in drawn if not exclude(i)][:n]
        if len(kept) < n:
            others = [i for i in range(self.size) if not exclude(i)]
            _check_size(n, len(others), besides=True)
            kept = self._random.sample(others, n)
        return kept

    def another(self, drawn: Sequence[int], is_asked: IsAsked, key: str) -> int | None:
        apart = Random(f"{self.seed}/{key}")
        for position in apart.sample(range(self.size), min(self.size, len(drawn) + 8)):
            if position not in drawn and not is_asked(position):
                return position
        return next((i for i in range(self.size) if i not in drawn and not is_asked(i)), None)


class FirstSampler:
    """`first_n`: the first ones, in order; where one is the doc itself, the next one moves up."""

    def __init__(self, size: int, seed: int | None) -> None:
        self.size = size

    def draw(self, n: int, exclude: IsAsked | None) -> list[int]:
        _check_size(n, self.size)
        if exclude is None:
            return list(range(n))
        found: list[int] = []
        for position in range(self.size):
            if len(found) == n:
                break
            if not exclude(position):
                found.append(position)
        _check_size(n, len(found), besides=True)
        return found

    def another(self, drawn: Sequence[int], is_asked: IsAsked, key: str) -> int | None:
        return next((i for i in range(self.size) if i not in drawn and not is_asked(i)), None)


def _check_size(n: int, size: int, *, besides: bool = False) -> None:
    if n > size:
        other = " besides the doc itself" if besides else ""
        raise DataError(
            f"{n} shots were asked for, but the few-shot split has {size} docs{other}",
            hint="Ask for fewer with --num_fewshot, or name a larger fewshot_split.",
        )


SamplerFactory: TypeAlias = Callable[[int, int | None], Sampler]

SAMPLERS: Registry[Any] = Registry("few-shot sampler", group="assay.samplers")
"""Name to `(size of the pool, seed) -> Sampler`."""
SAMPLERS.add("default", RandomSampler)
SAMPLERS.add("first_n", FirstSampler)
