"""`group_filter`: only the k best, the k worst, or those beyond a threshold enter.

The choice is made anew in every replicate. Picking the best five looks at the same noise as their mean does, and an
error bar that took the five for given would be too short.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.config import GroupFilter
from assay.errors import ConfigError
from assay.groups.formulas import Floats, Mask


def entering(filters: Sequence[GroupFilter], ranks: Sequence[Floats], better_high: Sequence[bool]) -> Mask | None:
    """Which children pass all filters, one after the other.

    `ranks` holds, for each filter, the numbers it looks at, [k] or [B, k].
    """
    mask: Mask | None = None
    for rule, values, high in zip(filters, ranks, better_high, strict=True):
        now = np.ones(values.shape, dtype=bool) if mask is None else mask
        mask = now & _passing(rule, np.where(now, values if high else -values, np.nan), high)
    return mask


def _passing(rule: GroupFilter, goodness: Floats, high: bool) -> Mask:
    if rule.function == "threshold":
        if rule.threshold is None:
            raise ConfigError(
                "group_filter: threshold without a number", hint="Write {function: threshold, threshold: 0.5}."
            )
        return goodness >= (rule.threshold if high else -rule.threshold)
    if rule.k is None:
        raise ConfigError(
            f"group_filter: {rule.function} without k", hint=f"Write {{function: {rule.function}, k: 5}}."
        )
    # A stable sort: of children that tie, those listed first enter. NaN (already out) sorts last.
    order = np.argsort(-goodness if rule.function == "top_k" else goodness, axis=-1, kind="stable")
    mask = np.zeros(goodness.shape, dtype=bool)
    np.put_along_axis(mask, order[..., : rule.k], True, axis=-1)
    return mask & ~np.isnan(goodness)
