"""Standard errors and intervals that have a formula: of means, ratios, proportions, and of group means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from assay.stats.bootstrap import Clusters, cluster_index
from assay.stats.estimate import Estimate, Floats
from assay.stats.significance import normal_quantile, t_quantile


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
    return math.sqrt(sum([(x - mu) ** 2 for x in items]) / (n - 1)) / math.sqrt(n)


def clustered_stderr(values: Floats | Sequence[float], clusters: Clusters) -> float | None:
    """Standard error of a mean whose docs come in clusters (Miller 2024), with the C/(C−1) correction.

    Σ_c Σᵢ Σⱼ dᵢdⱼ = Σ_c (Σᵢ dᵢ)², so each cluster adds the square of its summed deviations.
    """
    x = np.asarray(values, dtype=np.float64)
    index = cluster_index(clusters)
    count = int(index.max(initial=-1)) + 1
    if count < 2:
        return None
    sums = np.bincount(index, weights=x - x.mean(), minlength=count)
    return math.sqrt(count / (count - 1) * float(sums @ sums)) / len(x)


def mean_estimate(
    values: Floats | Sequence[float], clusters: Clusters | None = None, *, level: float = 0.95
) -> Estimate:
    """A mean: Wilson where every value is 0 or 1, Student's t otherwise, clustered where clusters are given."""
    items = _floats(values)
    n = len(items)
    if n == 0:
        return Estimate.missing("no docs")
    value = sum(items) / n
    if n == 1:
        return Estimate.bare(value, 1, "one doc")
    if clusters is not None:
        return _clustered_estimate(value, np.asarray(items), clusters, level)
    stderr = mean_stderr(items)
    assert stderr is not None
    if all(x == 0.0 or x == 1.0 for x in items):
        low, high = wilson(sum(items), n, level=level)
        return Estimate(value, stderr, low, high, n, "wilson", level=level)
    reach = t_quantile((1 + level) / 2, n - 1) * stderr
    return Estimate(value, stderr, value - reach, value + reach, n, "t", level=level)


def _clustered_estimate(value: float, x: Floats, clusters: Clusters, level: float) -> Estimate:
    stderr = clustered_stderr(x, clusters)
    if stderr is None:
        return Estimate.bare(value, len(x), "one cluster")
    count = int(cluster_index(clusters).max()) + 1
    quantile = t_quantile((1 + level) / 2, count - 1)
    if ((x == 0) | (x == 1)).all():
        # Wilson for as many independent docs as would have this standard error; with no spread at all, one a cluster.
        worth = value * (1 - value) / stderr**2 if stderr > 0 else float(count)
        low, high = _wilson(value, worth, quantile)
        return Estimate(value, stderr, low, high, len(x), "clustered wilson", level=level)
    reach = quantile * stderr
    return Estimate(value, stderr, value - reach, value + reach, len(x), "clustered t", level=level)


def ratio_stderr(numerators: Floats, denominators: Floats, clusters: Clusters | None = None) -> float | None:
    """Standard error of Σa/Σb by the delta method: that of the mean of (a − r·b), divided by the mean of b."""
    a, b = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    total = float(b.sum())
    if total == 0 or len(a) < 2:
        return None
    residual = a - (float(a.sum()) / total) * b
    spread = mean_stderr(residual) if clusters is None else clustered_stderr(residual, clusters)
    return None if spread is None else spread * len(a) / abs(total)


def ratio_estimate(
    numerators: Floats, denominators: Floats, clusters: Clusters | None = None, *, level: float = 0.95
) -> Estimate:
    """A ratio of sums (bits per byte, corpus perplexity before the exponent) with a t interval."""
    a, b = np.asarray(numerators, dtype=np.float64), np.asarray(denominators, dtype=np.float64)
    n, total = len(a), float(b.sum())
    if n == 0:
        return Estimate.missing("no docs")
    if total == 0:
        return Estimate.missing("the denominators add up to zero", n)
    value = float(a.sum()) / total
    stderr = ratio_stderr(a, b, clusters)
    if stderr is None:
        return Estimate.bare(value, n, "one doc" if clusters is None else "one cluster")
    units = n if clusters is None else int(cluster_index(clusters).max()) + 1
    reach = t_quantile((1 + level) / 2, units - 1) * stderr
    return Estimate(value, stderr, value - reach, value + reach, n, "delta", level=level)


def wilson(successes: float, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a proportion; holds its level where p ± 2·SE collapses (few docs, or near 0 or 1).

    >>> [round(x, 4) for x in wilson(27, 30)]
    [0.7438, 0.9654]
    """
    if n == 0:
        return 0.0, 1.0
    return _wilson(successes / n, n, normal_quantile((1 + level) / 2))


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (0.0 if p == 0 else max(0.0, centre - reach)), (1.0 if p == 1 else min(1.0, centre + reach))


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


def weighted_stderr(stderrs: Sequence[float], weights: Sequence[float]) -> float:
    """√(Σ w²·SE²) of independent members; weights are brought to sum 1.

    >>> weighted_stderr([0.3, 0.4], [1, 1])
    0.25
    """
    total = sum(weights)
    return math.sqrt(sum([(w * se) ** 2 for w, se in zip(weights, stderrs, strict=True)])) / total


def unweighted_stderr(stderrs: Sequence[float]) -> float:
    """Members count alike: √(Σ SE²) / k."""
    return math.sqrt(sum([se**2 for se in stderrs])) / len(stderrs)


def _floats(values: Iterable[Any]) -> list[float]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
