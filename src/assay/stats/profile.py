"""Intervals of weighted means of independent members, where every member counts with its own uncertainty.

A supposed mean θ is possible at a level if some members' values that have it are not spoken against by what was seen. Of all
values with the mean θ the likeliest are taken (the constrained maximum of the likelihood, one equation for one multiplier), and
their own variance is the one to test with: Wilson's interval, and Tango's, carried over to sums of members. A small member that
is all right may still go wrong by itself, and many of them hardly go wrong together; neither a pooled standard error nor the
members' intervals side by side know both.

Two corrections keep the level on few docs: a member whose value is estimated has n − 1 residuals and not n, except where θ
itself determines it; and where the sum is skewed, the quantile is that of a skewed sum (Cornish and Fisher 1938; Laud 2017).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from assay.stats.estimate import Floats


def mean_ends(
    values: Floats, worth: tuple[Floats, Floats], weights: Floats, quantile: tuple[float, float], *, counts: bool
) -> tuple[float, float]:
    """Both ends of Σ w·p, where each p was seen as one of `values` on as many 0/1 docs as `worth`; both may differ by side.

    `counts`: the docs are 0 or 1 themselves, so that n − 1 of a member's residuals are free. Members of weight 0 do not count.
    """
    there = weights > 0
    values, weights = values[there], weights[there]
    low = _low_end(values, worth[0][there], weights, quantile[0], counts)
    high = 1 - _low_end(1 - values, worth[1][there], weights, quantile[1], counts)
    return max(0.0, low), min(1.0, high)


def _low_end(values: Floats, worth: Floats, weights: Floats, quantile: float, counts: bool) -> float:
    seen = float(weights @ values)
    known = np.isfinite(worth)
    if not known.any():
        return seen
    typical = float(np.exp(np.mean(np.log(worth[known] / weights[known]))))
    free = 1 / np.maximum(1.0, worth - 1) if counts else np.zeros(len(worth))

    def likeliest(log_multiplier: float) -> tuple[float, bool]:
        """The mean of the values with this multiplier, and whether it is too low for what was seen."""
        pull = math.exp(log_multiplier) * typical * weights / worth
        # v − p = pull·p·(1 − p), solved so that nothing cancels where v is 1.
        p = np.minimum(values, 2 * values / (1 + pull + np.sqrt((1 - pull) ** 2 + 4 * pull * (1 - values))))
        parts = weights**2 * p * (1 - p) / worth
        variance, mean = float(parts.sum()), float(weights @ p)
        if not (seen > mean and variance > 0):
            return mean, False
        lean = float((weights * parts * (1 - 2 * p) / worth).sum()) / variance**1.5
        variance += float((parts * (1 - parts / variance) * free).sum())
        return mean, seen - mean > skewed_quantile(quantile, lean) * math.sqrt(variance)

    return _crossing(likeliest)


def docs_worth(value: float, end: float, quantile: float) -> float:
    """How many 0/1 docs would have this end of a score interval.

    >>> round(docs_worth(0.9, 0.7438, 1.96))
    30
    """
    if end == value:
        return math.inf
    inside = min(max(end, _EDGE * value), 1 - _EDGE * (1 - value))
    return quantile**2 * inside * (1 - inside) / (value - inside) ** 2


_EDGE = 0.02
"""An end at 0 or 1 tells no number of docs; one a little inside tells a small one."""


def skewed_quantile(quantile: float, skew: float) -> float:
    """The quantile of a sum with this skewness, never less than the normal one."""
    return quantile + max(0.0, skew) / 6 * max(0.0, quantile**2 - 1)


def _crossing(likeliest: Callable[[float], tuple[float, bool]]) -> float:
    """The last mean, from what was seen down, that is not too low: the logarithm of the multiplier by halving its range."""
    low, high = -_SPAN, _SPAN
    end = likeliest(low)[0]
    for _ in range(_STEPS):
        middle = (low + high) / 2
        mean, beyond = likeliest(middle)
        if beyond:
            high = middle
        else:
            low, end = middle, mean
    return end


_SPAN, _STEPS = 25.0, 45
