"""What every mean would be under the right gold answers, beside what it is, up the tree of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.config import RunConfig
from assay.groups import gold_of_group
from assay.results import GoldCheck, GroupResult, MetricColumn, MetricKey, TaskResult
from assay.run.collect import Collector
from assay.run.gold import why_not
from assay.stats import Estimate, GoldChecked, gold_mean, unit_index, unit_keys

Keys = NDArray[np.uint64]


def with_gold(
    tasks: Mapping[str, TaskResult],
    groups: Mapping[str, GroupResult],
    collectors: Mapping[str, Collector],
    config: RunConfig,
) -> tuple[dict[str, TaskResult], dict[str, GroupResult]]:
    """The results with what each mean would be under the right gold answers. What `--until` stopped is no sample of a fixed size."""
    if config.until or not any(collectors[name].gold for name in tasks):
        return dict(tasks), dict(groups)
    parts: dict[MetricKey, dict[str, tuple[GoldChecked, Keys]]] = {}
    for name, task in tasks.items():
        for key in task.scores:
            column = collectors[name].columns.get(key)
            if column is not None and column.aggregation.name == "mean" and column.is_numeric and len(column):
                parts.setdefault(key, {})[name] = _part(collectors[name], column)
    unfit = {name: why_not(collectors[name].task) for name in tasks if collectors[name].gold}
    checked = {name: {key: _check(*of[name]) for key, of in parts.items() if name in of} for name in tasks}
    for name, reason in unfit.items():
        if reason is not None:
            why = GoldCheck(Estimate.missing(reason), len(collectors[name].gold))
            checked[name] = dict.fromkeys(checked[name], why)
    found = {name: replace(task, scores=_with(task.scores, checked[name])) for name, task in tasks.items()}
    of_groups = {
        name: {
            key: None if (pooled := gold_of_group(groups, name, key, of)) is None else _check(*pooled)
            for key, of in parts.items()
            if key in group.scores
        }
        for name, group in groups.items()
    }
    return found, {name: replace(group, scores=_with(group.scores, of_groups[name])) for name, group in groups.items()}


def _with(scores: Mapping[MetricKey, Any], checks: Mapping[MetricKey, GoldCheck | None]) -> dict[MetricKey, Any]:
    return {key: replace(score, gold=checks.get(key)) for key, score in scores.items()}


def _check(docs: GoldChecked, units: Keys) -> GoldCheck | None:
    if not docs.n:
        return None
    made = gold_mean(docs, unit_index(units))
    return GoldCheck(made.estimate, made.labels, made.wrong)


def _part(collector: Collector, column: MetricColumn) -> tuple[GoldChecked, Keys]:
    place = {doc_id: at for at, doc_id in enumerate(collector.doc_ids)}
    at = [place[doc_id] for doc_id in column.doc_ids]
    clusters = None if collector.clusters is None else np.asarray(collector.clusters)[at]
    gold = [(column.gold or {}).get(doc_id) for doc_id in column.doc_ids]
    checked = [np.nan if each is None or each.value is None else each.value for each in gold]
    weights = [0.0 if each is None else each.weight for each in gold]
    docs = GoldChecked(np.asarray(column.values, dtype=np.float64), np.array(checked), np.array(weights))
    return docs, unit_keys(np.asarray(collector.keys)[at], clusters)
