"""Control variates: an earlier run on all docs tightens the interval of a run on some of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from assay.stats.closed_form import mean_estimate
from assay.stats.estimate import Basis, Clusters, Estimate, Floats
from assay.stats.intervals import skewed_interval, spread_of
from assay.stats.units import cluster_index


@dataclass(frozen=True)
class Controlled:
    """`effective_n` is the number of docs that would give the same standard error without the earlier run."""

    estimate: Estimate
    plain: Estimate
    effective_n: float
    correlation: float
    slope: float


def control_estimate(
    scores: Floats,
    control: Floats,
    control_all: Floats,
    clusters: Clusters | None = None,
    *,
    level: float = 0.95,
) -> Controlled:
    """The mean over all docs, from scores on a random part of them and an earlier run's on that part and on all.

    θ = mean(y) − λ·(mean of the control on the part − its mean on all docs), λ the regression slope. With a correlation
    ρ the variance is σ²(1−ρ²)/n + σ²ρ²/N, that of the docs as a sample of the docs there could be, as everywhere else.
    The docs of the part must be drawn at random; the first so many of a sorted data set are no sample of it. Residuals are
    summed by `clusters`, and one more counts that is as large as scores can differ: where all but a few docs are right,
    the few that are not decide, and a small part may hold none of them.
    """
    y, f = np.asarray(scores, dtype=np.float64), np.asarray(control, dtype=np.float64)
    everything = np.asarray(control_all, dtype=np.float64)
    n, total = len(y), len(everything)
    if n != len(f):
        raise ValueError(f"{n} scores and {len(f)} control scores do not form pairs")
    if n < 4 or total < n:
        why = "fewer than 4 docs in common" if n < 4 else "the earlier run has fewer docs"
        empty = Estimate.missing(why, n)
        return Controlled(empty, empty, float(n), math.nan, math.nan)
    plain = mean_estimate(y, clusters, level=level)
    variance = (plain.stderr or 0.0) ** 2 * n
    spread = float(f.var(ddof=1))
    if spread == 0 or variance == 0 or plain.stderr is None:
        return Controlled(plain, plain, float(n), 0.0, 0.0)
    slope = float(np.cov(y, f)[0, 1]) / spread
    value = float(y.mean() - slope * (f.mean() - everything.mean()))
    residual = y - y.mean() - slope * (f - f.mean())
    units = spread_of(residual, np.ones(n), None if clusters is None else cluster_index(clusters))
    assert units is not None, "a mean with a standard error has two units"
    # Scores without bounds have no full range.
    largest = units.unit_share if plain.bounded else 0.0
    left = (units.stderr**2 + largest**2) * n * (n - 1) / (n - 2)
    # Leverage of the point that is predicted, as in any regression: the part may have easier docs than the whole.
    leverage = (f.mean() - everything.mean()) ** 2 / (spread * (n - 1))
    stderr = math.sqrt(left * (1 / n + leverage) + slope**2 * spread / total)
    freedom = max(1.0, units.df - 1)
    low, high = skewed_interval(value, stderr, freedom, units.skew, level)
    if plain.bounded:
        low, high = max(0.0, low), min(1.0, high)
    estimate = Estimate(value, stderr, low, high, n, Basis.CONTROL.value, level=level, df=freedom, basis=Basis.CONTROL)
    correlation = slope * math.sqrt(spread / float(y.var(ddof=1)))
    return Controlled(estimate, plain, variance / stderr**2, correlation, slope)
