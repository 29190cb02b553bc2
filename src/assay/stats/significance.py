"""Quantiles, exact tests and the correction for many of them. What needs scipy imports it when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from assay.stats.estimate import Floats

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

    return 1.0 if successes <= 0 else float(betainc(successes, n - successes + 1, p))


def binomial_probabilities(n: int, p: float) -> Floats:
    """P(X = 0), …, P(X = n). Through logarithms of the gamma function: `scipy.stats` takes a second to import."""
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(n + 1)
    return np.asarray(np.exp(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p)))


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact p-value that flips in both directions are equally likely.

    Only the docs on which two runs disagree say anything about which is better.

    >>> mcnemar(1, 9)
    0.021484375
    """
    n = gained + lost
    return 1.0 if n == 0 else min(1.0, 2 * binomial_tail(max(gained, lost), n, 0.5))


def chance_p_value(correct: int, chances: Floats | Sequence[float]) -> float:
    """P(guessing gets at least this many right), exact, where `chances` holds 1/choices of every doc.

    >>> round(chance_p_value(2, [0.5, 0.5]), 6)
    0.25
    """
    distribution = np.ones(1)
    for p, count in zip(*np.unique(np.asarray(chances, dtype=np.float64), return_counts=True), strict=True):
        # Docs with equally many choices are one binomial; their sums add up by convolution.
        distribution = np.convolve(distribution, binomial_probabilities(int(count), float(p)))
    return float(min(1.0, distribution[max(0, correct) :].sum()))


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
