"""Docs drawn several times: what is known of pass^k for more draws than there were, and where further draws are worth most.

A doc is solved with a chance p of its own. c of n draws right tell of its powers: C(c, j)/C(n, j) is p^j on average, for j up
to n. pass^k, the average of p^k over docs, is known for k ≤ n. For more, whatever spread of p agrees with the known powers is
possible, which bounds it; a beta-distributed p, where it fits, also forecasts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.stats.bootstrap import poisson_weights
from assay.stats.closed_form import mean_estimate
from assay.stats.estimate import Clusters, Estimate, Floats, Keys

Counts = NDArray[np.int64]
GRID = 401
REPLICATES = 1000
REJECTED = 0.2
"""With a p-value below this the beta-binomial model does not fit, and is not used."""


def right_in_all(n: Counts, c: Counts, k: int) -> Floats:
    """C(c, k)/C(n, k) for each doc; NaN where it has fewer than k draws.

    >>> right_in_all(np.array([3, 3, 1]), np.array([3, 2, 1]), 2).tolist()
    [1.0, 0.3333333333333333, nan]
    """
    found = np.ones(len(n))
    for j in range(k):
        found *= np.where(n > j, np.maximum(c - j, 0) / np.maximum(n - j, 1), np.nan)
    return found


def power_bounds(
    n: Counts, c: Counts, k: int, units: Clusters | None = None, *, level: float = 0.95
) -> tuple[float, float]:
    """Where pass^k lies for any spread of p over docs that agrees with the known powers, all of their intervals together.

    A linear program over spreads on a grid of p. Its ends hold the truth in at least `level` of all cases, whatever the spread
    is, because the intervals of the powers do (Bonferroni).
    """
    from scipy.optimize import linprog

    powers = int(n.min())
    ends = [mean_estimate(right_in_all(n, c, j), units, level=1 - (1 - level) / powers) for j in range(1, powers + 1)]
    p = (1 - np.cos(np.linspace(0, np.pi, GRID))) / 2  # closer together towards 0 and 1, where p^k bends
    rows = np.array([p**j for j in range(1, powers + 1)])
    slack = k * (k - 1) * (np.pi / GRID) ** 2 / 32  # of the grid
    low = np.array([0.0 if each.low is None else max(0.0, each.low) for each in ends]) - slack
    high = np.array([1.0 if each.high is None else min(1.0, each.high) for each in ends]) + slack
    found = []
    for sign in (1, -1):
        solved = linprog(
            sign * p**k, np.vstack([rows, -rows]), np.concatenate([high, -low]), [np.ones(GRID)], [1.0], method="highs"
        )
        found.append(sign * solved.fun if solved.status == 0 else float(sign < 0))
    return max(0.0, min(found) - slack), min(1.0, max(found) + slack)


@dataclass(frozen=True)
class BetaModel:
    """p spread over docs as a beta distribution: a model, where the rest of this module assumes nothing."""

    mean: float
    alike: float
    """1/(a + b + 1), from 0 (all docs have the same p) to 1 (p is 0 or 1)."""
    p_value: float = 1.0
    """How often counts drawn from this model fit it as badly as the ones it was fitted to."""

    @property
    def is_rejected(self) -> bool:
        return self.p_value < REJECTED

    def power(self, k: int) -> float:
        """The average of p^k.

        >>> round(BetaModel(0.5, 1 / 3).power(3), 6)
        0.25
        """
        return float(_powers(np.array(self.mean), np.array(self.alike), k))


def _powers(mean: Floats, alike: Floats, k: int) -> Floats:
    """Π (a + j)/(a + b + j), with a + b = (1 − alike)/alike; no division by zero where all docs are alike."""
    found = np.ones_like(mean)
    for j in range(k):
        found = found * (mean * (1 - alike) + j * alike) / ((1 - alike) + j * alike)
    return found


def _by_moments(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Mean and likeness from the averages of p and p²."""
    room = first * (1 - first)
    alike = np.where(room > 0, (second - first**2) / np.where(room > 0, room, 1.0), 0.0)
    return first, np.clip(alike, 0.0, 0.9999)


def _misfit(seen: Floats, n: int, mean: Floats, alike: Floats) -> Floats:
    """Pearson's χ² of docs by right draws, 0 … n, against the model; a cell that hardly any doc is expected in counts for less."""
    chances = np.empty((len(mean), n + 1))
    for c in range(n + 1):
        chance = np.full(len(mean), float(math.comb(n, c)))
        for j in range(c):
            chance *= mean * (1 - alike) + j * alike
        for j in range(n - c):
            chance *= (1 - mean) * (1 - alike) + j * alike
        for j in range(n):
            chance /= (1 - alike) + j * alike
        chances[:, c] = chance
    expected = chances * seen.sum(axis=1, keepdims=True)
    found: Floats = ((seen - expected) ** 2 / (expected + 0.5)).sum(axis=1)
    return found


