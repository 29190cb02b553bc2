"""From the collected values of a task to its scores."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from assay.config import MetricConfig
from assay.errors import ScoringError
from assay.request_types import OUTPUT_TYPES
from assay.results import DocIds, MetricKey, Score, metric_and_step
from assay.run.collect import Collector
from assay.scoring import (
    aggregation_of,
    checked,
    estimate,
    filters_of,
    higher_is_better_of,
    may_be_right_or_wrong,
    says_something,
)
from assay.stats import Estimate


def task_scores(collector: Collector, bootstrap_iters: int) -> dict[MetricKey, Score]:
    """An estimate for every metric under every filter."""
    keys = np.asarray(collector.keys)
    clusters = None if collector.clusters is None else np.asarray(collector.clusters)
    scores: dict[MetricKey, Score] = {}
    for key in in_order(collector.columns):
        column = collector.columns[key].in_doc_order()
        at = places_of(column.doc_ids, collector.doc_ids)
        try:
            scores[key] = estimate(
                column.values,
                column.aggregation,
                keys[at],
                None if clusters is None else clusters[at],
                bootstrap_iters,
                counts=column.draw_counts,
                drawn_once=collector.drawn_once and may_be_right_or_wrong(collector.task.config, key.metric),
                higher_is_better=column.higher_is_better,
            )
        except ScoringError as error:
            place = f"task {collector.task.name!r}, filter {key.filter!r}, metric {key.metric!r}"
            raise ScoringError(f"{place}: {error.message}", hint=error.hint) from error
        if column.labels is not None:
            scores[key] = checked(
                scores[key], column, keys[at], None if clusters is None else clusters[at], bootstrap_iters
            )
    return scores | without_values(collector)


def in_order(keys: Iterable[MetricKey]) -> list[MetricKey]:
    """As they were met, but a metric from several steps stands behind the metric, step by step."""
    met = {key: place for place, key in enumerate(keys)}

    def place(key: MetricKey) -> tuple[int, int]:
        metric, step = metric_and_step(key.metric)
        return met.get(MetricKey(metric, key.filter), met[key]), step or 0

    return sorted(met, key=place)


def without_values(collector: Collector) -> dict[MetricKey, Score]:
    """Metrics that the task lists and that gave no doc a value: each has a row that says why, and none is left out.

    Files of lm-evaluation-harness list metrics that it passes over.
    """
    config = collector.task.config
    if config.lm_eval_version is not None or not collector.scoring or not collector.health.docs:
        return {}
    scores: dict[MetricKey, Score] = {}
    for each in filters_of(config) if config.output_type in OUTPUT_TYPES else ():
        for metric in each.metric_list or config.metric_list or ():
            key = MetricKey(metric.name, each.name)
            if key in collector.columns or key in collector.unfolded or aggregation_of(metric).name == "bypass":
                continue
            missing = Estimate.missing(why_no_value(metric, collector))
            scores[key] = Score(missing, 0, aggregation_of(metric).name, higher_is_better_of(metric))
    return scores


def why_no_value(metric: MetricConfig, collector: Collector) -> str:
    config, health = collector.task.config, collector.health
    if health.all_failed:
        return "every request failed"
    if config.process_results is not None:
        return f"process_results gave no {metric.name}"
    if config.scorer is None and config.class_ is None and not says_something(metric, config):
        return f"it does not apply to {config.output_type} tasks"
    return "no doc has a value"


def places_of(wanted: DocIds, ids: DocIds) -> slice | NDArray[np.int64]:
    """Where docs stand among all docs that were sent: metrics may skip some."""
    if wanted.as_range is not None and wanted.as_range == ids.as_range:
        return slice(None)
    order = np.argsort(ids, kind="stable")
    return order[np.searchsorted(ids, wanted, sorter=order)]
