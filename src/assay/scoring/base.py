"""What a scorer is: the loop filter → doc → metric, and what it gives back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """Values per (metric, filter), in doc order, and how each is aggregated: two filters may differ in that too.

    `doc_ids` is parallel to `sample_scores`: a doc may have a value for some metrics only.
    """

    sample_scores: dict[Key, list[Any]] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    doc_ids: dict[Key, list[int]] = field(default_factory=dict)
    aggregations: dict[Key, Aggregation] = field(default_factory=dict)
    higher_is_better: dict[Key, bool | None] = field(default_factory=dict)
    health: Health = field(default_factory=Health)
    draw_counts: dict[Key, list[tuple[int, int]]] = field(default_factory=dict)
    """(draws, right draws) per doc, for metrics that reduced repeated draws; parallel to `sample_scores`."""
    _seen: dict[Key, set[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def add(self, key: Key, doc_id: int, value: Any) -> None:
        """One more doc's value. A second one for the same doc would count the doc twice: an error."""
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = set(self.doc_ids.get(key, ()))
        if doc_id in seen:
            raise ScoringError(
                f"doc {doc_id} has two values of {key[0]} under filter {key[1]!r}",
                hint="Two entries of metric_list give a score of this name: drop one, or give each a filter of its own.",
            )
        seen.add(doc_id)
        self.sample_scores.setdefault(key, []).append(plain_number(value))
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
        for key, doc_ids in other.doc_ids.items():
            if twice := set(self.doc_ids.get(key, ())).intersection(doc_ids):
                raise ScoringError(f"two results both have doc {min(twice)} for {key[0]} under {key[1]}")
        return self._join(other)

    def completed(self, instances_by_doc: InstancesByDoc, config: TaskConfig) -> ScoringResult:
        """What a scorer that gives `sample_scores` alone leaves out: whose values they are, and how they aggregate."""
        for key, values in self.sample_scores.items():
            if key not in self.doc_ids:
                if len(values) != len(instances_by_doc):
                    raise ScoringError(
                        f"{key[0]} under {key[1]}: {len(values)} values for {len(instances_by_doc)} docs",
                        hint="A scorer that skips docs says in doc_ids which docs its values belong to.",
                    )
                self.doc_ids[key] = list(instances_by_doc)
                self.sample_scores[key] = [plain_number(value) for value in values]
            if key not in self.aggregations:
                self.declare(key, *declared(config, *key))
        if not self.health.docs:
            self.health.count_docs(instances_by_doc)
        return self

    def declare(self, key: Key, aggregation: Aggregation, higher_is_better: bool | None) -> None:
        self.aggregations.setdefault(key, aggregation)
        self.higher_is_better.setdefault(key, higher_is_better)

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


class Scorer:
    """Scores the instances of a task, filter by filter, doc by doc.

    A new scorer gives `score_doc`, or overrides `score_filter` to work on many docs at once, or `score` to do it all.
    `multiple_target` says that the task has several right answers per doc; None leaves that to each doc's target.
    """

    def __init__(self, *, multiple_target: bool | None = None) -> None:
        self.multiple_target = multiple_target
        self.randomness = RandomStream()

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        """The value of one metric for one doc; a dict gives one score per key."""
        raise NotImplementedError(f"{type(self).__name__} does not say how one metric scores one doc")

    def score(self, instances_by_doc: InstancesByDoc, task_config: TaskConfig) -> ScoringResult:
        result = ScoringResult()
        answered = result.health.count_docs(instances_by_doc)
        with self.randomness.active(instances_by_doc.keys()):
            for context in self._iterate_scoring_contexts(answered, task_config):
                left_out = len(answered) - len(context.instances)
                result.health.count_filter(context.filter_name, context.instances, left_out)
                self.score_filter(context, result)
        result.metadata["health"] = result.health.as_dict()
        return result

    def _iterate_scoring_contexts(self, instances: InstancesByDoc, task_config: TaskConfig) -> Iterator[ScoringContext]:
        """One context per filter, with the docs that the filter did not drop."""
        for each in filters_of(task_config):
            yield ScoringContext(self._kept(instances, each.name), each, task_config)

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        metrics = resolve_metrics(context.task_config, context.filter)
        for metric in metrics:
            result.declare((metric.name, context.filter_name), metric.aggregation, metric.higher_is_better)
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
            key = (name, filter_name)
            if key not in result.aggregations:
                result.declare(key, metric.aggregation, metric.higher_is_better)
            result.add(key, doc_id, part.value if isinstance(part, Reduced) else part)
            if isinstance(part, Reduced):
                result.draw_counts.setdefault(key, []).append(part.counts)

    @staticmethod
    def _kept(answered: InstancesByDoc, filter_name: str) -> InstancesByDoc:
        """Docs that the filter did not drop; usually all of them, and then the same mapping."""
        # Filters drop docs, not single requests, so a doc's first request speaks for all.
        dropped = {i for i, doc in answered.items() if filter_name not in doc[0].filtered_resps}
        return {i: doc for i, doc in answered.items() if i not in dropped} if dropped else answered


def plain_number(value: Any) -> Any:
    """A scalar of numpy or torch, which `process_results` may give, as the Python number that it is."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def declared(config: TaskConfig, name: str, filter_name: str) -> tuple[Aggregation, bool | None]:
    """Aggregation and direction of a score by its names alone, as `process_results` gives it: mean if undeclared."""
    own = next((each for each in filters_of(config) if each.name == filter_name), None)
    entry = next((each for each in metric_configs(config, own) if each.name == name), None)
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
