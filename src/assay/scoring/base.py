"""What a scorer is: the loop filter → doc → metric, and what it gives back."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

from assay.config import FilterConfig, MetricConfig, TaskConfig
from assay.errors import AssayError, ScoringError, WrongKind
from assay.instance import Instance
from assay.metrics import AGGREGATIONS, Aggregation, Reduced
from assay.results import Flag, MetricColumn, MetricKey
from assay.scoring.flags import flag_docs, flag_filtered
from assay.scoring.randomness import RandomStream
from assay.scoring.resolve import (
    ResolvedMetric,
    aggregation_of,
    filters_of,
    higher_is_better_of,
    metric_configs,
    resolve_metrics,
)
from assay.scoring.results import Results
from assay.timelimit import begin, watched

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


class ScoringResult:
    """A column of values for each metric and filter, and what is to be known about single docs.

    A scorer of one's own may give `sample_scores` alone, a value for every doc. One that skips docs says in `doc_ids`
    whose values they are. How the values aggregate is then looked up in the task's config (`completed`).
    """

    def __init__(
        self,
        sample_scores: Mapping[tuple[str, str], Sequence[Any]] | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        doc_ids: Mapping[tuple[str, str], Sequence[int]] | None = None,
    ) -> None:
        self.columns: dict[MetricKey, MetricColumn] = {}
        self.flags: dict[int, list[Flag]] = {}
        self.errors: dict[MetricKey, dict[int, ScoringError]] = {}
        """Why docs could not be scored."""
        self.metadata: dict[str, Any] = dict(metadata or {})
        self._declared: dict[MetricKey, tuple[Aggregation, bool | None]] = {}
        self._docs: dict[MetricKey, set[int]] = {}
        self._bare = {MetricKey(*key): list(values) for key, values in (sample_scores or {}).items()}
        self._bare_docs = {MetricKey(*key): list(ids) for key, ids in (doc_ids or {}).items()}

    @property
    def sample_scores(self) -> dict[MetricKey, list[Any]]:
        """Values per (metric, filter), in the order of the docs."""
        return {**self._bare, **{key: list(column.values) for key, column in self.columns.items()}}

    @property
    def doc_ids(self) -> dict[MetricKey, list[int]]:
        """Whose values they are, parallel to `sample_scores`: a doc may have a value for some metrics only."""
        return {**self._bare_docs, **{key: list(column.doc_ids) for key, column in self.columns.items()}}

    def declare(self, key: MetricKey, aggregation: Aggregation, higher_is_better: bool | None) -> None:
        """How the values to come are aggregated: two filters may differ in that too. The first word stands."""
        self._declared.setdefault(key, (aggregation, higher_is_better))

    def is_declared(self, key: MetricKey) -> bool:
        return key in self._declared

    def aggregation_of(self, key: MetricKey) -> Aggregation:
        return self._declared[key][0]

    def is_bypassed(self, key: MetricKey) -> bool:
        """Whether nothing is scored on purpose (`--predict_only`)."""
        return self.aggregation_of(key).name == "bypass"

    def add(self, key: MetricKey, doc_id: int, value: Any, draws: tuple[int, int] | None = None) -> None:
        """One more doc's value. A second one for the same doc would count the doc twice: an error."""
        docs = self._docs.setdefault(key, set())
        if doc_id in docs:
            raise ScoringError(
                f"doc {doc_id} has two values of {key.metric} under filter {key.filter!r}",
                hint="Two entries of metric_list give a score of this name: drop one, or give each a filter of its own.",
            )
        docs.add(doc_id)
        self._column(key).add(doc_id, plain_number(value), draws)

    def add_all(self, key: MetricKey, doc_ids: Sequence[int], values: Sequence[Any]) -> None:
        """The values of many docs, none of which has one yet."""
        self._docs.setdefault(key, set()).update(doc_ids)
        self._column(key).extend(doc_ids, values)

    def open_judged(self, key: MetricKey) -> None:
        """A column of verdicts, also where no doc has one yet; labels may follow."""
        column = self._column(key)
        column.labels = {} if column.labels is None else column.labels

    def label(self, key: MetricKey, doc_id: int, value: float) -> None:
        """What people say of a doc that has a verdict."""
        labels = self._column(key).labels
        assert labels is not None, "only verdicts have labels"
        labels[doc_id] = value

    def why_failed(self, doc_id: int) -> str | None:
        """Why a doc that was answered could not be scored; without its number, so that equal reasons are equal."""
        for key, errors in self.errors.items():
            if doc_id in errors:
                return f"scoring failed: {key.metric}: {type(errors[doc_id].__cause__ or errors[doc_id]).__name__}"
        return None

    def flag(self, doc_id: int, name: str, filter_name: str | None = None) -> None:
        flags = self.flags.setdefault(doc_id, [])
        if (flag := Flag(name, filter_name)) not in flags:
            flags.append(flag)

    def merge(self, other: ScoringResult) -> ScoringResult:
        """Both results in one. The same (metric, filter) in both is an error, never a silent overwrite."""
        clash = sorted(self.sample_scores.keys() & other.sample_scores.keys())
        if clash:
            names = ", ".join(f"{key.metric} under {key.filter}" for key in clash)
            raise ScoringError(f"two results both have {names}", hint="Give one of the filters another name.")
        merged = ScoringResult(metadata={**self.metadata, **other.metadata})
        merged._bare = {**self._bare, **other._bare}
        merged._bare_docs = {**self._bare_docs, **other._bare_docs}
        merged.columns = {**self.columns, **other.columns}
        merged._declared = {**self._declared, **other._declared}
        merged._docs = {**self._docs, **other._docs}
        merged.errors = {**self.errors, **other.errors}
        for result in (self, other):
            for doc_id, flags in result.flags.items():
                for flag in flags:
                    merged.flag(doc_id, *flag)
        return merged

    def completed(self, instances_by_doc: InstancesByDoc, config: TaskConfig) -> ScoringResult:
        """The result with a column for everything that a scorer gave as `sample_scores` alone."""
        for key, values in self._bare.items():
            if key not in self._bare_docs and len(values) != len(instances_by_doc):
                raise ScoringError(
                    f"{key.metric} under {key.filter}: {len(values)} values for {len(instances_by_doc)} docs",
                    hint="A scorer that skips docs says in doc_ids which docs its values belong to.",
                )
            self.declare(key, *declared(config, key))
            numbers = [plain_number(value) for value in values]
            self.add_all(key, self._bare_docs.get(key) or list(instances_by_doc), numbers)
        if self._bare:
            # Such a scorer did not look at the docs: what was truncated, empty or failed is still to be known.
            flag_docs(instances_by_doc, self.flag)
        self._bare, self._bare_docs = {}, {}
        return self

    def _column(self, key: MetricKey) -> MetricColumn:
        column = self.columns.get(key)
        if column is None:
            column = self.columns[key] = MetricColumn(key, *self._declared[key])
        return column


