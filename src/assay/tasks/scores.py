"""The scoring side of a task: its scorer, the scores of its docs, and the numbers that come of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from assay.config import MetricConfig
from assay.data import doc_hash
from assay.errors import ConfigError
from assay.instance import Doc, Instance
from assay.metrics import get_reducer
from assay.results import MetricColumn, MetricKey, Score, write_key
from assay.scoring import (
    ResolvedMetric,
    Scorer,
    ScoringResult,
    aggregation_of,
    apply_filters,
    by_doc,
    declared,
    estimate,
    filters_of,
    hooked,
    is_draws,
    metric_configs,
    resolve_metrics,
    scorer_for,
)
from assay.stats import doc_keys
from assay.tasks.reading import TaskDocs

_log = logging.getLogger(__name__)


class TaskScores(TaskDocs):
    """What a task makes of answers. A run calls `score_docs`; the rest is for those who score by hand."""

    instances: list[Instance]
    sample_len: int
    """Docs behind the number that `compute_aggregations` gave last."""
    _result: ScoringResult | None
    _docs: Mapping[int, Doc]

    @cached_property
    def scorer(self) -> Scorer:
        """Made once, by `_create_scorer`; a class that overrides `_create_result` or `_compute_metric` scores by them.

        What the config names (`process_results`, `scorer`) goes before what the class says.
        """
        made, own = self._create_scorer(), type(self)
        is_hooked = (own._create_result, own._compute_metric) != (TaskScores._create_result, TaskScores._compute_metric)
        if not is_hooked or self.config.process_results is not None or self.config.scorer is not None:
            return made
        return hooked(made, self._create_result, self._compute_metric)

    @property
    def _scorer(self) -> Scorer:
        return self.scorer

    def _create_scorer(self) -> Scorer:
        """By the config's `process_results`, else its `scorer`, else the task type's own."""
        if self.config.process_results is not None or self.config.scorer is not None:
            return scorer_for(self.config, multiple_target=self.multiple_target)
        return self._get_default_scorer()

    def _get_default_scorer(self) -> Scorer:
        """The scorer of this type of task; a new type may give another."""
        return scorer_for(self.config, multiple_target=self.multiple_target)

    def apply_filters(self, instances: Sequence[Instance] | None = None) -> Self:
        """Run every filter of the task over the instances that were answered; the task itself is given back."""
        chosen = self.instances if instances is None else instances
        if not chosen:
            _log.warning("task %s: there are no instances to filter; call build_all_requests first", self.task_name)
        apply_filters(chosen, self.config)
        return self

    def score_docs(self, instances_by_doc: Mapping[int, Sequence[Instance]]) -> ScoringResult:
        """What the task's scorer gives for these docs, whole even where it is one of the task's own."""
        scored = {doc_id: self.scored_instances(instances) for doc_id, instances in instances_by_doc.items()}
        if not scored:
            return ScoringResult()
        return self.scorer.score(scored, self.config).completed(scored, self.config)

    def scored_instances(self, instances: Sequence[Instance]) -> Sequence[Instance]:
        """Those of a doc's instances that its score is made of: all of them."""
        return instances

    @staticmethod
    def sort_instances(instances: Iterable[Instance] | None = None) -> dict[int, list[Instance]]:
        """Instances by doc, in whatever order they come: docs by `doc_id`, the requests of each by `idx`."""
        return by_doc(instances or ())

    def process_instances(self, instances: Iterable[Instance] | None = None) -> dict[MetricKey, list[Any]]:
        """Scores per (metric, filter), one per doc, in the order of the docs."""
        given = self.sort_instances(self.instances if instances is None else instances)
        if instances is not None and given and "eval_docs" not in vars(self):
            # Instances that somebody made: they say what the first doc of the dataset would, and it is not read.
            self.multiple_target = isinstance(next(iter(given.values()))[0].target, list)
        self._result = self.score_docs(given)
        self._docs = {doc_id: mine[0].doc for doc_id, mine in given.items()}
        return self._result.sample_scores

    @property
    def _sample_scores(self) -> dict[MetricKey, list[Any]]:
        return {} if self._result is None else self._result.sample_scores

    def _create_result(self, instances: Sequence[Instance], filter_name: str) -> Any:
        """One doc's instances as the scorer's metrics take them."""
        return self.scorer.unhooked._prepare_data(instances, filter_name)

    def _compute_metric(self, result: Any, metric: ResolvedMetric | MetricConfig | str) -> Any:
        """One metric of what `_create_result` made; None where it says nothing about this type of task.

        A run gives the metric ready to be called, with `fn`, `name` and `kwargs`.
        """
        if not isinstance(metric, ResolvedMetric):
            entry = MetricConfig.model_validate(metric) if isinstance(metric, str) else metric
            own = resolve_metrics(self.config.override(metric_list=[entry], filter_list=None))
            if not own:
                return None
            metric = own[0]
        return self.scorer.unhooked.score_result(result, metric)

    def aggregation(self) -> dict[str, Callable[..., Any]]:
        """The function behind each metric's number."""
        listed = [each for own in filters_of(self.config) for each in metric_configs(self.config, own)]
        return {each.name: aggregation_of(each).fn for each in listed}

    def compute_aggregations(
        self, scores: Mapping[Any, Sequence[Any]] | None = None, bootstrap_iters: int = 1000
    ) -> dict[str, float | None]:
        """`{"acc,none": value, "acc_stderr,none": standard error}` for these scores, by default those of `process_instances`.

        Scores alone will do: of a metric that the task does not declare the mean is taken. None stands for no error bar.
        """
        if not isinstance(bootstrap_iters, int) or isinstance(bootstrap_iters, bool):
            raise ConfigError(
                f"bootstrap_iters is {bootstrap_iters!r}, expected an int", hint="Set it to 0 to turn error bars off."
            )
        result = self._result
        if result is None and scores is None:
            raise ConfigError(
                f"task {self.task_name}: nothing has been scored yet", hint="Call process_instances first."
            )
        result = ScoringResult() if result is None else result
        hashes = {doc_id: doc_hash(doc) for doc_id, doc in self._docs.items()}
        numbers: dict[str, float | None] = {}
        for key, values in (result.sample_scores if scores is None else scores).items():
            metric = MetricKey(*key)
            score = self._score(metric, values, result.columns.get(metric), hashes, bootstrap_iters)
            self.sample_len = len(values)
            numbers[write_key(metric)] = score.estimate.value
            numbers[write_key(metric, stderr=True)] = score.estimate.stderr
        return numbers

    def _score(
        self,
        metric: MetricKey,
        values: Sequence[Any],
        column: MetricColumn | None,
        hashes: Mapping[int, str],
        iterations: int,
    ) -> Score:
        if column is None or len(column) != len(values):
            keys = doc_keys(f"{self.task_name}:{i}" for i in range(len(values)))
            aggregation, _ = declared(self.config, metric)
            return estimate(self.reduce(values, metric.metric), aggregation, keys, None, iterations)
        keys, cluster = doc_keys([hashes[doc_id] for doc_id in column.doc_ids]), self.config.cluster
        clusters = None if cluster is None else [self._docs[doc_id].get(cluster) for doc_id in column.doc_ids]
        # Draws are reduced when they are scored; a list that is left is what the aggregation takes: two texts.
        return estimate(values, column.aggregation, keys, clusters, iterations)

    def reduce(self, items: Sequence[Any], metric: str) -> list[Any]:
        """One value per doc: lists of values of repeated draws go through the metric's reducer; the mean, as in a run."""
        named = next((each.reducer for each in self.config.metric_list or [] if each.name == metric), None)
        reducer = get_reducer(named or self.config.reducer or "mean")
        return [reducer(item) if is_draws(item) else item for item in items]
