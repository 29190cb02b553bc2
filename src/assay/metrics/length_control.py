"""The win rate that is left where both answers are equally long.

Judges favour long answers. A logistic regression of the verdict on the difference in length, as in length-controlled
AlpacaEval (Dubois and others 2024), tells the two apart:

    P(win) = σ(a + b · tanh(d / sd(d)))        d: characters that the answer is longer than its opponent

and σ(a) is the win rate at d = 0. Ties count half a win.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.metrics.base import AGGREGATIONS
from assay.stats import Aggregation, Floats

RIDGE = 1e-3
"""Keeps the fit finite where every comparison was won."""


def length_controlled(pairs: Sequence[tuple[float, float]]) -> float:
    """From (win, difference in length) of every doc.

    >>> round(length_controlled([(1, 40), (1, 30), (0, -40), (0, -30), (1, 0), (0, 0)]), 6)
    0.5
    """
    return float(_fitted(pairs, np.ones((1, len(pairs))))[0])


def _fitted(pairs: Sequence[tuple[float, float]], weights: NDArray[Any]) -> Floats:
    """σ(a) for each row of weights. Newton's method on the two parameters, all rows at once."""
    wins, longer = np.asarray(pairs, dtype=np.float64).T
    spread = longer.std()
    x = np.tanh(longer / spread) if spread > 0 else np.zeros_like(longer)
    w = np.asarray(weights, dtype=np.float64)
    a, b = np.zeros(len(w)), np.zeros(len(w))
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(a[:, None] + b[:, None] * x, -30, 30)))
        residual, curvature = w * (wins - p), w * p * (1 - p)
        g_a, g_b = residual.sum(1) - RIDGE * a, (residual * x).sum(1) - RIDGE * b
        h_aa, h_bb = curvature.sum(1) + RIDGE, (curvature * x * x).sum(1) + RIDGE
        h_ab = (curvature * x).sum(1)
        determinant = h_aa * h_bb - h_ab**2
        # Far from the maximum a whole step may overshoot; a step of one unit of logit never loses the way.
        step_a = np.clip((h_bb * g_a - h_ab * g_b) / determinant, -1, 1)
        step_b = np.clip((h_aa * g_b - h_ab * g_a) / determinant, -1, 1)
        a, b = a + step_a, b + step_b
        if max(np.abs(step_a).max(), np.abs(step_b).max()) < 1e-9:
            break
    result: Floats = 1 / (1 + np.exp(-a))
    return np.where(w.sum(1) > 0, result, np.nan)


AGGREGATIONS.add("length_controlled", Aggregation("length_controlled", length_controlled, replicate=_fitted))
