"""A group's number under the right gold answers: the docs of all its tasks side by side, so that labels need not suffice task by task."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from assay.results import GroupResult, MetricKey
from assay.stats import GoldChecked

Keys = NDArray[np.uint64]
_LINEAR = ("mean", "weighted_mean")


def task_shares(groups: Mapping[str, GroupResult], name: str, key: MetricKey) -> dict[str, float] | None:
    """What each task's number counts in the group's; None where the group's number is no weighted mean of them."""
    score = groups[name].scores.get(key)
    if score is None or score.aggregation not in _LINEAR or score.missing or not score.children:
        return None
    weights = [1.0 if child.weight is None else child.weight for child in score.children]
    shares: dict[str, float] = {}
    for child, weight in zip(score.children, weights):
        own = task_shares(groups, child.name, key) if child.name in groups else {child.name: 1.0}
        if own is None:
            return None
        for task, share in own.items():
            shares[task] = shares.get(task, 0.0) + share * weight / sum(weights)
    return shares


def gold_of_group(
    groups: Mapping[str, GroupResult], name: str, key: MetricKey, parts: Mapping[str, tuple[GoldChecked, Keys]]
) -> tuple[GoldChecked, Keys] | None:
    """The docs of the group's tasks, each scaled by its task's share, and their units."""
    shares = task_shares(groups, name, key)
    if shares is None or any(task not in parts for task in shares):
        return None
    chosen = [parts[task] for task in shares]
    docs = GoldChecked.side_by_side([each for each, _ in chosen], [*shares.values()])
    return docs, np.concatenate([units for _, units in chosen])
