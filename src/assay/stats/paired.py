"""The difference of two runs on the same docs.

Two models find the same docs hard, so the difference on each doc varies far less than either score. Differences are
always B − A.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from assay.stats.bootstrap import bootstrap_estimate
from assay.stats.closed_form import rescaled
from assay.stats.estimate import Clusters, Estimate, Floats
from assay.stats.intervals import (
    mcnemar,
    normal_quantile,
    sign_test,
    skewed_interval,
    skewed_p_value,
    spread_of,
    t_quantile,
    t_sf,
)
from assay.stats.units import cluster_index, sums_by


@dataclass(frozen=True)
class Difference:
    """B − A with what is needed to judge it."""

    estimate: Estimate
    a: float
    b: float
    p_value: float | None
    test: str
    spread: float | None
    """The standard error to combine and to plan with: above zero even where no doc differs."""
    freedom: float
    doc_variance: float | None
    """Variance of the difference on one doc: how many docs a decision takes."""
    gained: int | None = None
    lost: int | None = None
    """Docs that were won and lost, where docs are right or wrong."""
    by_docs: bool = False
    """Whether nothing but these counts is behind it: every doc is right or wrong and stands for itself."""
    floor: float = 0.0
    """The part of the variance that no number of docs lowers: what servers add by themselves."""
    interval: Callable[[float], tuple[float, float]] | None = field(default=None, repr=False, compare=False)
    """Level to interval, where there is a better one than value ± t·SE."""

    cautious: Callable[[float], tuple[float, float]] | None = field(default=None, repr=False, compare=False)
    """The same with one doc more that is lost, or won: for what must be shown, not estimated."""

    def cautious_bounds(self, level: float) -> tuple[float, float] | None:
        """For gates and for "no difference": a loss that hits few docs may not have been seen yet."""
        if self.cautious is None or self.spread is None:
            return self.bounds(level)
        return self.cautious(level)

    def bounds(self, level: float) -> tuple[float, float] | None:
        """A two-sided interval at this level."""
        if self.spread is None or self.estimate.value is None:
            return None
        if self.interval is not None:
            return self.interval(level)
        reach = t_quantile((1 + level) / 2, self.freedom) * self.spread
        return self.estimate.value - reach, self.estimate.value + reach


def paired_difference(
    a: Floats,
    b: Floats,
    clusters: Clusters | None = None,
    *,
    level: float = 0.95,
) -> Difference:
    """Means of two runs on the same docs, doc by doc.

    0/1 scores of docs that stand alone get McNemar's test; others, and docs in clusters, the paired t test. Where every
    doc, or cluster, differs by the same amount there is no spread to test with, and directions are counted instead.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if len(a) != len(b):
        raise ValueError(f"{len(a)} scores of A and {len(b)} of B do not form pairs")
    if len(a) == 0:
        nothing = Estimate.missing("no docs in common")
        return Difference(nothing, math.nan, math.nan, None, "none", None, math.inf, None)
    binary = bool(((a == 0) | (a == 1)).all() and ((b == 0) | (b == 1)).all())
    gained = int(((a == 0) & (b == 1)).sum()) if binary else None
    lost = int(((a == 1) & (b == 0)).sum()) if binary else None
    if clusters is None and gained is not None and lost is not None:
        return _binary(a, b, level, gained, lost)
    return replace(_continuous(a, b, clusters, level), gained=gained, lost=lost)


