"""Control variates: an earlier run on all docs tightens the interval of a run on some of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from assay.stats.estimate import Estimate, Floats
from assay.stats.significance import t_quantile


@dataclass(frozen=True)
class Controlled:
    """`effective_n` is the number of docs that would give the same standard error without the earlier run."""

    estimate: Estimate
    plain: Estimate
    effective_n: float
    correlation: float
    slope: float


def control_estimate(scores: Floats, control: Floats, control_all: Floats, *, level: float = 0.95) -> Controlled:
    """The mean over all docs, from scores on a random part of them and an earlier run's on that part and on all.

    θ = mean(y) − λ·(mean of the control on the part − its mean on all docs), λ the regression slope. With a correlation
    ρ the variance is σ²(1−ρ²)/n + σ²ρ²/N, that of the docs as a sample of the docs there could be, as everywhere else.
    The docs of the part must be drawn at random; the first so many of a sorted data set are no sample of it.
    """
    y, f = np.asarray(scores, dtype=np.float64), np.asarray(control, dtype=np.float64)
    everything = np.asarray(control_all, dtype=np.float64)
    n, total = len(y), len(everything)
    if n != len(f):
        raise ValueError(f"{n} scores and {len(f)} control scores are no pairs")
    if n < 4 or total < n:
        why = "fewer than 4 docs in common" if n < 4 else "the earlier run has fewer docs"
        empty = Estimate.missing(why, n)
        return Controlled(empty, empty, float(n), math.nan, math.nan)
    variance = float(y.var(ddof=1))
    plain_se = math.sqrt(variance / n)
    plain = _interval(float(y.mean()), plain_se, n, n - 1, "t", level)
    spread = float(f.var(ddof=1))
    if spread == 0 or variance == 0:
        return Controlled(plain, plain, float(n), 0.0, 0.0)
    slope = float(np.cov(y, f)[0, 1]) / spread
    value = float(y.mean() - slope * (f.mean() - everything.mean()))
    residual = y - y.mean() - slope * (f - f.mean())
    left = float(residual @ residual) / (n - 2)
    # Leverage of the point that is predicted, as in any regression: the part may have easier docs than the whole.
    leverage = (f.mean() - everything.mean()) ** 2 / (spread * (n - 1))
    stderr = math.sqrt(left * (1 / n + leverage) + slope**2 * spread / total)
    estimate = _interval(value, stderr, n, n - 2, "control variate", level)
    correlation = slope * math.sqrt(spread / variance)
    return Controlled(estimate, plain, variance / stderr**2, correlation, slope)


def _interval(value: float, stderr: float, n: int, freedom: int, method: str, level: float) -> Estimate:
    reach = t_quantile((1 + level) / 2, freedom) * stderr
    return Estimate(value, stderr, value - reach, value + reach, n, method, level=level)
