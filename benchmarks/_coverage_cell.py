"""A cell of the coverage grid: one setting, simulated many times with a seed of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any
from unittest import mock

import numpy as np

from assay.stats import INTERVAL_METHODS, Estimate, wilson
from assay.stats.intervals import IntervalMethod, first_that_holds

Rng = np.random.Generator
Found = tuple[float, float, float] | bool | None
"""(low, high, truth); None where the interval is withheld; or whether an error was made."""


@dataclass(frozen=True)
class Cell:
    """One setting."""

    part: str
    name: str
    one: Callable[[Rng], Found]
    slow: bool = False
    safe: bool = False
    """Whether the method is on the safe side by design."""
    most: float = 0.06
    """For errors: the rate above which the cell fails."""
    rivals: Mapping[str, Callable[[Rng], Found]] = field(default_factory=dict)
    """The same data given to other methods, among them rows of `CANDIDATES`: who is narrower, and holds?"""

    @property
    def title(self) -> str:
        return f"{self.part}: {self.name}"

    @property
    def times(self) -> int:
        """Simulated data sets."""
        return 400 if self.slow else 2000

    @property
    def seed(self) -> int:
        """Python's own hash of a text differs from run to run."""
        return int.from_bytes(sha256((self.part + self.name).encode()).digest()[:8], "big")


@dataclass(frozen=True)
class Outcome:
    rate: float
    error: float
    """Half of a 99 % Monte Carlo interval."""
    withheld: float
    width: float | None
    fails: bool
    ratio: float | None = None
    """The width over that of the narrowest rival that holds; None where no rival does."""
    rival: str = ""


RIVAL_TIMES, TRIAL = 400, 20


def run(cell: Cell, times: int) -> Outcome:
    """The cell, and how its width compares with its rivals' and with that of every other method of the registry."""
    found = measured(cell, cell.one, times)
    if found.width is None:
        return found
    rivals = {**cell.rivals, **other_methods(cell)}
    others = {name: measured(cell, one, min(times, RIVAL_TIMES)) for name, one in rivals.items()}
    able = [(o.width, name) for name, o in others.items() if not o.fails and o.width is not None and not o.withheld]
    for width, name in sorted(able):
        # One that is much narrower is looked at as often as it takes to tell 92 from 90 %.
        if width > NARROW * found.width or not measured(cell, rivals[name], CONFIRMING).fails:
            return replace(found, ratio=found.width / min(width, found.width), rival=name)
    return found


RIVAL_TIMES, CONFIRMING, TRIAL = 400, 4000, 20
NARROW = 0.8


def other_methods(cell: Cell) -> Mapping[str, Callable[[Rng], Found]]:
    """Each method of the registry in place of the one that is chosen, where it holds and the interval is another."""
    usual = [cell.one(rng) for rng in [np.random.default_rng(cell.seed)] for _ in range(TRIAL)]
    found = {}
    for name in INTERVAL_METHODS:

        def one(rng: Rng, method: IntervalMethod = INTERVAL_METHODS[name]) -> Found:
            with in_place_of_the_usual(method):
                return cell.one(rng)

        rng = np.random.default_rng(cell.seed)
        if [one(rng) for _ in range(TRIAL)] != usual:
            found[name] = one
    return found


@contextmanager
def in_place_of_the_usual(method: IntervalMethod) -> Iterator[None]:
    def first(methods: Any, evidence: Any, level: float) -> tuple[IntervalMethod, Estimate]:
        is_meant = any(each.of == method.of for each in methods) and method.holds(evidence)
        made = method.estimate(evidence, level) if is_meant else None
        return first_that_holds(methods, evidence, level) if made is None else (method, made)

    with (
        mock.patch("assay.stats.docs.first_that_holds", first),
        mock.patch("assay.stats.children.first_that_holds", first),
        mock.patch("assay.stats.closed_form.first_that_holds", first),
    ):
        yield


def measured(cell: Cell, one: Callable[[Rng], Found], times: int) -> Outcome:
    rng = np.random.default_rng(cell.seed)
    found = [one(rng) for _ in range(times)]
    errors = [each for each in found if isinstance(each, bool | np.bool_)]
    given = [each for each in found if isinstance(each, tuple)]
    n = len(errors) or len(given)
    if not n:
        return Outcome(math.nan, math.nan, 1.0, None, False)
    hits = sum(errors) if errors else sum(low <= truth + 1e-12 and truth - 1e-12 <= high for low, high, truth in given)
    low, high = wilson(hits, n, level=0.99)
    fails = low > cell.most if errors else high < 0.92 or (low > 0.985 and not cell.safe)
    # The median does not follow the few data sets whose interval spans orders of magnitude.
    width = None if errors else float(np.median([high - low for low, high, _ in given]))
    return Outcome(hits / n, (high - low) / 2, 1 - n / times, width, fails)


def held(found: Estimate, truth: float) -> Found:
    return None if found.low is None or found.high is None else (found.low, found.high, truth)


def keys(rng: Rng, n: int) -> np.ndarray:
    return rng.integers(0, 2**63, n, dtype=np.uint64)
