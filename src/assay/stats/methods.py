"""Interval methods: one registry row each, with the conditions under which it holds.

A number gets the interval of the first method that holds for it, lowest `rank` first. A package adds its own through the entry
points `assay.interval_methods`; a task names one for a metric (`interval: NAME` in `metric_list`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from assay.errors import ConfigError
from assay.registry import Registry
from assay.stats.estimate import Estimate, Floats
from assay.stats.intervals import Spread, spread_of


@dataclass(frozen=True)
class IntervalMethod:
    """How a number gets its interval, and when that is sound.

    `holds(evidence)` looks at a `DocEvidence` or a `ChildEvidence`, by `of`; `estimate(evidence, level)` gives None where the
    method turns out not to hold after all.
    """

    name: str
    when: str
    """The conditions, in words."""
    holds: Callable[[Any], bool]
    estimate: Callable[[Any, float], Estimate | None]
    of: Literal["docs", "children"] = "docs"
    rank: int = 0
    """Of methods that hold, the lowest goes first. Built-in ones begin at `BUILT_IN`."""
    of_ratio: bool = False
    """Whether it gives the interval of Σa/Σb, of which the number may be a monotone function (perplexity, say)."""


BUILT_IN = 100
INTERVAL_METHODS: Registry[IntervalMethod] = Registry("interval method", group="assay.interval_methods")


def methods_of(kind: Literal["docs", "children"]) -> list[IntervalMethod]:
    """In the order in which they are tried."""
    rows = (INTERVAL_METHODS[name] for name in INTERVAL_METHODS)
    return sorted((row for row in rows if row.of == kind), key=lambda row: row.rank)


def method_for_docs(name: str) -> IntervalMethod:
    """The method that a task names for a metric."""
    method = INTERVAL_METHODS[name]
    if method.of != "docs":
        raise ConfigError(f"the interval method {name!r} is for groups, not for the docs of a task")
    return method


def first_that_holds(methods: Sequence[IntervalMethod], evidence: Any, level: float) -> tuple[IntervalMethod, Estimate]:
    for method in methods:
        if method.holds(evidence) and (made := method.estimate(evidence, level)) is not None:
            return method, made
    raise AssertionError("the last method holds always")


@dataclass(frozen=True)
class DocEvidence:
    """What is known of a number that docs make."""

    value: float
    n: int
    clusters: NDArray[np.int64] | None = None
    """The unit of each doc; None where each stands for itself."""
    ratio: tuple[Floats, Floats] | None = None
    """Numerators and denominators, where the number is Σa/Σb or a monotone function of it. A mean has denominators of 1."""
    transform: Callable[[float], float] | None = None
    """That function; None where the number is the ratio."""
    formula: Callable[[float], Estimate] | None = None
    """Level to estimate, where the aggregation has a formula of its own."""
    draws: Callable[[], Floats] = lambda: np.empty(0)
    """Its bootstrap replicates."""
    requested_draws: int = 0
    values: Sequence[Any] = ()
    """What the metric gave for each doc."""
    is_mean: bool = False
    """Whether the number is the plain mean of `values`, which are then numbers."""

    @property
    def units(self) -> int:
        return self.n if self.clusters is None else int(self.clusters.max()) + 1

    @cached_property
    def is_bounded(self) -> bool:
        """Whether every numerator lies between 0 and its denominator, and so the ratio between 0 and 1."""
        a, b = self.pair
        return bool(((a >= 0) & (a <= b)).all())

    @cached_property
    def is_count(self) -> bool:
        """Whether every doc is right or wrong."""
        a, b = self.pair
        return self.is_bounded and bool(((b == 0) | (b == 1)).all() and ((a == 0) | (a == 1)).all())

    @property
    def pair(self) -> tuple[Floats, Floats]:
        assert self.ratio is not None
        return self.ratio

    @cached_property
    def spread(self) -> Spread | None:
        """The error of Σa/Σb by the delta method: that of the average of (a − r·b), by units."""
        a, b = self.pair
        total = float(b.sum())
        return None if total == 0 or len(a) < 2 else spread_of(a - (float(a.sum()) / total) * b, b, self.clusters)

    @property
    def caution(self) -> str | None:
        if self.spread is None or (self.clusters is None and not np.ptp(self.pair[1])):
            return None
        return self.spread.caution("doc" if self.clusters is None else "cluster")
