"""Where scores of a crossed design (docs × wordings × shots) vary: analysis of variance with random effects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Effect = tuple[str, ...]


@dataclass(frozen=True)
class Components:
    """Variance of one score by source. An effect is the names that make it up; all names together hold the residual."""

    variances: dict[Effect, float]
    levels: dict[str, int]
    mean: float
    low: float
    high: float
    """Lowest and highest mean over docs among the conditions."""

    @property
    def shares(self) -> dict[Effect, float]:
        """Parts of the total variance; all zero when every score is the same."""
        total = sum(self.variances.values())
        return {effect: v / total if total else 0.0 for effect, v in self.variances.items()}

    @property
    def stderr(self) -> float:
        """Of the grand mean, with wordings and shots seen as draws of those one might have chosen."""
        return math.sqrt(sum(v / math.prod(self.levels[f] for f in effect) for effect, v in self.variances.items()))


def variance_components(scores: NDArray[np.float64], names: Sequence[str]) -> Components:
    """Components of a full table of scores, one axis per name, docs first; one score a cell.

    A mean square of the effect S expects Σ over T ⊇ S of σ²_T times the cells that share a level of T; solved from the
    largest effect down. Estimates below zero are noise around zero and set to it.
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != len(names):
        raise ValueError(f"{table.ndim} axes for {len(names)} names {tuple(names)}")
    levels = dict(zip(names, table.shape, strict=True))
    axes = [i for i, size in enumerate(table.shape) if size > 1]
    raw: dict[tuple[int, ...], float] = {}
    for size in range(len(axes), 0, -1):
        for effect in combinations(axes, size):
            above = sum(_cells(table, t) * v for t, v in raw.items() if set(effect) < set(t))
            raw[effect] = (_mean_square(table, effect) - above) / _cells(table, effect)
    by_name = {
        tuple(names[i] for i in e): max(0.0, v) for e, v in sorted(raw.items(), key=lambda kv: (len(kv[0]), kv[0]))
    }
    conditions = table.mean(axis=0)
    return Components(by_name, levels, float(table.mean()), float(conditions.min()), float(conditions.max()))


def _cells(table: NDArray[np.float64], effect: tuple[int, ...]) -> int:
    """Cells that share one level of the effect."""
    return math.prod(size for i, size in enumerate(table.shape) if i not in effect)


def _mean_square(table: NDArray[np.float64], effect: tuple[int, ...]) -> float:
    """Effect of a set of axes by inclusion and exclusion of the means over the others."""
    others = tuple(i for i in range(table.ndim) if i not in effect)
    part = np.zeros([size if i in effect else 1 for i, size in enumerate(table.shape)])
    for size in range(len(effect) + 1):
        for left in combinations(effect, size):
            away = tuple(i for i in range(table.ndim) if i not in left)
            part = part + (-1) ** (len(effect) - size) * table.mean(axis=away, keepdims=True)
    freedom: int = math.prod(table.shape[i] - 1 for i in effect)
    cells: int = math.prod(table.shape[i] for i in others)
    return float((part**2).sum()) * cells / freedom
