"""The Poisson bootstrap: one mechanism for every number that has no closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.stats.estimate import B_DEFAULT, Estimate, Floats, Keys
from assay.stats.quantiles import normal_cdf, t_quantile
from assay.stats.weights import cluster_keys, poisson_weights, weight_blocks

Clusters = Sequence[Any] | NDArray[Any]

_UNDEFINED_SHARE = 0.05
"""A replicate may be undefined (f1 of a draw without positives). Beyond this share the error bar would be a lie."""


def bootstrap_replicates(
    statistics: NDArray[Any],
    finish: Callable[[Floats], Floats],
    keys: Keys,
    clusters: Clusters | None = None,
    B: int = B_DEFAULT,  # noqa: N803 - the letter the field uses
) -> Floats:
    """Replicates of a number that is a function of weighted sums: `finish(weights @ statistics)`.

    `statistics` holds a row per doc (confusion cells, n-gram matches, numerator and denominator); `finish` takes sums of
    shape [B, s] and gives [B]. No doc is scored again, so 100,000 replicates of 2,000 docs take a second.
    """
    table = np.atleast_2d(np.asarray(statistics, dtype=np.float64))
    if len(table) != len(keys):
        raise ValueError(f"{len(table)} rows of statistics for {len(keys)} docs")
    sums = np.zeros((table.shape[1], B))
    drawn = np.zeros(B)
    columns = np.ascontiguousarray(table.T)
    # OpenBLAS starts threads at about 2¹⁸ multiplications, which costs more than it saves on products as slim as these.
    cells = max(1 << 12, (1 << 18) // (table.shape[1] + 1))
    for docs, draws, weights in weight_blocks(cluster_keys(keys, clusters), B, cells=cells):
        sums[:, draws] += columns[:, docs] @ weights.astype(np.float64)
        drawn[draws] += weights.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A Poisson draw has about n docs, not n. Scaled to n, a number that depends on the amount of text (the
        # smoothing of BLEU) does not take that for uncertainty; ratios are the same either way.
        sums *= len(table) / drawn
        return np.asarray(finish(sums.T), dtype=np.float64)


def bootstrap_values(
    values: Any,
    replicate: Callable[[Any, NDArray[Any]], Floats],
    keys: Keys,
    clusters: Clusters | None = None,
    B: int = B_DEFAULT,  # noqa: N803
    *,
    cells: int = 1 << 22,
) -> Floats:
    """Replicates of a number that needs all values (a median): `replicate(values, weights[b, n]) -> [b]`, in blocks."""
    shared = cluster_keys(keys, clusters)
    step = max(4, cells // max(1, len(shared)) // 4 * 4)
    parts = [
        np.asarray(replicate(values, poisson_weights(shared, (b, min(b + step, B)))), dtype=np.float64)
        for b in range(0, B, step)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def replicate_spread(replicates: Floats) -> float | None:
    """Standard deviation of the replicates; None when too many of them are undefined."""
    finite = replicates[np.isfinite(replicates)]
    if len(finite) < 2 or len(finite) < (1 - _UNDEFINED_SHARE) * len(replicates):
        return None
    return float(np.std(finite, ddof=1))


def bootstrap_estimate(
    value: float, replicates: Floats, n: int, *, units: int | None = None, level: float = 0.95
) -> Estimate:
    """The estimate that replicates support: their spread, and a percentile interval.

    The percentiles lie a little outside the nominal ones, by Student's t and √(n/(n−1)) (Hesterberg 2015): plain
    percentiles are too narrow on few docs. In simulation this held its level better than normal, BC and BCa intervals
    for f1, mcc, the median and ratios. `units` is the number of clusters where docs are clustered.
    """
    units = n if units is None else units
    if len(replicates) == 0:
        return Estimate.bare(value, n, "no replicates")
    if units < 2:
        return Estimate.bare(value, n, "one doc" if n < 2 else "one cluster")
    stderr = replicate_spread(replicates)
    if stderr is None:
        share = float(np.mean(~np.isfinite(replicates)))
        return Estimate.bare(value, n, f"undefined in {share:.0%} of the replicates")
    finite = replicates[np.isfinite(replicates)]
    reach = t_quantile((1 + level) / 2, units - 1) * math.sqrt(units / (units - 1))
    low, high = np.quantile(finite, [normal_cdf(-reach), normal_cdf(reach)])
    return Estimate(value, stderr, float(low), float(high), n, "bootstrap", level=level)
