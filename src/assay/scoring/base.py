"""What a scorer is: the loop filter → doc → metric, and what it gives back."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from assay.config import FilterConfig, TaskConfig, what_failed
from assay.errors import AssayError, ScoringError, WrongKind
from assay.instance import Instance
from assay.metrics import Reduced, noting_verdicts
from assay.registry import Registry
from assay.results import MetricKey
from assay.scoring.outcome import InstancesByDoc, ScoringResult, add_or_pass_over, declared, flag_docs, flag_filtered
from assay.scoring.resolve import (
    ResolvedMetric,
    ensembles_of,
    filters_of,
    resolve_metrics,
)
from assay.scoring.results import Results
from assay.timelimit import begin, watched


@dataclass(frozen=True)
class ScoringContext:
    """One filter's turn."""

    instances: InstancesByDoc
    """By doc; a scorer that loops over docs itself may have given a list."""
    filter: FilterConfig
    task_config: TaskConfig

    @property
    def filter_name(self) -> str:
        return self.filter.name

    @property
    def metrics(self) -> Sequence[ResolvedMetric]:
        """The filter's own list, else the task's: each with its `name`, its `kwargs` and the function `fn`."""
        return resolve_metrics(self.task_config, self.filter)


class RandomStream(Protocol):
    """The random numbers of one task, for metrics and filters that use Python's or numpy's global generators."""

    def active(self, doc_ids: Collection[int]) -> AbstractContextManager[None]:
        """Let the global generators run on from this stream while these docs are scored."""


RANDOM_STREAMS: Registry[Callable[[], RandomStream]] = Registry(
    "random stream", lazy={"lm_eval": "assay.compat.lm_eval.randomness:HarnessStream"}
)
"""Without one, scoring draws from the global generators as it finds them."""


