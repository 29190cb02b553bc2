"""Cells of scores under the right gold answers: means, differences and groups, by labels on some docs.

The number that is to be covered is what runs would score if every gold answer were right. Hard docs have wrong gold answers more often, and
where a run errs on such a doc, it often errs as the published answer does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from _coverage_cell import Cell, Found, Rng, held
from assay.stats import Estimate, GoldChecked, gold_difference, gold_mean

TRAP, GUESS = 0.4, 0.3
"""How often an error on a wrong gold answer is the published one, and a doc without a right answer counts as right."""


def runs(
    rng: Rng,
    n: int,
    right: Sequence[float],
    wrong: float,
    labels: int,
    *,
    ambiguous: float = 0.0,
    drawn: str = "evenly",
) -> list[GoldChecked]:
    hard, is_bad = rng.random(n), rng.random(n)
    is_wrong, is_ambiguous = is_bad < wrong * (0.5 + hard), rng.random(n) < ambiguous
    published, real = [], []
    for each in right:
        knows = np.where(rng.random(n) < 0.5, hard < each, rng.random(n) < each)
        as_published = np.where(is_wrong, ~knows & (rng.random(n) < TRAP), knows)
        published.append(np.where(is_ambiguous, rng.random(n) < GUESS, as_published).astype(float))
        real.append(np.where(is_ambiguous, np.nan, knows.astype(float)))
    # Suspects: what all runs get wrong.
    size = np.ones(n) if drawn == "evenly" else 0.01 + 0.3 * (np.max(published, axis=0) == 0)
    size = size / size.sum() + 1 / n
    chance = np.minimum(1, labels * size / size.sum())
    picked = np.argsort(rng.random(n) / size)[:labels]
    weights = np.zeros(n)
    weights[picked] = 1 / chance[picked]
    return [GoldChecked(p, np.where(weights > 0, r, np.nan), weights) for p, r in zip(published, real)]


def covered(estimate: Estimate, truth: float) -> Found:
    return None if estimate.low is None else held(estimate, truth)


def cells(n: int, p: float, wrong: float, labels: int, ambiguous: float, drawn: str) -> Iterator[Cell]:
    about = f"n {n}, p {p:g}, {wrong:.0%} wrong, {labels} labels"
    about += (f", {ambiguous:.0%} ambiguous" if ambiguous else "") + (
        "" if drawn == "evenly" else ", of suspects first"
    )
    better = p + 0.05
    # So few labels find an error or two, or none: what is in between cannot be told apart.
    few = wrong * labels < 6 or drawn != "evenly"

    def docs(rng: Rng) -> list[GoldChecked]:
        return runs(rng, n, (p, better), wrong, labels, ambiguous=ambiguous, drawn=drawn)

    def mean(rng: Rng) -> Found:
        return covered(gold_mean(docs(rng)[0]).estimate, p)

    def difference(rng: Rng) -> Found:
        return covered(gold_difference(*docs(rng)), better - p)

    yield Cell("gold mean", about, mean, slow=True, safe=few)
    yield Cell("gold difference", about, difference, slow=True, safe=few)


def group_cell(sizes: Sequence[int], p: float, wrong: float, labels: int) -> Cell:
    """A mean of tasks that have too few labels each."""

    def one(rng: Rng) -> Found:
        shares = [size / sum(sizes) for size in sizes]
        tasks = [runs(rng, size, (p,), wrong, round(labels * share))[0] for size, share in zip(sizes, shares)]
        return covered(gold_mean(GoldChecked.side_by_side(tasks, shares)).estimate, p)

    name = f"mean of {len(sizes)} tasks of {sizes[0]}, p {p:g}, {wrong:.0%} wrong, {labels} labels in all"
    return Cell("gold group", name, one, slow=True)


def gold_cells() -> Iterator[Cell]:
    for wrong in (0.02, 0.05, 0.1, 0.2):
        for labels in (50, 100, 400):
            yield from cells(1000, 0.6, wrong, labels, 0.0, "evenly")
    for n, p, wrong, labels, ambiguous in (
        (300, 0.85, 0.05, 100, 0.0),
        (12_000, 0.4, 0.05, 100, 0.03),
        (1000, 0.85, 0.1, 200, 0.05),
        (1000, 0.25, 0.2, 50, 0.02),
    ):
        for drawn in ("evenly", "suspects"):
            yield from cells(n, p, wrong, labels, ambiguous, drawn)
    yield group_cell((20,) * 40, 0.6, 0.1, 200)
    yield group_cell((100,) * 5, 0.8, 0.05, 100)
