"""How far an average is off: quantiles and exact tests, the spread counted by independent units, the intervals that follow,
and the registry of interval methods.

A number gets the interval of the first method that holds for it, lowest `rank` first. A package adds its own through the entry
points `assay.interval_methods`; a task names one for a metric (`interval: NAME` in `metric_list`). What needs scipy imports it
when it is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from assay.errors import ConfigError
from assay.registry import Registry
from assay.stats.estimate import Estimate, Floats
from assay.stats.units import sums_by

_NORMAL = NormalDist()


def normal_quantile(p: float) -> float:
    return _NORMAL.inv_cdf(p)


def normal_cdf(x: float) -> float:
    return _NORMAL.cdf(x)


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def t_sf(x: float, df: float) -> float:
    """P(T > x)."""
    from scipy.special import stdtr

    return float(stdtr(df, -x))


def binomial_tail(successes: int, n: int, p: float) -> float:
    """P(X ≥ successes) for n tries of probability p."""
    from scipy.special import betainc

    if not 0 < successes <= n:
        return float(successes <= 0)
    return float(betainc(successes, n - successes + 1, p))


def sign_test(up: int, down: int) -> float:
    """Two-sided exact p-value that both directions are equally likely.

    >>> sign_test(1, 9)
    0.021484375
    """
    n = up + down
    return 1.0 if n == 0 else min(1.0, 2 * binomial_tail(max(up, down), n, 0.5))


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided mid-P value that flips in both directions are equally likely: only half of the outcome itself counts.

    Only the docs on which two runs disagree say anything about which is better. The exact test errs in 0.5 to 3 % of
    cases where 5 % are allowed, and misses differences for it; mid-P stays below 5 % (Fagerland and others 2013).

    >>> round(mcnemar(1, 9), 6)
    0.011719
    """
    n = gained + lost
    if gained == lost:
        return 1.0
    most = max(gained, lost)
    return binomial_tail(most, n, 0.5) + binomial_tail(most + 1, n, 0.5)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment; rows without a p-value stay without one and do not count.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    present = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, i) in enumerate(present):
        running = max(running, min(1.0, (len(present) - rank) * p))
        adjusted[i] = running
    return adjusted


@dataclass(frozen=True)
class Spread:
    """The standard error of a ratio of sums Σa/Σb, and what qualifies it. A mean is the ratio with b = 1."""

    stderr: float
    df: float
    """1/Σ share² − 1, where a unit's share is its part of Σb: n − 1 for equal units, fewer where one unit outweighs others."""
    skew: float = 0.0
    """Skewness of the units' residuals over the root of their number: how lopsided the error of the average itself is."""
    largest: float = 0.0
    """The largest share."""

    @property
    def unit_share(self) -> float:
        """The share of a typical unit."""
        return 1 / (self.df + 1)

    def caution(self, unit: str) -> str | None:
        """What to know about an interval that one unit holds up."""
        return f"one {unit} holds {self.largest:.0%} of the weight" if self.largest > _TOO_MUCH else None


_TOO_MUCH = 0.1


def spread_of(residuals: Floats, weights: Floats, index: NDArray[np.int64] | None) -> Spread | None:
    """CR2 (Bell and McCaffrey 2002): a unit that holds the share s of the weight pulls the average towards itself, so
    that its residual is too small by √(1 − s). None with fewer than two units.

    `residuals` are a − (Σa/Σb)·b of the docs, `weights` are b, `index` the docs' units (None: each its own).
    """
    total = float(weights.sum())
    if index is not None:
        residuals, weights = sums_by(index, residuals), sums_by(index, weights)
    share = weights / total
    largest = float(share.max())
    if len(residuals) < 2 or not largest < 1:
        return None
    # Sums of whole numbers are exact in whatever order a processor adds them: n docs by themselves are n units.
    units = total**2 / float(weights @ weights)
    # In place: with many docs, each array less is megabytes less.
    squares = residuals**2
    squares /= np.subtract(1, share, out=share)
    variance = float(squares.sum())
    del share, squares
    skew = 0.0
    if variance > 0 and units > 3:
        cubes = float((residuals**3).sum()) / units
        skew = cubes / (float((residuals**2).sum()) / units) ** 1.5
        skew *= math.sqrt(units * (units - 1)) / (units - 2) / math.sqrt(units)
    return Spread(math.sqrt(variance) / abs(total), units - 1, skew, largest)


# Any numbers


