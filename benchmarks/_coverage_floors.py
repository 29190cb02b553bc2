"""Cells of floors: how far a score lies above the highest of several, on the same docs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from _coverage_cell import Cell, Found, Rng, held
from assay.results import Score
from assay.run.floors import above_highest
from assay.stats import Estimate, combined_estimate, paired_difference


def runs(rng: Rng, n: int, p: float, floors: Sequence[float]) -> list[np.ndarray]:
    """The score's docs and each floor's: docs that are easy are easy for all."""
    hard = rng.random(n)
    return [np.where(rng.random(n) < 0.5, hard < each, rng.random(n) < each).astype(float) for each in (p, *floors)]


def scores_above(rng: Rng, n: int, p: float, floors: Sequence[float]) -> dict[str, Score]:
    own, *others = runs(rng, n, p, floors)
    found = [paired_difference(other, own) for other in others]
    return {str(i): Score(each.estimate, n, interval=each.interval) for i, each in enumerate(found)}


def above(n: int, p: float, floors: Sequence[float]) -> Cell:
    def one(rng: Rng) -> Found:
        made = above_highest(scores_above(rng, n, p, floors))
        return None if made is None else held(made, p - max(floors))

    name = f"above the highest of {', '.join(f'{floor:g}' for floor in floors)}, p {p:g}, n {n}"
    return Cell("floors", name, one, slow=True, safe=True)


def group_above(sizes: Sequence[int], p: float, floors: Sequence[float]) -> Cell:
    """The mean over tasks, above the floor that is highest for their mean."""
    k, weights = len(sizes), np.full(len(sizes), 1 / len(sizes))

    def mean(members: Sequence[Score], level: float) -> tuple[float, float] | None:
        value = float(weights @ [member.estimate.value or 0.0 for member in members])
        at = [
            replace(m.estimate, low=(m.bounds(level) or (None, None))[0], high=(m.bounds(level) or (None, None))[1])
            for m in members
        ]
        made = combined_estimate(value, [replace(each, level=level) for each in at], weights, sum(sizes), level=level)
        return None if made.low is None or made.high is None else (made.low, made.high)

    def one(rng: Rng) -> Found:
        tasks = [scores_above(rng, n, p, floors) for n in sizes]
        lifted = {}
        for name in tasks[0]:
            members = [task[name] for task in tasks]
            value = float(weights @ [member.estimate.value or 0.0 for member in members])
            ends = mean(members, 0.95) or (-1.0, 1.0)
            estimate = Estimate(value, 0.1, *ends, sum(sizes), "mean")
            lifted[name] = Score(estimate, sum(sizes), interval=partial(mean, members))
        made = above_highest(lifted)
        return None if made is None else held(made, p - max(floors))

    name = f"mean of {k} tasks of {sizes[0]} above the highest of {', '.join(f'{f:g}' for f in floors)}, p {p:g}"
    return Cell("floors", name, one, slow=True, safe=True)


def floor_cells() -> Iterator[Cell]:
    for n in (20, 100, 1000):
        for p, floors in ((0.6, (0.4,)), (0.6, (0.5, 0.3, 0.25)), (0.5, (0.48, 0.48, 0.48, 0.48)), (0.95, (0.5, 0.25))):
            yield above(n, p, floors)
    yield from (group_above((n,) * k, 0.6, (0.5, 0.45, 0.3)) for n, k in ((20, 10), (100, 5), (50, 57)))
