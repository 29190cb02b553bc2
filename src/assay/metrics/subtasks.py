"""The two helpers by which lm-evaluation-harness makes a group's number from its tasks', over our own formulas."""

from __future__ import annotations

from collections.abc import Sequence

from assay.errors import ScoringError
from assay.stats import pooled_stderr


def aggregate_subtask_metrics(metrics: Sequence[float], sizes: Sequence[int], weight_by_size: bool = True) -> float:
    """The mean of the tasks' numbers, by size or not.

    >>> aggregate_subtask_metrics([0.5, 1.0], [30, 10]), aggregate_subtask_metrics([0.5, 1.0], [30, 10], False)
    (0.625, 0.75)
    """
    if len(metrics) != len(sizes):
        raise ScoringError(f"{len(metrics)} numbers for {len(sizes)} sizes")
    weights = list(sizes) if weight_by_size else [1] * len(sizes)
    return sum(metric * weight for metric, weight in zip(metrics, weights)) / sum(weights)


def pooled_sample_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float:
    """The standard error of all docs of the tasks taken together."""
    if len(stderrs) != len(sizes):
        raise ScoringError(f"{len(stderrs)} standard errors for {len(sizes)} sizes")
    pooled = pooled_stderr(stderrs, sizes)
    if pooled is None:
        raise ScoringError("every task has one doc: there is no pooled standard error")
    return pooled