def _binary(a: Floats, b: Floats, level: float, gained: int, lost: int) -> Difference:
    """McNemar's test and Tango's interval. The spread counts half a doc more of each outcome (Agresti and Min 2005)."""
    n = len(a)
    value = (gained - lost) / n
    means = float(a.mean()), float(b.mean())
    p = mcnemar(gained, lost)
    if n == 1:
        return Difference(
            Estimate.bare(value, 1, "one doc"), *means, p, "mcnemar mid-P", None, math.inf, None, gained, lost
        )
    # Σ(d − d̄)² of differences that are −1, 0 or 1.
    stderr = math.sqrt(max(0.0, gained + lost - n * value**2) / (n - 1) / n)
    spread = math.sqrt((gained + lost + 1) - (gained - lost) ** 2 / (n + 2)) / (n + 2)
    interval = partial(tango_interval, gained, lost, n)
    estimate = Estimate(value, stderr, *interval(level), n, "paired score", level=level)
    return Difference(
        estimate,
        *means,
        p,
        "mcnemar mid-P",
        spread,
        math.inf,
        spread**2 * (n + 2),
        gained,
        lost,
        by_docs=True,
        interval=interval,
    )


def influence_difference(
    a: float,
    b: float,
    moves: Floats,
    clusters: Clusters | None = None,
    *,
    lost: float,
    most: float = math.inf,
    test: str = "paired t",
    level: float = 0.95,
) -> Difference:
    """Two numbers on the same docs, from each doc's part in their difference (`moves`, of sum 0), by units.

    Interval and p-value are one method: Student's t on CR2, widened for skewness. `lost` is how far a single doc could
    move the difference, for gates: rare large losses may not have been seen yet. No difference is larger than `most`.
    """

    def ends(stderr: float, level: float) -> tuple[float, float]:
        low, high = skewed_interval(value, stderr, df, skew, level)
        return max(low, -most), min(high, most)

    n, value = len(moves), b - a
    index = None if clusters is None else cluster_index(clusters)
    spread = spread_of(moves * n, np.ones(n), index)
    if spread is None or spread.df < 1:
        bare = Estimate.bare(value, n, "one doc" if n == 1 else "one cluster" if index is not None else "too few docs")
        return Difference(bare, a, b, None, "none", None, 1.0, None)
    stderr, df, skew = spread.stderr, spread.df, spread.skew
    # A unit that is lost is a doc, or half a cluster of the typical size.
    unseen = lost if index is None else lost * n * spread.unit_share * math.sqrt(0.5)
    interval = partial(ends, stderr)
    method = test if index is None else f"{test}, by cluster"
    caution = None if index is None else spread.caution("cluster")
    estimate = Estimate(value, stderr, *interval(level), n, method, level=level, df=df, caution=caution, skew=skew)
    p = skewed_p_value(value, stderr, df, skew)
    cautious = partial(ends, math.hypot(stderr, unseen))
    return Difference(estimate, a, b, p, method, stderr, df, stderr**2 * n, interval=interval, cautious=cautious)


def _continuous(a: Floats, b: Floats, clusters: Clusters | None, level: float) -> Difference:
    d = b - a
    n, value = len(d), float(d.mean())
    moves = (d - value) / n
    index = None if clusters is None else cluster_index(clusters)
    units = n if index is None else int(index.max()) + 1
    by_unit = moves if index is None else sums_by(index, moves)
    if units > 1 and _is_nothing(float(np.abs(by_unit).max()) * n, a, b):
        return _without_spread(a, b, units, level)
    both = np.concatenate([a, b])
    # Scores in [0, 1] may move by 1; of others no more is known than the largest move so far.
    bounded = bool(((both >= 0) & (both <= 1)).all())
    lost = float(1.0 if bounded else np.abs(d).max()) / n
    means = float(a.mean()), float(b.mean())
    most = 1.0 if bounded else math.inf
    return influence_difference(*means, moves, clusters, lost=lost, most=most, level=level)