class Scorer:
    """Scores the instances of a task, filter by filter, doc by doc.

    A new scorer gives `score_doc`, or overrides `score_filter` to work on many docs at once, or `score` to do it all.
    `multiple_target` says that the task has several right answers per doc; None leaves that to each doc's target.
    """

    roles: tuple[str, ...] = ()
    """Other models of the run that it asks (`next_requests`); a run that does not name them is refused at once."""
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
                hint="Derive a class that gives score, score_filter, score_doc or _compute_metrics.",
            )
        self.multiple_target = multiple_target
        self.randomness = RandomStream()
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
        answered = flag_docs(instances_by_doc, result.flag)
        answered = self._leave_out_goldless(answered, task_config, result)
        with self.randomness.active(instances_by_doc.keys()), watched():
            for context in self._iterate_scoring_contexts(answered, task_config):
                flag_filtered(context.filter_name, answered, context.instances, result.flag)
                self.score_filter(context, result)
        return result

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

    def _iterate_scoring_contexts(self, instances: InstancesByDoc, task_config: TaskConfig) -> Iterator[ScoringContext]:
        """One context per filter, with the docs that the filter did not drop."""
        for each in filters_of(task_config):
            yield ScoringContext(self._kept(instances, each.name), each, task_config)

    def score_filter(self, context: ScoringContext, result: ScoringResult) -> None:
        metrics = self.metrics_of(context)
        for metric in metrics:
            result.declare(MetricKey(metric.name, context.filter_name), metric.aggregation, metric.higher_is_better)
        if type(self)._compute_metrics is not Scorer._compute_metrics:
            self._keep_computed(context, metrics, result)
            return
        jobs = [(doc_id, metric) for doc_id in context.instances for metric in metrics]
        for (doc_id, metric), value in zip(jobs, self._values(context, jobs)):
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

    def _values(self, context: ScoringContext, jobs: Sequence[tuple[int, ResolvedMetric]]) -> Iterable[Any]:
        """The value of each job, in order. Metrics that wait for programs to run wait for several at once."""

        def value(job: tuple[int, ResolvedMetric]) -> Any:
            doc_id, metric = job
            instances = context.instances[doc_id]
            where = (metric.name, context.filter_name, instances[0].task_name or context.task_config.task, doc_id)
            try:
                return guarded(where, self.score_doc, instances, metric, context.filter_name)
            except ScoringError as error:
                return error

        if not context.task_config.unsafe_code:
            return map(value, jobs)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(value, jobs))

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
        for name, part in value.items() if isinstance(value, dict) else [(metric.name, value)]:
            key = MetricKey(name, filter_name)
            result.declare(key, metric.aggregation, metric.higher_is_better)
            if isinstance(part, Reduced):
                result.add(key, doc_id, part.value, part.counts)
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


def add_or_pass_over(result: ScoringResult, key: MetricKey, doc_id: int, value: Any) -> None:
    """None is no value: the doc is passed over under this metric, and counted. Code that aggregates may mean it."""
    if value is None and result.aggregation_of(key).name in AGGREGATIONS and not result.is_bypassed(key):
        result.flag(doc_id, "unscored")
        return
    result.add(key, doc_id, value)


def plain_number(value: Any) -> Any:
    """A scalar of numpy or torch, which `process_results` may give, as the Python number that it is."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def declared(config: TaskConfig, key: MetricKey) -> tuple[Aggregation, bool | None]:
    """Aggregation and direction of a score by its names alone, as `process_results` gives it: mean if undeclared."""
    own = next((each for each in filters_of(config) if each.name == key.filter), None)
    entry = next((each for each in metric_configs(config, own) if each.name == key.metric), None)
    return aggregation_of(entry), higher_is_better_of(entry)


def guarded(where: tuple[str, str, str, int], call: Any, *args: Any) -> Any:
    """Run a metric; whatever goes wrong in it is an error that names metric, filter, task and doc."""
    metric, filter_name, task, doc_id = where
    place = f"task {task!r}, doc {doc_id}, filter {filter_name!r}, metric {metric!r}"
    begin()
    try:
        return call(*args)
    except AssayError as error:
        raise ScoringError(f"{place}: {error.message}", hint=error.hint) from error
    except Exception as error:
        raise ScoringError(f"{place}: {type(error).__name__}: {error}") from error
