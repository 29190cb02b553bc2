"""Many small tasks: each score drawn towards the mean of all, as far as the tasks are alike (partial pooling, empirical Bayes).

A task of twenty docs says little by itself; fifty-seven such tasks say how far tasks differ at all. The shrunken score is wrong by
less on average, and biased for tasks that truly are unlike the others. Its interval holds on average over the tasks of a group, not
for each of them, so it is something to look at: gates and comparisons do not use it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from assay.stats.estimate import Estimate, Floats
from assay.stats.intervals import normal_quantile

FEWEST_TO_SHRINK = 10
"""Tasks below which they do not tell how far tasks differ."""
_CAREFUL = 0.9
"""The spread between tasks is taken at this upper confidence: an estimate of zero, which is frequent, would make all tasks equal."""


def shrunken(estimates: Sequence[Estimate], level: float = 0.95) -> list[Estimate] | None:
    """Of means of values in [0, 1], one each; None with too few of them."""
    if len(estimates) < FEWEST_TO_SHRINK or not all(e.bounded and e.value is not None for e in estimates):
        return None
    values = np.array([e.value for e in estimates], dtype=np.float64)
    docs = np.array([e.n if e.df is None else e.df + 1 for e in estimates], dtype=np.float64)
    middle, between, within = _components(values, docs)
    own = between / (between + within)
    drawn = middle + own * (values - middle)
    # How far the middle, and the share that a task keeps, may be off (Morris 1983).
    of_middle = 1 / float((1 / (within + between)).sum())
    of_share = 2 / (len(values) - 3) * (1 - own) ** 2 * (values - middle) ** 2
    variance = own * np.maximum(drawn * (1 - drawn) / docs, within / 4) + (1 - own) ** 2 * of_middle + of_share
    reach = normal_quantile((1 + level) / 2) * np.sqrt(variance)
    low, high = np.maximum(0.0, drawn - reach), np.minimum(1.0, drawn + reach)
    return [
        Estimate(float(v), math.sqrt(s), float(a), float(b), e.n, "shrunken", level=level, bounded=True)
        for v, s, a, b, e in zip(drawn, variance, low, high, estimates, strict=True)
    ]


def _components(values: Floats, docs: Floats) -> tuple[float, float, Floats]:
    """The middle of the tasks, the variance between them and each one's own (Paule and Mandel 1982)."""
    from scipy.special import chdtri

    target = float(chdtri(len(values) - 1, _CAREFUL))
    middle, between = float(np.average(values, weights=docs)), 0.0
    within = np.zeros(len(values))
    for _ in range(20):
        within = max(middle * (1 - middle), 1e-6) / docs
        low, high = 0.0, 1.0
        for _ in range(40):
            between = (low + high) / 2
            weights = 1 / (within + between)
            centre = float(weights @ values / weights.sum())
            low, high = (between, high) if float(weights @ (values - centre) ** 2) > target else (low, between)
        weights = 1 / (within + between)
        before, middle = middle, float(weights @ values / weights.sum())
        if abs(middle - before) < 1e-9:
            break
    return middle, between, within