def _without_spread(
    a: Floats, b: Floats, units: int, level: float, gained: int | None = None, lost: int | None = None
) -> Difference:
    """Every unit (doc or cluster) moved by the same amount, which two units do by accident and two hundred do not.

    The test is the exact one on directions, in which all agree. For the spread see `_least_spread`; scores may differ
    by as much as they do anywhere, zero included.
    """
    value, n = float((b - a).mean()), len(a)
    value = 0.0 if _is_nothing(value, a, b) else value
    both = np.concatenate([a, b, [0.0]])
    spread = _least_spread(value, float(np.ptp(both)) or 1.0, units)
    reach = t_quantile((1 + level) / 2, units - 1) * spread
    estimate = Estimate(value, 0.0, value - reach, value + reach, n, "paired, no spread", level=level)
    p = sign_test(units if value > 0 else 0, units if value < 0 else 0)
    means = float(a.mean()), float(b.mean())
    cautious = partial(_none_seen, value, float(np.ptp(both)) or 1.0, units, spread)
    return Difference(
        estimate, *means, p, "directions", spread, units - 1, spread**2 * n, gained, lost, cautious=cautious
    )


def _none_seen(value: float, most: float, units: int, spread: float, level: float) -> tuple[float, float]:
    """A loss of `most` that hits a share q of the units stays unseen in all of them with a chance of (1 − q)^units."""
    tail = (1 - level) / 2
    reach = max(t_quantile((1 + level) / 2, units - 1) * spread, most * (1 - tail ** (1 / units)))
    return value - reach, value + reach


def _least_spread(value: float, most: float, units: int) -> float:
    """A standard error where the units show none: half a unit more that moved up by `most`, and half that moved down.

    As for 0/1 scores (Agresti and Min 2005), of which it is the case without contrary flips.
    """
    return math.hypot(most, value * math.sqrt(2 * units / (units + 2))) / (units + 2)


def _is_nothing(number: float, *scale: Floats | float) -> bool:
    """Zero but for rounding: 0.3 − 0.2 is not quite 0.2 − 0.1."""
    return abs(number) <= 1e-12 * max(float(np.abs(each).max()) for each in scale)


def replicate_difference(
    a: float, b: float, draws_a: Floats, draws_b: Floats, n: int, *, units: int | None = None, level: float = 0.95
) -> Difference:
    """Any two numbers whose replicates share their weights: a median, f1, a group score.

    A difference of two like numbers is close to symmetric even where both are skewed, so the interval is Student's t on
    the spread of the replicates, in step with the p-value.
    """
    value = b - a
    drawn = bootstrap_estimate(value, draws_b - draws_a, n, units=units, level=level)
    freedom = max(1, (n if units is None else units) - 1)
    if drawn.stderr is None:
        return Difference(drawn, a, b, None, "none", None, freedom, None)
    # Replicates of few units spread less than the units do.
    spread: float | None = drawn.stderr if units is None else drawn.stderr * math.sqrt((freedom + 1) / freedom)
    if _is_nothing(drawn.stderr, a, b):
        # Both move alike in every replicate. How far one doc can move them is then known from their size at most.
        spread = _least_spread(value, max(abs(a), abs(b)), freedom + 1) or None
    if spread is None:
        bare = replace(drawn, stderr=0.0, low=None, high=None, method="no spread", withheld_reason="no spread")
        return Difference(bare, a, b, None, "none", None, freedom, None)
    reach = t_quantile((1 + level) / 2, freedom) * spread
    estimate = replace(drawn, low=value - reach, high=value + reach, method="t on replicates", withheld_reason=None)
    p = _t_p_value(value, spread, freedom)
    return Difference(estimate, a, b, p, "t on replicates", spread, freedom, spread**2 * n)


def p_value_of(value: float, interval: Callable[[float], tuple[float, float]]) -> float:
    """One less the level at which the interval ends at zero."""
    if value == 0:
        return 1.0
    low, high = -12.0, 0.0  # decimal logarithm of the p-value
    for _ in range(26):
        middle = (low + high) / 2
        ends = interval(1 - 10**middle)
        if ends[0] <= 0 <= ends[1]:
            low = middle
        else:
            high = middle
    return float(10**high)


