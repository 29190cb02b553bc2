"""Groups on plain result dictionaries, in and out: the shape in which results files are written.

The dictionaries hold values and standard errors but no replicates, so the error of anything that is not a mean is
first-order: how far the number moves when each child moves by its standard error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from assay.config import AggMetricConfig
from assay.groups.compute import GroupScore, score_group
from assay.groups.group import Group, node_name
from assay.groups.keys import MetricKey
from assay.groups.members import Scores
from assay.stats import Estimate, Score, doc_keys, normal_quantile

NOT_AVAILABLE = "N/A"


def aggregate_plain(
    group: Group, task_metrics: Mapping[str, Mapping[str, Any]], *, entries: Sequence[AggMetricConfig] | None = None
) -> dict[str, Any]:
    """The group's entry of a results file from those of its tasks."""
    if not group.has_aggregation and entries is None:
        return {"alias": group.alias or group.name, "name": group.name}
    scores: dict[str, Mapping[MetricKey, Score]] = {
        name: as_scores(metrics, name) for name, metrics in task_metrics.items()
    }
    for below in reversed(group.get_all_groups()):
        # Subgroups are computed even if the dictionaries hold them: those may come from other settings.
        scores[below.name] = score_group(below, scores)
    lengths = {name: _length(metrics) for name, metrics in task_metrics.items()}
    return results_entry(group, score_group(group, scores, entries), lengths)


def results_entry(group: Group, scores: Mapping[MetricKey, GroupScore], lengths: Mapping[str, int]) -> dict[str, Any]:
    """`alias`, `name`, `sample_len`, the numbers with their standard errors, `sample_count`, in that order.

    Undefined is written "N/A", here and nowhere else.
    """
    entry: dict[str, Any] = {"alias": group.alias or group.name, "name": group.name}
    if not group.has_aggregation and not scores:
        return entry
    leaves = [node_name(task) for task in group.get_all_tasks()]
    entry["sample_len"] = sum(lengths.get(name, 0) for name in leaves)
    counts: dict[str, int] = {}
    for key, score in scores.items():
        entry[str(key)] = _or_not_available(score.estimate.value)
        entry[str(key.stderr)] = _or_not_available(score.estimate.stderr)
        if score.estimate.value is not None:
            counts[str(key)] = score.size
    if counts:
        entry["sample_count"] = counts
    return entry


def as_scores(metrics: Mapping[str, Any], name: str) -> dict[MetricKey, Score]:
    """One entry of a results file as scores; "N/A" is no standard error, or no value.

    The file does not tell the docs of a task: one key stands for all of them, so that groups which share it are known.
    """
    length = _length(metrics)
    found: dict[MetricKey, Score] = {}
    for text, value in metrics.items():
        if MetricKey.is_key(text) and not (key := MetricKey.parse(text)).is_stderr:
            estimate = _estimate(value, metrics.get(str(key.stderr)), length)
            found[key] = Score(estimate, length, lambda: np.empty(0), keys=lambda: doc_keys([name]))
    return found


def sample_lengths(scores: Scores) -> dict[str, int]:
    """The docs of each task: the largest count among its metrics."""
    return {name: max((score.size for score in found.values()), default=0) for name, found in scores.items()}


def only_values(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        text: value for text, value in entry.items() if MetricKey.is_key(text) and not MetricKey.parse(text).is_stderr
    }


def _estimate(value: Any, stderr: Any, n: int) -> Estimate:
    if not isinstance(value, int | float):
        return Estimate.missing(f"the results say {value!r}", n)
    if not isinstance(stderr, int | float):
        return Estimate.bare(float(value), n, "no standard error in the results")
    reach = normal_quantile(0.975) * stderr
    return Estimate(float(value), float(stderr), value - reach, value + reach, n, "normal")


def _length(metrics: Mapping[str, Any]) -> int:
    for name in ("sample_len", "samples"):
        if isinstance(metrics.get(name), int):
            return int(metrics[name])
    return 1


def _or_not_available(value: float | None) -> float | str:
    return NOT_AVAILABLE if value is None else value
