"""Do judges agree, with each other and with themselves? Krippendorff's α, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from assay.stats.bootstrap import bootstrap_estimate
from assay.stats.estimate import Estimate, Floats


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


def _alpha(sums: Floats) -> Floats:
    within, n, first, second = sums.T
    with np.errstate(divide="ignore", invalid="ignore"):
        observed, expected = within / n, 2 * (n * second - first**2) / (n * (n - 1))
        result: Floats = np.where(expected > 0, 1 - observed / expected, np.nan)
    return result