def beta_model(n: Counts, c: Counts) -> BetaModel | None:
    """The fit by the averages of p and p², and by counts drawn from it whether it is one. None for docs that were drawn less
    than three times, where two averages say all."""
    size = int(n.min())
    if size < 3:
        return None
    mean, alike = _by_moments(*(np.array([right_in_all(n, c, j).mean()]) for j in (1, 2)))
    rng = np.random.default_rng(len(n))
    # Docs with further draws count with as many as all have, drawn from theirs.
    cut = rng.hypergeometric(c, n - c, size)
    seen = np.bincount(cut, minlength=size + 1)[None].astype(np.float64)
    spread = (1 - alike) / np.maximum(alike, 1e-6)
    p = rng.beta(mean * spread + 1e-9, (1 - mean) * spread + 1e-9, size=(REPLICATES, len(n)))
    again = rng.binomial(size, p)
    counts = np.stack([(again == j).sum(axis=1) for j in range(size + 1)], axis=1).astype(np.float64)
    powers = [(counts @ right_in_all(np.full(size + 1, size), np.arange(size + 1), j)) / len(n) for j in (1, 2)]
    worse = _misfit(counts, size, *_by_moments(*powers)) >= _misfit(seen, size, mean, alike)
    return BetaModel(float(mean[0]), float(alike[0]), float((worse.sum() + 1) / (REPLICATES + 1)))


def forecast(n: Counts, c: Counts, k: int, model: BetaModel, keys: Keys, *, level: float = 0.95) -> Estimate:
    """pass^k by the model, with what other docs would have made of it; not with what another model would."""
    if model.is_rejected:
        return Estimate.missing(f"the beta-binomial model does not fit (p = {model.p_value:.2g})", len(n))
    weights = poisson_weights(keys, REPLICATES).astype(np.float64)
    weights = weights[weights.sum(axis=1) > 0]
    powers = [(weights @ right_in_all(n, c, j)) / weights.sum(axis=1) for j in (1, 2)]
    drawn = _powers(*_by_moments(*powers), k)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    method = "beta-binomial model"
    ends = float(min(low, model.power(k))), float(max(high, model.power(k)))
    return Estimate(model.power(k), float(drawn.std()), *ends, len(n), method, level=level, bounded=True)


@dataclass(frozen=True)
class Split:
    """A budget of draws as so many docs with so many draws each, and the errors of the numbers that it would give."""

    draws: int
    docs: int
    mean: float
    power: float | None
    """Of pass^k; None where there are fewer draws than k, or nothing tells."""


def splits(n: Counts, c: Counts, budget: int, k: int, model: BetaModel | None, most: int | None = None) -> list[Split]:
    """How the standard errors depend on draws a doc, for the same number of draws in all. At most `most` docs can be had.

    Docs that were drawn twice or more tell the variance between docs, and that of a doc's draws.
    """
    known = [float(np.nanmean(right_in_all(n, c, j))) if (n >= j).all() else None for j in range(2 * k + 1)]

    def power(j: int) -> float | None:
        return known[j] if known[j] is not None else None if model is None else model.power(j)

    first, second = (float(right_in_all(n, c, j).mean()) for j in (1, 2))
    found = []
    draws = 1
    while 2 * draws <= budget:
        docs = min(budget // draws, most or budget)
        each = math.sqrt((max(0.0, second - first**2) + max(0.0, first - second) / draws) / docs)
        squares, middle = _mean_square(draws, k, power), power(k)
        known_both = squares is not None and middle is not None
        of_power = math.sqrt(max(0.0, squares - middle**2) / docs) if known_both else None  # type: ignore[operator]
        found.append(Split(draws, docs, each, of_power))
        draws *= 2
    return found


def _mean_square(draws: int, k: int, power: Callable[[int], float | None]) -> float | None:
    """The average of (C(c, k)/C(n, k))² over docs: two choices of k among n draws have j draws in common, and all of the 2k − j
    must be right."""
    if draws < k:
        return None
    total = 0.0
    for j in range(max(0, 2 * k - draws), k + 1):
        value = power(2 * k - j)
        if value is None:
            return None
        total += math.comb(k, j) * math.comb(draws - k, k - j) / math.comb(draws, k) * value
    return total
