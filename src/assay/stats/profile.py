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
from assay.stats.intervals import normal_cdf, normal_quantile

Supposed = tuple[float, float, float]
"""A supposed mean, or difference, with the standard error and the skewness that its likeliest members have."""


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

    def likeliest(log_multiplier: float) -> tuple[float, float, float]:
        pull = math.exp(log_multiplier) * typical * weights / worth
        # v − p = pull·p·(1 − p), solved so that nothing cancels where v is 1.
        p = np.minimum(values, 2 * values / (1 + pull + np.sqrt((1 - pull) ** 2 + 4 * pull * (1 - values))))
        parts = weights**2 * p * (1 - p) / worth
        variance = float(parts.sum())
        if not variance > 0:
            return float(weights @ p), 0.0, 0.0
        lean = float((weights * parts * (1 - 2 * p) / worth).sum()) / variance**1.5
        variance += float((parts * (1 - parts / variance) * free).sum())
        return float(weights @ p), math.sqrt(variance), lean

    def beyond(found: Supposed) -> bool:
        mean, error, lean = found
        return error > 0 and seen - mean > skewed_quantile(quantile, lean) * error

    return _where(likeliest, beyond)[0]


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


def _where(likeliest: Callable[[float], Supposed], beyond: Callable[[Supposed], bool]) -> Supposed:
    """The last, from what was seen on, that is not `beyond`: the logarithm of the multiplier by halving its range."""
    low, high = -_SPAN, _SPAN
    found = likeliest(low)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        now = likeliest(middle)
        if beyond(now):
            high = middle
        else:
            low, found = middle, now
    return found


_SPAN, _STEPS = 25.0, 45


# Differences on the same docs: each is won, lost, or neither


class FlipTables:
    """Members with counts of docs that were won and lost, out of so many: Σ w·(won − lost)/n and its error.

    As Tango's score interval (1998) for one member. The likeliest shares of a supposed difference solve m/s + won/(s + λw) +
    lost/(s − λw) = 1 for each member, m being the docs that are neither.
    """

    def __init__(self, won: Floats, lost: Floats, n: Floats, weights: Floats) -> None:
        there = weights > 0
        self.won, self.lost, self.n, self.weights = (each[there] for each in (won, lost, n, weights))
        self.value = float(self.weights @ ((self.won - self.lost) / self.n))

    @property
    def turned(self) -> FlipTables:
        return FlipTables(self.lost, self.won, self.n, self.weights)

    def interval(self, level: float) -> tuple[float, float]:
        quantile = normal_quantile((1 + level) / 2)
        return self._low_end(quantile), -self.turned._low_end(quantile)

    def p_value(self) -> float:
        """Two-sided, that there is no difference: the error rate at which the interval ends at zero."""
        if self.value < 0:
            return self.turned.p_value()
        if self.value == 0:
            return 1.0
        mean, error, lean = _where(self._likeliest, lambda found: found[0] < 0)
        if not error > 0:
            return 0.0
        reached, a = (self.value - mean) / error, max(0.0, lean) / 6
        reached = min(reached, (math.sqrt(1 + 4 * a * (a + reached)) - 1) / (2 * a)) if a > 0 else reached
        return min(1.0, 2 * normal_cdf(-reached))

    def _low_end(self, quantile: float) -> float:
        def beyond(found: Supposed) -> bool:
            mean, error, lean = found
            return error > 0 and self.value - mean > skewed_quantile(quantile, lean) * error

        return max(-1.0, _where(self._likeliest, beyond)[0])

    def _likeliest(self, log_multiplier: float) -> Supposed:
        """With this multiplier: the difference, its standard error and its skewness."""
        pull = math.exp(log_multiplier) * float(np.exp(np.mean(np.log(self.n / self.weights)))) * self.weights
        neither = self.n - self.won - self.lost
        scale = np.maximum(np.maximum(neither, self.won - pull), np.maximum(self.lost + pull, pull))
        pole = (self.lost == 0) & (scale <= pull)
        for _ in range(_NEWTON):
            up, down = (
                self.won / (scale + pull),
                np.where(self.lost > 0, self.lost / np.where(pole, 1, scale - pull), 0.0),
            )
            rest = neither / scale
            slope = (
                rest / scale + up / (scale + pull) + np.where(self.lost > 0, down / np.where(pole, 1, scale - pull), 0)
            )
            step = np.maximum(0.0, (rest + up + down - 1) / slope)
            scale = scale + step
            pole = (self.lost == 0) & (scale <= pull)
            if float((step / scale).max()) < 1e-12:
                break
        up = self.won / (scale + pull)
        # Of a member without a lost doc the multiplier may still ask for some: what is left over.
        down = np.where(self.lost > 0, self.lost / np.where(self.lost > 0, scale - pull, 1), 1 - up - neither / scale)
        down = np.maximum(0.0, down)
        gap = up - down
        parts = self.weights**2 * (up + down - gap**2) / self.n
        variance = float(parts.sum())
        if not variance > 0:
            return float(self.weights @ gap), 0.0, 0.0
        third = gap - 3 * gap * (up + down) + 2 * gap**3
        lean = float((self.weights**3 * third / self.n**2).sum()) / variance**1.5
        variance += float((parts * (1 - parts / variance) / np.maximum(1.0, self.n - 1)).sum())
        return float(self.weights @ gap), math.sqrt(variance), lean


_NEWTON = 60
