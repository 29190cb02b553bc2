"""Do judges, filters or draws agree? Krippendorff's α and Cohen's κ, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from assay.stats.bootstrap import bootstrap_estimate, bootstrap_replicates
from assay.stats.estimate import Estimate, Floats, Keys


def krippendorff(ratings: Sequence[Sequence[float]], *, replicates: int = 1000, seed: int = 0) -> Estimate:
    """α for ratings on a scale of numbers: 1 − observed / expected squared difference. 1 is full agreement, 0 chance.

    One sequence a doc, of any length; docs with fewer than two ratings say nothing of agreement. With two values the
    squared difference is the nominal one, so this is α for named verdicts too. The interval is a bootstrap over docs.

    >>> round(krippendorff([[1, 1], [0, 0], [1, 0], [0, 0]]).value, 3)
    0.533
    """
    rated = [np.asarray(each, dtype=np.float64) for each in ratings if len(each) >= 2]
    if len(rated) < 2:
        return Estimate.missing("fewer than two docs have two verdicts", len(rated))
    # Σ over pairs (x − y)² = m·Σx² − (Σx)² within a doc of m ratings, so sums suffice.
    m = np.array([len(each) for each in rated], dtype=np.float64)
    first, second = np.array([each.sum() for each in rated]), np.array([each @ each for each in rated])
    table = np.column_stack([2 * (m * second - first**2) / (m - 1), m, first, second])
    value = float(_alpha(table.sum(axis=0)[None, :])[0])
    if math.isnan(value):
        return Estimate.missing("all verdicts are the same", len(rated))
    if not table[:, 0].any():  # every replicate would be 1 too, and say that disagreement is impossible
        return Estimate.bare(value, len(rated), "no interval: no two verdicts on a doc differ")
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(len(rated), np.full(len(rated), 1 / len(rated)), size=replicates)
    return bootstrap_estimate(value, _alpha(weights @ table), len(rated))


def draw_agreement(counts: Floats, units: Keys) -> Estimate:
    """Krippendorff's α among the draws of each doc, from rows of (draws, right draws); `units` as of `unit_keys`.

    >>> keys = np.arange(4, dtype=np.uint64)
    >>> round(draw_agreement(np.array([[2, 2], [2, 0], [2, 1], [2, 0]]), keys).value, 3)
    0.533
    """
    drawn, right = np.asarray(counts, dtype=np.float64).T
    if len(drawn) < 2 or (drawn < 2).any():
        return Estimate.missing("no doc has several draws", len(drawn))
    table = np.column_stack([2 * right * (drawn - right) / (drawn - 1), drawn, right, right])
    return _of_sums(table, _alpha, units, "all draws are the same")


def cohen_kappa(a: Floats, b: Floats, units: Keys) -> Estimate:
    """κ of two ratings of the same docs: how far they agree beyond what their frequencies give by chance.

    >>> keys = np.arange(4, dtype=np.uint64)
    >>> round(cohen_kappa(np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 0]), keys).value, 3)
    0.5
    """
    if len(a) < 2:
        return Estimate.missing("fewer than two docs", len(a))
    labels, index = np.unique(np.concatenate([a, b]), return_inverse=True)
    left, right = np.eye(len(labels))[index.reshape(2, -1)]
    table = np.column_stack([a == b, left, right]).astype(np.float64)
    return _of_sums(table, _kappa, units, "all ratings are the same")


def _of_sums(table: Floats, finish: Callable[[Floats], Floats], units: Keys, flat: str) -> Estimate:
    value = float(finish(table.sum(axis=0)[None, :])[0])
    if math.isnan(value):
        return Estimate.missing(flat, len(table))
    count = len(np.unique(units))
    return bootstrap_estimate(value, bootstrap_replicates(table, finish, units), len(table), units=count)


def _kappa(sums: Floats) -> Floats:
    left, right = np.split(sums[:, 1:], 2, axis=1)
    n = left.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_chance = (left * right).sum(axis=1) / n**2
        result: Floats = np.where(by_chance < 1, (sums[:, 0] / n - by_chance) / (1 - by_chance), np.nan)
    return result


def _alpha(sums: Floats) -> Floats:
    within, n, first, second = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        observed, expected = within / n, 2 * (n * second - first**2) / (n * (n - 1))
        result: Floats = np.where(expected > 0, 1 - observed / expected, np.nan)
    return result
