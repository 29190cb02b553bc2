"""A cell of the coverage grid: one setting, simulated many times with a seed of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from assay.stats import Estimate, wilson

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


def run(cell: Cell, times: int) -> Outcome:
    found = measured(cell, cell.one, times)
    best: tuple[float, str] | None = None
    for name, one in cell.rivals.items():
        other = measured(cell, one, times)
        if not other.fails and other.width is not None and not other.withheld:
            best = min(best or (math.inf, ""), (other.width, name))
    if best is None or found.width is None:
        return found
    return Outcome(
        found.rate,
        found.error,
        found.withheld,
        found.width,
        found.fails,
        found.width / min(best[0], found.width),
        best[1],
    )


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