def skewed_reach(quantile: float, skew: float) -> tuple[float, float]:
    """How many standard errors an interval reaches down and up: Student's t, or where skewness asks for more, Hall (1992).

    Averages of a few skewed values miss on the side of the long tail: with log-normal values and 20 docs, t intervals
    hold the mean in 87 % of cases and these in 93 %.
    """
    return max(quantile, _hall(quantile, skew)), max(quantile, _hall(quantile, -skew))


def _hall(quantile: float, a: float) -> float:
    """The inverse of Hall's monotone cubic, which takes the skewness out of a t statistic."""
    if abs(a) < 1e-9:
        return quantile
    return 3 / a * (math.copysign(abs(x := 1 + a * (quantile - a / 6)) ** (1 / 3), x) - 1)


def skewed_interval(value: float, stderr: float, df: float, skew: float, level: float) -> tuple[float, float]:
    down, up = skewed_reach(t_quantile((1 + level) / 2, df), skew)
    return value - down * stderr, value + up * stderr


def skewed_p_value(value: float, stderr: float, df: float, skew: float) -> float:
    """The error rate at which the interval just touches zero."""
    if stderr == 0:
        return float(value == 0)
    x, a = abs(value) / stderr, skew if value > 0 else -skew
    reached = x if abs(a) < 1e-9 else min(x, ((1 + a * x / 3) ** 3 - 1) / a + a / 6)
    return min(1.0, 2 * t_sf(max(0.0, reached), df))


def log_normal_end(values: Floats, level: float) -> float | None:
    """Cox's upper end for the mean of log-normal values (Zhou and Gao 1997); None unless they spread like such ones.

    The docs that hold most of such a mean are rare, and where a sample has none of them, nothing in Student's t tells.
    Spread is asked for twice, of all docs and of the upper half: an exponential has small values enough for the first.
    """
    n = len(values)
    if n < 5 or not values.min() > 0:
        return None
    logs = np.log(values)
    variance = float(logs.var(ddof=1))
    middle, upper = np.quantile(logs, [0.5, 0.9])
    if variance < _ORDERS**2 or (upper - middle) / 1.2816 < _ORDERS:
        return None
    reach = t_quantile((1 + level) / 2, n - 1) * math.sqrt(variance / n + variance**2 / (2 * (n - 1)))
    exponent = float(logs.mean()) + variance / 2 + reach
    return math.exp(exponent) if exponent < _LARGEST_EXPONENT else math.inf


_ORDERS = 1.4
"""Standard deviation of logarithms: two in three docs lie within a factor of 16."""
_LARGEST_EXPONENT = 700.0


# Numbers between 0 and 1


def wilson_interval(p: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion of `n` docs, `n` not necessarily whole."""
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (0.0 if p == 0 else max(0.0, centre - reach)), (1.0 if p == 1 else min(1.0, centre + reach))


def bounded_interval(
    value: float,
    stderr: float,
    df: float,
    level: float,
    *,
    lost: float | None = None,
    most: float = math.inf,
    more: float = 0.5,
) -> tuple[float, float]:
    """A score interval for an average of values in [0, 1]: Wilson's, for as many independent docs of 0 or 1 as would
    have this standard error.

    `more` of a unit at either end counts in the spread, with a share of `lost`: units that are all right may still go
    wrong. Left out, it is a typical unit's. `most` bounds the number of docs where it is known: 0/1 scores are worth no more than their own number. An infinite
    `df` takes the normal quantile.
    """
    share = 1 / (df + 1) if lost is None or (lost == 0 and stderr == 0) else lost
    variance = stderr**2 + more * (value**2 + (1 - value) ** 2) * share**2
    centre = (value + more * share) / (1 + 2 * more * share)
    worth = min(most, centre * (1 - centre) / variance)
    half = (1 + level) / 2
    return wilson_interval(value, worth, normal_quantile(half) if math.isinf(df) else t_quantile(half, df))


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
        if total == 0 or len(a) < 2:
            return None
        expected = (float(a.sum()) / total) * b
        residuals = a - expected
        if np.abs(residuals).max() <= 1e-12 * np.abs(expected).max():
            residuals[:] = 0.0  # rounding is no spread
        return spread_of(residuals, b, self.clusters)

    @property
    def caution(self) -> str | None:
        if self.spread is None or (self.clusters is None and not np.ptp(self.pair[1])):
            return None
        return self.spread.caution("doc" if self.clusters is None else "cluster")
