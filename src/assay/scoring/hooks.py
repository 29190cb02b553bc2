"""Scoring by a task's own `_create_result` and `_compute_metric`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from assay.instance import Instance
from assay.scoring.base import Scorer
from assay.scoring.resolve import ResolvedMetric
from assay.scoring.scorers import reduce_draws


def hooked(
    scorer: Scorer,
    create_result: Callable[[Sequence[Instance], str], Any],
    compute_metric: Callable[[Any, ResolvedMetric], Any],
) -> Scorer:
    """A scorer like this one, which leaves two steps to these functions.

    Of a subclass made for it, because scorers look at their class to see whether docs may be scored many at a time.
    A list of numbers counts as values of draws, and goes through the metric's reducer.
    """
    kind: Any = type(scorer)

    class Hooked(kind):  # type: ignore[misc]
        unhooked = scorer

        def _prepare_data(self, instances: Sequence[Instance], filter_name: str) -> Any:
            return create_result(instances, filter_name)

        def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
            value = compute_metric(create_result(instances, filter_name), metric)
            return reduce_draws(metric, value) if is_draws(value) else value

    made = copy.copy(scorer)
    made.__class__ = Hooked
    return made


def is_draws(score: Any) -> bool:
    """Whether a score is a list of the scores of repeated draws, and not a pair of texts."""
    return isinstance(score, list) and bool(score) and all(isinstance(each, int | float) for each in score)