def unpaired_difference(a: Estimate, b: Estimate) -> Difference:
    """Two runs on different docs, or prompts: the errors add up (Welch)."""
    if a.value is None or b.value is None:
        why = a.undefined or b.undefined or "undefined"
        return Difference(Estimate.missing(why), math.nan, math.nan, None, "none", None, math.inf, None)
    value = b.value - a.value
    n = min(a.n, b.n)
    if a.stderr is None or b.stderr is None:
        bare = Estimate.bare(value, n, "no standard error")
        return Difference(bare, a.value, b.value, None, "none", None, math.inf, None)
    stderr = math.hypot(a.stderr, b.stderr)
    freedom = _welch(a, b)
    interval = partial(_side_by_side, value, a, b)
    ends = interval(a.level)
    # The side that reaches towards zero decides, in step with the interval.
    side = value - ends[0] if value > 0 else ends[1] - value
    spread = side / t_quantile((1 + a.level) / 2, freedom)
    if _is_nothing(stderr, a.value, b.value):
        spread = max(spread, _least_spread(value, max(abs(a.value), abs(b.value)) or 1.0, n))
    estimate = Estimate(value, stderr, *ends, n, "unpaired", level=a.level)
    p = 1.0 if spread == 0 else _t_p_value(value, spread, freedom)
    return Difference(estimate, a.value, b.value, p, "unpaired t", spread, freedom, spread**2 * n, interval=interval)


def _side_by_side(value: float, a: Estimate, b: Estimate, level: float) -> tuple[float, float]:
    """The two intervals put together, each side by itself (Newcombe 1998): near 0 and 1 they are lopsided."""
    ends_a, ends_b = rescaled(a, level), rescaled(b, level)
    assert a.value is not None
    assert b.value is not None
    if ends_a is None or ends_b is None:
        reach = t_quantile((1 + level) / 2, _welch(a, b)) * math.hypot(a.stderr or 0.0, b.stderr or 0.0)
        return value - reach, value + reach
    low = math.hypot(b.value - ends_b[0], ends_a[1] - a.value)
    high = math.hypot(ends_b[1] - b.value, a.value - ends_a[0])
    return value - low, value + high


def _welch(a: Estimate, b: Estimate) -> float:
    assert a.stderr is not None
    assert b.stderr is not None
    below = a.stderr**4 / max(1, a.n - 1) + b.stderr**4 / max(1, b.n - 1)
    # Without a spread on either side nothing tells the degrees of freedom but the number of docs.
    return (a.stderr**2 + b.stderr**2) ** 2 / below if below > 0 else float(max(1, min(a.n, b.n) - 1))


def _t_p_value(value: float, stderr: float, freedom: float) -> float:
    return min(1.0, 2 * t_sf(abs(value) / stderr, freedom))


def paired_score(gained: int, lost: int, n: int, difference: float) -> float:
    """How many standard errors the observed difference lies above a supposed one.

    The standard error is the one that the supposed difference itself implies: of all ways to have it, the likeliest
    share of lost docs solves a quadratic equation.
    """
    a = 2.0 * n
    b = -gained - lost + (2 * n - gained + lost) * difference
    c = -lost * difference * (1 - difference)
    share = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * share + difference * (1 - difference))
    distance = gained - lost - n * difference
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def tango_interval(gained: int, lost: int, n: int, level: float) -> tuple[float, float]:
    """Tango's score interval (1998) for the difference of two proportions on the same docs.

    It holds all differences that the flips do not speak against at this level. The simpler value ± z·SE, also with docs
    added to each outcome, lets a gate pass up to 8 % instead of 5 % where flips are few and one-sided; this one holds
    its level on either side.

    >>> [round(end, 4) for end in tango_interval(0, 0, 100, 0.95)]
    [-0.037, 0.037]
    """
    z = normal_quantile((1 + level) / 2)
    return -_upper(lost, gained, n, z), _upper(gained, lost, n, z)


def _upper(gained: int, lost: int, n: int, z: float) -> float:
    """The score falls as the supposed difference grows: halve the range until the crossing is found."""
    low, high = (gained - lost) / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if paired_score(gained, lost, n, middle) > -z:
            low = middle
        else:
            high = middle
    return high