class Scorer:
    """Scores the instances of a task, filter by filter, doc by doc.

    A new scorer gives `score_doc`, or overrides `score_filter` to work on many docs at once, or `score` to do it all.
    `multiple_target` says that the task has several right answers per doc; None leaves that to each doc's target.
    """

    roles: tuple[str, ...] = ()
    """Other models of the run that it puts questions to (`next_requests`); a run that does not name them is refused at once."""
    has_own_metrics: ClassVar[bool] = False
    """Whether it gives scores of its own, so that a task without `metric_list` has those alone."""
    own_metrics: Collection[str] = ()
    """Names of the scores that it gives itself; entries of `metric_list` with other names are metrics."""
    default_metrics: ClassVar[Sequence[Any]] = ()
    """Entries of `metric_list` for a task that has none."""
    wants_every_turn: bool = False
    """Whether all answers of a conversation are scored, and not the last alone."""

    def __init__(self, *, multiple_target: bool | None = None) -> None:
        ways = ("score", "score_filter", "score_doc", "_compute_metrics")
        if all(getattr(type(self), way) is getattr(Scorer, way) for way in ways):
            raise WrongKind(
                f"{type(self).__name__} does not say how it scores",
                hint="Derive a class that defines score, score_filter, score_doc or _compute_metrics.",
            )
        self.multiple_target = multiple_target
        stream = RANDOM_STREAMS.get_installed("lm_eval")
        self.randomness = None if stream is None else stream()
        self.worked: set[tuple[str, str]] = set()
        """Metrics, with their filters, that have scored a doc of the task."""

    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        """The value of one metric for one doc; a dict gives one score per key."""
        raise NotImplementedError(f"{type(self).__name__} does not say how one metric scores one doc")

    def default_filter(self) -> list[Any]:
        """Steps of the filter for a task that has no `filter_list`; none for that of every task."""
        return []

    @property
    def unhooked(self) -> Scorer:
        """Itself; of a scorer that leaves steps to its task, the one that does them."""
        return self

    def score_result(self, data: Any, metric: ResolvedMetric) -> Any:
        """The value of one metric for what `_prepare_data` made of a doc."""
        return self.score_doc(data.instances, metric, data.filter_name)

    def _validate_instances(self, instances: Collection[Any]) -> None:
        """Refuse what this scorer cannot score; a subclass may refuse more."""
        if not instances:
            raise ScoringError("Cannot score empty instances", hint="Build the requests and answer them first.")

    def _prepare_data(self, instances: Sequence[Instance], filter_name: str) -> Any:
        """One doc's instances as `_compute_metrics` and `score_doc` take them."""
        return Results.create(instances, filter_name)

    def _compute_metrics(self, data: Any, metrics: Sequence[ResolvedMetric]) -> dict[str, Any]:
        """All scores of one doc. An override gives `{name: value}`, or a list of values, one per draw.

        Of what is given under the name of a metric, the aggregation is that metric's; anything else is averaged.
        """
        return {metric.name: self.score_doc(data.instances, metric, data.filter_name) for metric in metrics}

    def score(self, instances_by_doc: InstancesByDoc | Sequence[Instance], task_config: TaskConfig) -> ScoringResult:
        """Scores by doc; instances that are not sorted by doc yet are."""
        if not isinstance(instances_by_doc, Mapping):
            instances_by_doc = by_doc(instances_by_doc)
        self._validate_instances(instances_by_doc)
        result = ScoringResult()
        self._filter_raw(instances_by_doc, task_config)
        answered = flag_docs(instances_by_doc, result.flag)
        answered = self._leave_out_goldless(answered, task_config, result)
        stream = self.randomness
        with nullcontext() if stream is None else stream.active(instances_by_doc.keys()), watched():
            for context in self._iterate_scoring_contexts(answered, task_config):
                flag_filtered(context.filter_name, answered, context.instances, result.flag)
                self.score_filter(context, result)
        return result

    def _filter_raw(self, instances_by_doc: InstancesByDoc, task_config: TaskConfig) -> None:
        """A run filters before it scores; instances that were made by hand are filtered here, and not passed over."""
        instances = [each for doc in instances_by_doc.values() for each in doc]
        if any(each.filtered_resps for each in instances):
            return
        for each in instances:
            if isinstance(each.resps, tuple):  # one (loglikelihood, is_greedy) that was not put into a list
                each.resps = [each.resps]
        for ensemble in ensembles_of(task_config):
            ensemble.apply(instances)

    def lacks_gold(self, instances: Sequence[Instance], task_config: TaskConfig) -> bool:
        """Whether a doc names no right answer among those that it offers, so that no answer could be right."""
        return False

    def _leave_out_goldless(
        self, answered: dict[int, Sequence[Instance]], task_config: TaskConfig, result: ScoringResult
    ) -> dict[int, Sequence[Instance]]:
        """The docs to score. One without gold says nothing of the model; files written for 0.4 count it as wrong."""
        goldless = {doc_id for doc_id, instances in answered.items() if self.lacks_gold(instances, task_config)}
        for doc_id in goldless:
            result.flag(doc_id, "no_gold")
        if not goldless or task_config.counts_no_gold:
            return answered
        return {doc_id: instances for doc_id, instances in answered.items() if doc_id not in goldless}

    def prepare(self, task_config: TaskConfig, labels: Sequence[str] = ()) -> None:
        """Read what scoring needs, so that what is missing is found before the first request. `labels` are the run's."""

    def has_labels(self, labels: Sequence[str] = ()) -> bool:
        """Whether people's verdicts correct its scores."""
        return False

    def metrics_of(self, context: ScoringContext) -> list[ResolvedMetric]:
        """The metrics of a filter that are not the scorer's own."""
        return resolve_metrics(context.task_config, context.filter, without=self.own_metrics)

    def next_requests(self, instances_by_doc: InstancesByDoc, task_config: TaskConfig) -> list[Instance]:
        """Questions to other models of the run, such as a judge, that the answers raise; each names its `role`.

        Called when filters have been applied, and again after its questions were answered, until it has none. The
        scorer appends each question to the `questions` of the instance that it is about, where `score` finds the answer.
        """
        return []

    def _iterate_scoring_contexts(
        self, instances: InstancesByDoc | Sequence[Any], task_config: TaskConfig
    ) -> Iterator[ScoringContext]:
        """One context per filter, with the docs that the filter did not drop; a list is handed on as it is."""
        for each in filters_of(task_config):
            kept: Any = self._kept(instances, each.name) if isinstance(instances, Mapping) else instances
            yield ScoringContext(kept, each, task_config)

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        metrics = self.metrics_of(context)
        for metric in metrics:
            result.declare(MetricKey(metric.name, context.filter_name), metric.aggregation, metric.higher_is_better)
        if type(self)._compute_metrics is not Scorer._compute_metrics:
            self._keep_computed(context, metrics, result)
            return
        jobs = [(doc_id, metric) for doc_id in context.instances for metric in metrics]
        for (doc_id, metric), (value, flags) in zip(jobs, self._values(context, jobs)):
            for name in flags:
                result.flag(doc_id, name)
            if isinstance(value, ScoringError):
                self.fail(context, result, doc_id, metric.name, value)
            else:
                self.worked.add((metric.name, context.filter_name))
                self.keep(result, context.filter_name, doc_id, metric, value)
        for metric in metrics:
            self.require_one(context, result, metric.name)

    def fail(
        self, context: ScoringContext, result: ScoringResult, doc_id: int, metric: str, error: ScoringError
    ) -> None:
        """One doc that cannot be scored (an answer nested 2,000 deep, say) is a failed doc, and no more."""
        result.flag(doc_id, "failed")
        result.errors.setdefault(MetricKey(metric, context.filter_name), {})[doc_id] = error

    def require_one(self, context: ScoringContext, result: ScoringResult, metric: str) -> None:
        """A metric that fails on every doc is wrong itself: an error at once."""
        errors = result.errors.get(MetricKey(metric, context.filter_name), {})
        if errors and len(errors) == len(context.instances) and (metric, context.filter_name) not in self.worked:
            raise next(iter(errors.values()))

    def _values(
        self, context: ScoringContext, jobs: Sequence[tuple[int, ResolvedMetric]]
    ) -> Iterable[tuple[Any, Sequence[str]]]:
        """The value of each job, in order, and flags on verdicts of programs.

        Metrics that wait for programs to run wait for several at once.
        """

        def value(job: tuple[int, ResolvedMetric]) -> Any:
            doc_id, metric = job
            instances = context.instances[doc_id]
            where = (metric.name, context.filter_name, instances[0].task_name or context.task_config.task, doc_id)
            try:
                return guarded(where, self.score_doc, instances, metric, context.filter_name)
            except ScoringError as error:
                return error

        def judged(job: tuple[int, ResolvedMetric]) -> tuple[Any, Sequence[str]]:
            with noting_verdicts() as verdicts:
                found = value(job)
            # A task's own code that does not ask the sandbox runs programs in processes of its own.
            unseen = not verdicts and job[1].foreign
            dependent = unseen or not all(verdict.independent for verdict in verdicts)
            weak = unseen or not all(verdict.isolated for verdict in verdicts)
            return found, ["not_independent"] * dependent + ["weak_sandbox"] * weak

        if not context.task_config.unsafe_code:
            return ((value(job), ()) for job in jobs)
        begin(math.inf)  # programs have limits of their own, and the clock is this thread's
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(judged, jobs))

    def _keep_computed(self, context: ScoringContext, metrics: Sequence[ResolvedMetric], result: ScoringResult) -> None:
        """The scores that a subclass computes for each doc by itself."""
        by_name = {metric.name: metric for metric in metrics}
        for doc_id, instances in context.instances.items():
            where = ("_compute_metrics", context.filter_name, instances[0].task_name, doc_id)
            data = guarded(where, self._prepare_data, instances, context.filter_name)
            for name, value in guarded(where, self._compute_metrics, data, metrics).items():
                key = MetricKey(name, context.filter_name)
                if not result.is_declared(key):
                    result.declare(key, *declared(context.task_config, key))
                if isinstance(value, list) and value and all(isinstance(each, int | float) for each in value):
                    reducer = by_name[name].reducer if name in by_name else None
                    value = sum(value) / len(value) if reducer is None else reducer(value)
                add_or_pass_over(result, key, doc_id, value)

    def keep(self, result: ScoringResult, filter_name: str, doc_id: int, metric: ResolvedMetric, value: Any) -> None:
        """A dict gives one score per key; each inherits the aggregation of the metric that it came from."""
        if isinstance(value, dict):
            result.unfolded.add(MetricKey(metric.name, filter_name))
        for name, part in value.items() if isinstance(value, dict) else [(metric.name, value)]:
            key = MetricKey(name, filter_name)
            result.declare(key, metric.aggregation, metric.higher_is_better)
            if isinstance(part, Reduced):
                result.add(key, doc_id, part.value, part.draws)
            elif isinstance(value, dict):
                result.add(key, doc_id, part)
            else:
                add_or_pass_over(result, key, doc_id, part)

    @staticmethod
    def _kept(answered: InstancesByDoc, filter_name: str) -> InstancesByDoc:
        """Docs that the filter did not drop; usually all of them, and then the same mapping."""
        # Filters drop docs, not single requests, so a doc's first request speaks for all.
        dropped = {i for i, doc in answered.items() if filter_name not in doc[0].filtered_resps}
        return {i: doc for i, doc in answered.items() if i not in dropped} if dropped else answered


def by_doc(instances: Iterable[Instance]) -> dict[int, list[Instance]]:
    """Instances by doc, in whatever order they come: docs by `doc_id`, the requests of each by `idx`."""
    sorted_by_doc: dict[int, list[Instance]] = {}
    for instance in sorted(instances, key=lambda each: (each.doc_id, each.idx)):
        sorted_by_doc.setdefault(instance.doc_id, []).append(instance)
    return sorted_by_doc


def guarded(where: tuple[str, str, str, int], call: Any, *args: Any) -> Any:
    """Run a metric; whatever goes wrong in it is an error that names metric, filter, task and doc."""
    metric, filter_name, task, doc_id = where
    place = f"task {task!r}, doc {doc_id}, filter {filter_name!r}, metric {metric!r}"
    begin()
    try:
        return call(*args)
    except AssayError as error:
        raise ScoringError(f"{place}: {error.message}", hint=error.hint) from error
    except Exception as error:  # a metric may be anybody's code
        said, hint = what_failed(error)
        raise ScoringError(f"{place}: {said}", hint=hint) from error
