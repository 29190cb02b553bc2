"""Quantiles and tail probabilities. The normal ones need no scipy; the rest import it when called."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

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
