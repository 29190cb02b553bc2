"""What an aggregation is: the values of all docs to one number, and what its error bar is computed from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from assay.stats.estimate import Estimate, Floats
from assay.stats.units import Clusters


@dataclass(frozen=True)
class Aggregation:
    """Values of all docs to one number.

    With `statistics` (a row per doc) and `finish` (sums of rows to numbers) a bootstrap replicate is
    `finish(weights @ statistics)`; `replicate(values, weights)` serves numbers that are no function of sums (median),
    and values for which `statistics` gives None. Without either, an estimate repeats items and calls `fn`.
    """

    name: str
    fn: Callable[[Sequence[Any]], Any]
    statistics: Callable[[Sequence[Any]], Floats | None] | None = None
    finish: Callable[[Floats], Floats] | None = None
    replicate: Callable[[Sequence[Any], NDArray[Any]], Floats] | None = None
    transform: Callable[[float], float] | None = None
    """Monotone map from the ratio of the two columns of `statistics` to the number: mean and ratios have a formula."""
    estimate: Callable[[float, Floats, Clusters | None, float], Estimate] | None = None
    """(number, table of `statistics`, clusters, level) → estimate, for numbers with a formula of their own: f1, mcc."""
    resamples: int = 0
    """To how many resamples lm-evaluation-harness bounds the standard error of this aggregation; 0: no bound of its own."""
