"""Standard errors and intervals that have a formula: of means, ratios, proportions, correlations, and of group means."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from assay.stats.estimate import Basis, Clusters, Estimate, Floats, Keys, is_a_point
from assay.stats.intervals import (
    INTERVAL_METHODS,
    DocEvidence,
    IntervalMethod,
    Spread,
    bounded_interval,
    first_that_holds,
    log_normal_end,
    normal_quantile,
    skewed_interval,
    skewed_reach,
    spread_of,
    t_quantile,
    wilson_interval,
)
from assay.stats.profile import docs_worth, mean_ends
from assay.stats.units import cluster_index, sums_by


def mean(values: Iterable[float]) -> float:
    """The plain mean, summed in order as lm-evaluation-harness does (numpy's pairwise sum has another last digit)."""
    items = _floats(values)
    return sum(items) / len(items)


def mean_stderr(values: Iterable[float]) -> float | None:
    """√(Σ(x−x̄)²/(n−1)) / √n, in lm-evaluation-harness's order of operations, so that it agrees to the last digit.

    >>> mean_stderr([0.0, 1.0, 1.0, 0.0])
    0.28867513459481287
    """
    items = _floats(values)
    n = len(items)
    if n < 2:
        return None
    mu = sum(items) / n
    return math.sqrt(sum((x - mu) ** 2 for x in items) / (n - 1)) / math.sqrt(n)


def mean_estimate(
    values: Floats | Sequence[float], clusters: Clusters | None = None, *, level: float = 0.95
) -> Estimate:
    """A mean: Wilson where every value is 0 or 1, a score interval in [0, 1], else Student's t; by cluster where given."""
    items = _floats(values)
    if not items:
        return Estimate.missing("no docs")
    array = np.asarray(items, dtype=np.float64)
    estimate = ratio_estimate(array, np.broadcast_to(1.0, len(array)), clusters, level=level)
    value = sum(items) / len(items)
    if clusters is None and estimate.stderr is not None:
        return replace(estimate, value=value, stderr=mean_stderr(items) if estimate.stderr else 0.0)
    return replace(estimate, value=value)


def ratio_spread(numerators: Floats, denominators: Floats, clusters: Clusters | None = None) -> Spread | None:
    """The error of Σa/Σb by the delta method: that of the average of (a − r·b), by units."""
    return _ratio_evidence(numerators, denominators, clusters).spread


def ratio_estimate(
    numerators: Floats,
    denominators: Floats,
    clusters: Clusters | None = None,
    *,
    level: float = 0.95,
    may_be_share: bool = True,
) -> Estimate:
    """A ratio of sums (bits per byte, corpus perplexity before the exponent, F1 as a share of hits, a mean).

    Where every numerator lies between 0 and its denominator, so does the ratio, and its interval is a score interval; unless
    it only happens to be so, as with seconds per solved doc (`may_be_share` off).
    """
    evidence = _ratio_evidence(numerators, denominators, clusters)
    n = evidence.n
    if n == 0:
        return Estimate.missing("no docs")
    if float(evidence.pair[1].sum()) == 0:
        return Estimate.missing("the denominators add up to zero", n)
    return first_that_holds(RATIO_METHODS if may_be_share else RATIO_METHODS[2:], evidence, level)[1]


def _ratio_evidence(numerators: Floats, denominators: Floats, clusters: Clusters | None) -> DocEvidence:
    a, b = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    total = float(b.sum())
    index = None if clusters is None else cluster_index(clusters)
    return DocEvidence(float(a.sum()) / total if total else math.nan, len(a), index, ratio=(a, b))


def _one_unit(evidence: DocEvidence, level: float) -> Estimate:
    n = evidence.n
    reason = "one doc" if n == 1 else "one cluster" if evidence.clusters is not None else "one doc counts"
    return Estimate.bare(_ratio(evidence), n, reason)


def _ratio(evidence: DocEvidence) -> float:
    a, b = evidence.pair
    return float(a.sum()) / float(b.sum())


def _wilson(evidence: DocEvidence, level: float) -> Estimate | None:
    if evidence.spread is None:
        return None
    value, total = _ratio(evidence), float(evidence.pair[1].sum())
    low, high = wilson_interval(value, total, normal_quantile((1 + level) / 2))
    stderr, df = evidence.spread.stderr, evidence.spread.df
    return Estimate(
        value, stderr, low, high, evidence.n, "wilson", level=level, df=df, bounded=True, basis=Basis.COUNTS
    )


def _score(evidence: DocEvidence, level: float) -> Estimate | None:
    spread = evidence.spread
    if spread is None:
        return None
    value = _ratio(evidence)
    low, high = _in_range(value, *evidence.pair, spread, evidence.clusters, level)
    method = "score" if evidence.clusters is None else "clustered score"
    estimate = Estimate(value, spread.stderr, low, high, evidence.n, method, level=level, df=spread.df, bounded=True)
    return replace(estimate, caution=evidence.caution)


def _student(evidence: DocEvidence, level: float) -> Estimate | None:
    spread = evidence.spread
    if spread is None:
        return None
    value, caution, (a, b) = _ratio(evidence), evidence.caution, evidence.pair
    if spread.df < 1:
        return Estimate.bare(value, evidence.n, caution or "too few units")
    low, high = skewed_interval(value, spread.stderr, spread.df, spread.skew, level)
    if evidence.clusters is None and not np.ptp(b):
        far = [log_normal_end(side, level) for side in (a / b, -a / b)]
        high, low = max(high, far[0] or high), min(low, -(far[1] or -low))
        caution = HEAVY_TAIL if far[0] or far[1] else caution
    method = "t" if evidence.clusters is None else "clustered t"
    estimate = Estimate(value, spread.stderr, low, high, evidence.n, method, level=level, df=spread.df, caution=caution)
    if is_a_point(low, high):  # no value but this one was seen, which does not mean that there is none
        return estimate.without_interval("all docs have the same value")
    return replace(estimate, skew=spread.skew)


RATIO_METHODS = (
    IntervalMethod(
        "wilson",
        "every doc is right or wrong and stands for itself",
        lambda e: e.ratio is not None and e.clusters is None and e.is_count,
        _wilson,
        rank=110,
        of_ratio=True,
    ),
    IntervalMethod(
        "score",
        "a mean or ratio of values between 0 and 1, by clusters where there are some",
        lambda e: e.ratio is not None and e.is_bounded,
        _score,
        rank=120,
        of_ratio=True,
    ),
    IntervalMethod(
        "t",
        "any other mean or ratio, by clusters where there are some",
        lambda e: e.ratio is not None,
        _student,
        rank=130,
        of_ratio=True,
    ),
    IntervalMethod(
        "one unit",
        "a mean or ratio of one doc, or one cluster: there is no interval",
        lambda e: e.ratio is not None,
        _one_unit,
        rank=140,
        of_ratio=True,
    ),
)
for _method in RATIO_METHODS:
    INTERVAL_METHODS.add(_method.name, _method)

HEAVY_TAIL = "a few docs decide it: values span orders of magnitude"


def _in_range(
    value: float, a: Floats, b: Floats, spread: Spread, clusters: Clusters | None, level: float
) -> tuple[float, float]:
    """The interval of a ratio of values in [0, 1].

    Only units that are wholly 0 or wholly 1 hide how far a unit can move: it is of these that part of a one more is counted
    at either end. Where hardly any unit is at an end, values may still crowd near it: the wider end of the score interval
    and of the skewed one is taken.
    """
    if clusters is not None:
        index = cluster_index(clusters)
        a, b = sums_by(index, a), sums_by(index, b)
    at_an_end = ((a == 0) | (a == b)) & (b > 0)
    lost = float((b[at_an_end] ** 2).sum()) / float(b.sum()) ** 2
    most = float(b.sum()) if bool(np.equal(np.mod(a, 1), 0).all() and np.equal(np.mod(b, 1), 0).all()) else math.inf
    # With half a unit, one cluster of a third of the docs makes the interval 1.5 times as wide as one that holds as well.
    more = 0.5 if clusters is None else 0.4
    low, high = bounded_interval(value, spread.stderr, spread.df, level, lost=lost, most=most, more=more)
    if float(at_an_end.mean()) >= _CROWDED or spread.df < 1:
        return low, high
    also = skewed_interval(value, spread.stderr, spread.df, spread.skew, level)
    return max(0.0, min(low, also[0])), min(1.0, max(high, also[1]))


_CROWDED = 0.1


def transformed(ratio: Estimate, transform: Callable[[float], float], value: float) -> Estimate:
    """The estimate of a monotone function of a ratio: its interval mapped, its standard error by the delta method."""
    if ratio.value is None or ratio.stderr is None or ratio.low is None or ratio.high is None:
        return replace(ratio, value=value if ratio.undefined is None else None)
    step = max(abs(ratio.value), 1.0) * 1e-6
    slope = (transform(ratio.value + step) - transform(ratio.value - step)) / (2 * step)
    low, high = sorted((transform(ratio.low), transform(ratio.high)))
    bounded = ratio.bounded and low >= 0 and high <= 1
    return replace(ratio, value=value, stderr=abs(slope) * ratio.stderr, low=low, high=high, bounded=bounded)


def summary_estimate(value: float, stderr: float, n: int, *, level: float = 0.95) -> Estimate:
    """From a published score and standard error alone. A score in [0, 1] is taken for a mean of such values."""
    if n < 2:
        return Estimate.bare(value, n, "one doc")
    if 0 <= value <= 1:
        low, high = bounded_interval(value, stderr, n - 1, level)
        return Estimate(value, stderr, low, high, n, "score", level=level, df=n - 1, bounded=True)
    low, high = skewed_interval(value, stderr, n - 1, 0.0, level)
    return Estimate(value, stderr, low, high, n, "t", level=level, df=n - 1)


def rescaled(estimate: Estimate, level: float) -> tuple[float, float] | None:
    """An interval at another level where only the estimate is known: each side by the ratio of the quantiles, or, of a score in
    [0, 1], by the score interval of as many docs as would have this end."""
    if estimate.value is None:
        return None
    value, df = estimate.value, _df(estimate)
    if estimate.low is None or estimate.high is None:
        known = bool(estimate.stderr) and estimate.n > 1
        return skewed_interval(value, estimate.stderr or 0.0, df, 0.0, level) if known else None
    if level == estimate.level:
        return estimate.low, estimate.high
    now, before = (_quantile(estimate, df, (1 + each) / 2) for each in (level, estimate.level))
    if estimate.bounded and 0 <= value <= 1:
        worth = [docs_worth(value, end, before) for end in (estimate.low, estimate.high)]
        ends = [_scaled_end(value, n, now, side) for side, n in enumerate(worth)]
        return ends[0], ends[1]
    return value - now / before * (value - estimate.low), value + now / before * (estimate.high - value)


def _scaled_end(value: float, worth: float, quantile: float, side: int) -> float:
    """An end that is as far as can be is worth no doc, and stays there."""
    if not math.isfinite(worth):
        return value
    return wilson_interval(value, worth, quantile)[side] if worth > 0 else float(side)


def wilson(successes: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion; holds its level where p ± 2·SE collapses (few docs, or near 0 or 1).

    >>> [round(x, 4) for x in wilson(27, 30)]
    [0.7438, 0.9654]
    """
    if n == 0:
        return 0.0, 1.0
    return wilson_interval(successes / n, n, normal_quantile((1 + level) / 2))


def pooled_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float | None:
    """Members weighted by size: the pooled-variance formula of lm-evaluation-harness, operation for operation.

    Docs are seen as one sample of Σn with a common variance within members, the between-member spread left out: the
    members are fixed, only their docs are sampled. None when no member has a second doc.
    """
    docs = sum(sizes)
    if docs == len(sizes):
        return None
    variance = sum([(n - 1) * se**2 * n for n, se in zip(sizes, stderrs, strict=True)]) / (docs - len(sizes))
    return math.sqrt(variance / docs)


def unweighted_stderr(stderrs: Sequence[float]) -> float:
    """Members count alike: √(Σ SE²) / k, in lm-evaluation-harness's order of operations."""
    return math.sqrt(sum([se**2 for se in stderrs])) / len(stderrs)


def combined_estimate(
    value: float, members: Sequence[Estimate], weights: Floats, n: int, *, level: float = 0.95
) -> Estimate:
    """A weighted mean of independent members, weights of sum 1. `members` have their intervals at this level.

    Scores in [0, 1] by the likeliest values of the members that have a supposed mean (`profile`); other numbers by their
    standard errors and skewness, and by the members' own ends where these reach further than both say.
    """
    parts = np.array([m.stderr if m.stderr is not None else math.nan for m in members]) * weights
    stderr, own = float(np.linalg.norm(parts)), np.array([_df(m) for m in members])
    ends = np.array([(m.low, m.high) for m in members], dtype=np.float64)
    if all(m.bounded for m in members) and np.isfinite(ends).all():
        low, high = _profiled(members, ends, weights, own, level)
        # A typical unit's share of the weight: that of a doc where docs count alike.
        share = float((weights**2 / (own + 1)).sum())
        estimate = Estimate(value, stderr, low, high, n, "combined score", level=level, bounded=True)
        return replace(estimate, df=1 / share - 1)
    skew = float((parts**3 * [m.skew for m in members]).sum()) / stderr**3 if stderr else 0.0
    df = _satterthwaite(parts, own)
    low, high = (value + sign * _reach(members, ends, weights, own, skew, sign, level) for sign in (-1, 1))
    estimate = Estimate(value, stderr, low, high, n, "combined t", level=level, df=None if math.isinf(df) else df)
    return replace(estimate, skew=skew)


def _profiled(
    members: Sequence[Estimate], ends: Floats, weights: Floats, own: Floats, level: float
) -> tuple[float, float]:
    half = (1 + level) / 2
    values = np.clip(np.array([m.value for m in members], dtype=np.float64), 0, 1)  # a sum may be 1 + 2e-16
    if all(m.basis is Basis.COUNTS for m in members):
        z = normal_quantile(half)
        return mean_ends(values, (own + 1, own + 1), weights, (z, z), counts=True)
    quantiles = np.array([_quantile(m, df, half) for m, df in zip(members, own.tolist())])
    worth, pooled = [], []
    for side in (0, 1):
        worth.append(np.array([docs_worth(*each) for each in zip(values, ends[:, side], quantiles)]))
        pooled.append(t_quantile(half, _satterthwaite(weights * (values - ends[:, side]) / quantiles, own)))
    return mean_ends(values, (worth[0], worth[1]), weights, (pooled[0], pooled[1]), counts=False)


def _quantile(member: Estimate, df: float, half: float) -> float:
    """That of a member's own interval: Wilson's does not know degrees of freedom."""
    return normal_quantile(half) if member.basis is Basis.COUNTS else t_quantile(half, df)


def _reach(
    members: Sequence[Estimate], ends: Floats, weights: Floats, own: Floats, skew: float, sign: int, level: float
) -> float:
    """How far a mean of members, not all of which are scores in [0, 1], reaches down (−1) or up (1)."""
    half, side = (1 + level) / 2, max(0, sign)
    errors, sides = np.zeros(len(members)), np.zeros(len(members))
    for i, (m, df) in enumerate(zip(members, own.tolist())):
        quantile, error = _quantile(m, df, half), m.stderr or 0.0
        ordinary = skewed_reach(quantile, m.skew)[side] * error
        sides[i] = ordinary if m.value is None or math.isnan(ends[i, side]) else abs(ends[i, side] - m.value)
        errors[i] = sides[i] / quantile if m.bounded else error
        if sides[i] <= ordinary * (1 + 1e-9) or m.bounded:
            sides[i] = 0.0  # nothing beyond its standard error and skewness
    quantile = t_quantile(half, _satterthwaite(weights * errors, own))
    far = np.linalg.norm(weights * np.where(sides > 0, sides, quantile * errors))
    return max(skewed_reach(quantile, skew)[side] * float(np.linalg.norm(weights * errors)), float(far))


def stratified_estimate(
    strata: Sequence[tuple[Floats, Keys]], weights: Floats, *, bounded: bool, level: float = 0.95
) -> Estimate:
    """A weighted mean of the means of several samples that share docs or clusters, by the (values, unit keys) of each.

    A unit's residuals in all samples add up before they are squared: that is how samples depend on each other.
    """
    sizes = np.array([len(values) for values, _ in strata])
    per_doc = np.repeat(weights / sizes, sizes)
    values, keys = np.concatenate([v for v, _ in strata]), np.concatenate([k for _, k in strata])
    means = np.array([v.mean() for v, _ in strata])
    # Around a mean of its own, a sample of n has n − 1 residuals.
    few = np.sqrt(sizes / np.maximum(1, sizes - 1))
    residuals = per_doc * (values - np.repeat(means, sizes)) * np.repeat(few, sizes)
    spread = spread_of(residuals, per_doc, cluster_index(keys))
    value, n = float(weights @ means), len(values)
    if spread is None:
        return Estimate.bare(value, n, "one cluster")
    if bounded:
        low, high = bounded_interval(value, spread.stderr, spread.df, level)
    else:
        low, high = skewed_interval(value, spread.stderr, spread.df, spread.skew, level)
    estimate = Estimate(value, spread.stderr, low, high, n, "shared docs", level=level, df=spread.df, bounded=bounded)
    if is_a_point(low, high):
        return estimate.without_interval("all docs have the same value")
    return replace(estimate, caution=spread.caution("doc or cluster"))


def _df(estimate: Estimate) -> float:
    return estimate.df if estimate.df is not None else max(1.0, estimate.n - 1.0)


def _satterthwaite(parts: Floats, df: Floats) -> float:
    below = float((parts**4 / df).sum())
    return float((parts**2).sum()) ** 2 / below if below > 0 else math.inf


def _floats(values: Iterable[Any]) -> Sequence[float]:
    """Python's own numbers, to be summed in order."""
    if isinstance(values, np.ndarray):
        return cast(list[float], values.tolist())
    return values if isinstance(values, Sequence) else list(values)


def gradient_of(finish: Callable[[Floats], Floats], sums: Floats) -> Floats:
    """Derivatives of a function of sums, by central differences. Numbers that are ratios do not depend on the scale."""
    scale = float(np.abs(sums).max()) or 1.0
    steps = 1e-6 * scale * np.eye(len(sums))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((finish(sums + steps) - finish(sums - steps)) / (2e-6 * scale), dtype=np.float64)


def influence_of(table: Floats, finish: Callable[[Floats], Floats]) -> Floats:
    """Each doc's part in the error of `finish(table.sum(axis=0))`: they add up to zero."""
    sums = table.sum(axis=0)
    parts = (table - sums / len(table)) @ gradient_of(finish, sums)
    return np.asarray(parts, dtype=np.float64)


def correlation_estimate(
    value: float,
    table: Floats,
    finish: Callable[[Floats], Floats],
    cells: Floats,
    clusters: Clusters | None,
    level: float,
) -> Estimate:
    """A correlation of two labels (Matthews), with two docs more, spread evenly over the `cells` of the confusion table.

    Half a doc a cell where there are two classes. Without them a perfect score has no spread at all. The interval is
    Fisher's: symmetric in atanh. The end towards ±1 is taken with a fifth of those docs, which would pull it too far in.
    """
    n = len(table)
    sums, weight = table.sum(axis=0), 2 / len(cells)
    gradient = gradient_of(finish, sums + weight * cells.sum(axis=0))
    index = None if clusters is None else cluster_index(clusters)
    spread = spread_of(table @ gradient, np.ones(n), index)
    if spread is None:
        return Estimate.bare(value, n, "one doc" if n == 1 else "one cluster")
    # In clusters it is a cluster that may be of another kind, not a doc.
    unit = n * spread.unit_share
    stderr = math.sqrt((spread.stderr * n) ** 2 + weight * unit * float(((cells @ gradient) ** 2).sum()))
    quantile = t_quantile((1 + level) / 2, spread.df)
    inner, outer = (
        _fisher(float(finish(sums + w * cells.sum(axis=0))), stderr * quantile) for w in (weight, weight / 5)
    )
    low, high = (inner[0], max(outer[1], value)) if value >= 0 else (min(outer[0], value), inner[1])
    method = "fisher" if clusters is None else "clustered fisher"
    return Estimate(value, stderr, min(low, value), max(high, value), n, method, level=level, df=spread.df)


def _fisher(centre: float, reach: float) -> tuple[float, float]:
    z, width = math.atanh(centre), reach / (1 - centre**2)
    return math.tanh(z - width), math.tanh(z + width)
