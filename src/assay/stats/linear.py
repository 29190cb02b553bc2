"""How far one doc moves a number: the first-order part of any function of sums over docs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from assay.stats.estimate import Estimate, Floats
from assay.stats.intervals import spread_of
from assay.stats.significance import t_quantile
from assay.stats.units import Clusters, cluster_index


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
