"""What a scorer is: the loop filter → doc → metric, and what it gives back."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from assay.config import FilterConfig, MetricConfig, TaskConfig
from assay.errors import AssayError, ScoringError
from assay.instance import Instance
from assay.metrics import Aggregation
from assay.scoring.health import Health
from assay.scoring.randomness import RandomStream
from assay.scoring.resolve import (
    ResolvedMetric,
    aggregation_of,
    filters_of,
    higher_is_better_of,
    metric_configs,
    resolve_metrics,
)

Key = tuple[str, str]
"""(metric, filter)."""
InstancesByDoc = Mapping[int, Sequence[Instance]]


@dataclass(frozen=True)
class ScoringContext:
    """One filter's turn."""

    instances: InstancesByDoc
    filter: FilterConfig
    task_config: TaskConfig

    @property
    def filter_name(self) -> str:
        return self.filter.name

    @property
    def metrics(self) -> Sequence[MetricConfig]:
        """The filter's own list, else the task's."""
        return metric_configs(self.task_config, self.filter)


@dataclass
class ScoringResult:
    """Values per (metric, filter), in doc order.

    `doc_ids` is parallel to `sample_scores`: a doc may have a value for some metrics only. `aggregations` and
    `higher_is_better` are by metric name, the names that a metric's dict brought along included.
    """

    sample_scores: dict[Key, list[Any]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    doc_ids: dict[Key, list[int]] = field(default_factory=dict)
    aggregations: dict[str, Aggregation] = field(default_factory=dict)
    higher_is_better: dict[str, bool | None] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    draw_counts: dict[Key, list[tuple[int, int]]] = field(default_factory=dict)
    """(draws, right draws) per doc, for metrics that reduced repeated draws; parallel to `sample_scores`."""

    def add(self, key: Key, doc_id: int, value: Any) -> None:
        self.sample_scores.setdefault(key, []).append(value)
        self.doc_ids.setdefault(key, []).append(doc_id)

    def merge(self, other: ScoringResult) -> ScoringResult:
        """Both results in one. The same (metric, filter) in both is an error, never a silent overwrite."""
        clash = sorted(self.sample_scores.keys() & other.sample_scores.keys())
        if clash:
            names = ", ".join(f"{metric} under {filter_name}" for metric, filter_name in clash)
            raise ScoringError(f"two results both have {names}", hint="Give one of the filters another name.")
        return self._join(other)

    def extend(self, other: ScoringResult) -> ScoringResult:
        """This result followed by that of further docs of the same task."""
        return self._join(other)

    def _join(self, other: ScoringResult) -> ScoringResult:
        joined = ScoringResult(
            {**self.sample_scores},
            {**self.metadata, **other.metadata},
            {**self.doc_ids},
            {**self.aggregations, **other.aggregations},
            {**self.higher_is_better, **other.higher_is_better},
            self.health + other.health,
            {**self.draw_counts},
        )
        for key, values in other.sample_scores.items():
            joined.sample_scores[key] = [*joined.sample_scores.get(key, []), *values]
            joined.doc_ids[key] = [*joined.doc_ids.get(key, []), *other.doc_ids.get(key, [])]
            if key in other.draw_counts:
                joined.draw_counts[key] = [*joined.draw_counts.get(key, []), *other.draw_counts[key]]
        joined.metadata["health"] = joined.health.as_dict()
        return joined


@dataclass(frozen=True)
class Reduced:
    """The value that a reducer made of repeated draws, and how many of them were right."""

    value: Any
    counts: tuple[int, int]


class Scorer(ABC):
    """Scores the instances of a task, filter by filter, doc by doc.

    A new scorer gives `score_doc`, or overrides `score_filter` to work on many docs at once. `multiple_target` says that
    the task has several right answers per doc; None leaves that to each doc's target.
    """

    def __init__(self, *, multiple_target: bool | None = None) -> None:
        self.multiple_target = multiple_target
        self.randomness = RandomStream()

    @abstractmethod
    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        """The value of one metric for one doc; a dict gives one score per key."""

    def score(self, instances_by_doc: InstancesByDoc, task_config: TaskConfig) -> ScoringResult:
        result = ScoringResult()
        answered = result.health.count_docs(instances_by_doc)
        with self.randomness.active(instances_by_doc.keys()):
            for each in filters_of(task_config):
                kept = self._kept(answered, each.name)
                result.health.count_filter(each.name, kept, len(answered) - len(kept))
                self.score_filter(ScoringContext(kept, each, task_config), result)
        result.metadata["health"] = result.health.as_dict()
        return result

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        metrics = resolve_metrics(context.task_config, context.filter)
        for metric in metrics:
            self.declare(result, metric.name, metric.aggregation, metric.higher_is_better)
        jobs = [(doc_id, metric) for doc_id in context.instances for metric in metrics]
        for (doc_id, metric), value in zip(jobs, self._values(context, jobs)):
            self.keep(result, context.filter_name, doc_id, metric, value)

    def _values(self, context: ScoringContext, jobs: Sequence[tuple[int, ResolvedMetric]]) -> Iterable[Any]:
        """The value of each job, in order. Metrics that wait for programs to run wait for several at once."""

        def value(job: tuple[int, ResolvedMetric]) -> Any:
            doc_id, metric = job
            instances = context.instances[doc_id]
            where = (metric.name, context.filter_name, instances[0].task_name or context.task_config.task, doc_id)
            return guarded(where, self.score_doc, instances, metric, context.filter_name)

        if not context.task_config.unsafe_code:
            return map(value, jobs)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(value, jobs))

    def keep(self, result: ScoringResult, filter_name: str, doc_id: int, metric: ResolvedMetric, value: Any) -> None:
        """A dict gives one score per key; each inherits the aggregation of the metric that it came from."""
        for name, part in value.items() if isinstance(value, dict) else [(metric.name, value)]:
            if name != metric.name:
                self.declare(result, name, metric.aggregation, metric.higher_is_better)
            if isinstance(part, Reduced):
                result.draw_counts.setdefault((name, filter_name), []).append(part.counts)
                part = part.value
            result.add((name, filter_name), doc_id, part)

    @staticmethod
    def declare(result: ScoringResult, name: str, aggregation: Aggregation, higher_is_better: bool | None) -> None:
        result.aggregations.setdefault(name, aggregation)
        result.higher_is_better.setdefault(name, higher_is_better)

    @staticmethod
    def _kept(answered: dict[int, Sequence[Instance]], filter_name: str) -> dict[int, Sequence[Instance]]:
        """Docs that the filter did not drop; usually all of them, and then the same mapping."""
        # Filters drop docs, not single requests, so a doc's first request speaks for all.
        dropped = {i for i, doc in answered.items() if filter_name not in doc[0].filtered_resps}
        return {i: doc for i, doc in answered.items() if i not in dropped} if dropped else answered


def declared(config: TaskConfig, name: str) -> tuple[Aggregation, bool | None]:
    """Aggregation and direction of a score by its name alone, as `process_results` gives it: mean if undeclared."""
    entry = next((each for each in metric_configs(config) if each.name == name), None)
    return aggregation_of(entry), higher_is_better_of(entry)


def guarded(where: tuple[str, str, str, int], call: Any, *args: Any) -> Any:
    """Run a metric; whatever goes wrong in it is an error that names metric, filter, task and doc."""
    metric, filter_name, task, doc_id = where
    place = f"task {task!r}, doc {doc_id}, filter {filter_name!r}, metric {metric!r}"
    try:
        return call(*args)
    except AssayError as error:
        raise ScoringError(f"{place}: {error.message}", hint=error.hint) from error
    except Exception as error:
        raise ScoringError(f"{place}: {type(error).__name__}: {error}") from error
