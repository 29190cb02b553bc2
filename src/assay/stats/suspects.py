"""Which gold answers are probably wrong: docs that able runs answer alike, and against the published answer.

By Bayes, with one unknown a doc, which answer is right: a run gives the right one as often as its score says, and else any other. Runs
err together, so n of them are worth n / (1 + (n − 1)·ρ) that do not, with ρ the mean correlation of being right. Labels, where there
are some, calibrate what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.stats.estimate import Floats

Codes = NDArray[np.int64]
NO_ANSWER, OTHER = -1, -2
"""Codes of answers that are missing, and of those of which only that they are not the published one is known."""
PRIOR = 0.05
"""The share of gold answers that are wrong, before anything is known; audits of benchmarks found 2 to 9 %."""
_LEAST = 0.02


@dataclass(frozen=True)
class Suspicion:
    """Of each doc."""

    log_odds: Floats
    """That another answer than the published one is right."""
    likely: Codes
    """The likeliest other answer; `OTHER` where no run's answer is known."""
    worth: float
    """How many runs that err apart the runs are worth."""


def suspicion(answers: Codes, gold: Codes, options: Codes, prior: float = PRIOR) -> Suspicion:
    """Of answers [runs, docs] as codes from 0, the published answers, and how many answers each doc allows.

    >>> agreed = np.array([[0, 1], [0, 1], [0, 1]])
    >>> found = suspicion(agreed, np.array([0, 0]), np.array([4, 4]))
    >>> found.likely.tolist()[1], bool(found.log_odds[1] > found.log_odds[0])
    (1, True)
    """
    given = answers != NO_ANSWER
    right = (answers == gold) & given
    able = np.clip(right.sum(axis=1) / np.maximum(1, given.sum(axis=1)), _LEAST, 1 - _LEAST)[:, None]
    other = np.clip((1 - able) / np.maximum(1, options - 1), 1e-6, None)
    rho = _alikeness(np.where(given, right, np.nan))
    told = given & (answers != OTHER)
    every, some = (_worth(n, rho) / np.maximum(1, n) for n in (np.float64(len(answers)), told.sum(axis=0)))
    # Of every answer that may be right, how probable what the runs said is then: first which runs gave the published one, then which
    # other answer the others gave. That may be known of some runs alone, and counts as much as these are worth.
    count = int(max(options.max(initial=2), answers.max(initial=0) + 1, gold.max(initial=0) + 1))
    fits = np.full((count, len(gold)), -np.inf)
    for code in range(count):
        as_gold = np.where(gold == code, np.log(able), np.log(other))
        otherwise = np.where(gold == code, np.log(1 - able), np.log1p(-other))
        agrees = np.where(right, as_gold, otherwise) * given
        said = np.where(answers == code, np.log(able), np.log(other))
        each = agrees * every + (said - agrees) * told * some
        fits[code] = np.where(code < np.maximum(options, gold + 1), each.sum(axis=0), -np.inf)
    published = fits[gold, np.arange(len(gold))]
    fits[gold, np.arange(len(gold))] = -np.inf
    tempered = fits - published
    tempered += np.log(prior / np.maximum(1, options - 1) / (1 - prior))
    best: Codes = tempered.argmax(axis=0)
    top = tempered.max(axis=0)
    odds: Floats = top + np.log(np.exp(tempered - top).sum(axis=0))
    known = ((answers >= 0) & (answers != gold)).any(axis=0)
    return Suspicion(odds, np.where(known, best, OTHER), float(_worth(np.float64(len(answers)), rho)))


def _worth(n: Any, rho: float) -> Any:
    """How many runs that err apart n runs are worth: n / (1 + (n − 1)·ρ)."""
    return n / (1 + np.maximum(0, n - 1) * rho)


def _alikeness(right: Floats) -> float:
    """The mean correlation of being right."""
    n = len(right)
    if n < 2:
        return 0.0
    centred = right - np.nanmean(right, axis=1, keepdims=True)
    filled = np.nan_to_num(centred)
    spread = np.sqrt((filled**2).sum(axis=1))
    correlations = filled @ filled.T / np.maximum(np.outer(spread, spread), 1e-12)
    rho = float((correlations.sum() - np.trace(correlations)) / (n * (n - 1)))
    return min(1.0, max(0.0, rho))


def calibrated(log_odds: Floats, wrong: Floats, weights: Floats, *, rounds: int = 50) -> tuple[float, float]:
    """Intercept and slope of a logistic curve from log-odds to what people found, held near (0, 1) where they found little.

    >>> calibrated(np.zeros(0), np.zeros(0), np.zeros(0))
    (0.0, 1.0)
    """
    design = np.column_stack([np.ones(len(log_odds)), log_odds])
    share = weights * len(weights) / weights.sum() if len(weights) else weights
    start, hold = np.array([0.0, 1.0]), np.diag([1 / 2.0**2, 1 / 0.5**2])
    beta = start.copy()
    for _ in range(rounds):
        p = 1 / (1 + np.exp(-np.clip(design @ beta, -30, 30)))
        slope = design.T @ (share * (wrong - p)) - hold @ (beta - start)
        curve = (design * (share * p * (1 - p))[:, None]).T @ design + hold
        step = np.linalg.solve(curve, slope)
        beta = beta + np.clip(step, -1, 1)
        if float(np.abs(step).max()) < 1e-9:
            break
    return float(beta[0]), float(beta[1])
