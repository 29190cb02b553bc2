"""How few docs would do? Choose docs on earlier runs, and learn on runs that had no say what a score on them is worth.

Docs chosen because they separated the runs at hand look better than they are: the choice and the calibration fit those runs.
So each run in turn is left out of both, and its error is what a new run's would be. If a new run is to the earlier ones as
they are to each other (exchangeable), the interval from those errors holds at its level, whatever the choice was
(cross-conformal; Vovk 2015, Barber et al. 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.stats.estimate import Floats

SHARES = (1.0, 0.7, 0.4)
"""Of the docs by how well they separate runs: the shares from which to choose. Which is best, the runs decide."""
FEWEST_RUNS = 5
_FOLDS = 5


@dataclass(frozen=True)
class ThinDocs:
    """A choice of docs, how a mean on them becomes a score on all, and how far off that may be."""

    docs: NDArray[np.int64]
    share: float
    intercept: float
    slope: float
    errors: Floats
    """Of each run, where it was left out of the choice: predicted − actual."""
    level: float

    @property
    def half_width(self) -> float | None:
        """None with too few runs: at 95 % it takes 19."""
        return conformal_width(self.errors, self.level)


def conformal_width(errors: Floats, level: float) -> float | None:
    """The smallest width that holds a further error of the same kind with this probability; None where none does.

    >>> conformal_width(np.arange(1.0, 20.0), 0.95), conformal_width(np.arange(1.0, 10.0), 0.95)
    (19.0, None)
    """
    place = math.ceil((len(errors) + 1) * level - 1e-9)
    return None if place > len(errors) else float(np.sort(np.abs(errors))[place - 1])


def thin_docs(values: Floats, count: int, *, level: float = 0.95) -> ThinDocs:
    """The `count` docs on which to run a new model. `values` is [runs, docs] without gaps."""
    runs, docs = values.shape
    if runs < FEWEST_RUNS or not 0 < count < docs:
        raise ValueError(f"{runs} runs and {count} of {docs} docs")
    errors = np.array([_left_out(values, run, count) for run in range(runs)])
    share = _best_share(values, count)
    chosen = _choose(values, count, share)
    intercept, slope = _calibrate(values, chosen)
    return ThinDocs(np.sort(chosen), share, intercept, slope, errors, level)


def _left_out(values: Floats, run: int, count: int) -> float:
    """The error on a run that neither the docs, nor the share, nor the calibration have seen."""
    others = np.delete(values, run, axis=0)
    return _error(others, values[run], count, _best_share(others, count))


def _error(earlier: Floats, new: Floats, count: int, share: float) -> float:
    docs = _choose(earlier, count, share)
    intercept, slope = _calibrate(earlier, docs)
    return float(intercept + slope * new[docs].mean() - new.mean())


def _best_share(values: Floats, count: int) -> float:
    """By cross-fitting among these runs alone."""
    shares = [share for share in SHARES if share * values.shape[1] >= count] or [1.0]
    if len(shares) == 1:
        return shares[0]
    fold = np.arange(len(values)) % min(_FOLDS, len(values))
    losses = []
    for share in shares:
        loss = 0.0
        for part in np.unique(fold):
            earlier = values[fold != part]
            docs = _choose(earlier, count, share)
            intercept, slope = _calibrate(earlier, docs)
            held = values[fold == part]
            loss += float(((intercept + slope * held[:, docs].mean(axis=1) - held.mean(axis=1)) ** 2).sum())
        losses.append(loss)
    return shares[int(np.argmin(losses))]


def _choose(values: Floats, count: int, share: float) -> NDArray[np.int64]:
    """From the docs that best tell good runs from bad ones, evenly from the easiest to the hardest."""
    score = values.mean(axis=1)
    ease = values.mean(axis=0)
    separation = (score - score.mean()) @ (values - ease)
    pool = np.argsort(-separation, kind="stable")[: max(count, round(share * values.shape[1]))]
    pool = pool[np.lexsort((pool, ease[pool]))]
    return np.asarray(pool[((np.arange(count) + 0.5) * len(pool) / count).astype(np.int64)], dtype=np.int64)


def _calibrate(values: Floats, docs: NDArray[np.int64]) -> tuple[float, float]:
    """The line from a run's mean on these docs to its score on all."""
    part, score = values[:, docs].mean(axis=1), values.mean(axis=1)
    away = part - part.mean()
    # Runs that do not differ on these docs say nothing about a slope.
    slope = float(away @ (score - score.mean()) / (away @ away)) if away @ away > 0 else 0.0
    return float(score.mean() - slope * part.mean()), slope
