"""What scoring gives back: a column of values for each metric and filter, and what is to be known about the answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from assay.config import TaskConfig, short_failure
from assay.errors import ScoringError
from assay.instance import Instance
from assay.metrics import AGGREGATIONS, Aggregation, get_reducer
from assay.request_types import REQUEST_TYPES
from assay.results import Draws, Flag, MetricColumn, MetricKey, health_counters
from assay.scoring.resolve import aggregation_of, filters_of, higher_is_better_of, metric_configs

InstancesByDoc = Mapping[int, Sequence[Instance]]


class ScoringResult:
    """A column of values for each metric and filter, and flags on single docs.

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
        self.unfolded: set[MetricKey] = set()
        """Metrics that name their scores themselves: each gave a dict, and has no column of its own name."""
        self.metadata: dict[str, Any] = dict(metadata or {})
        self._declared: dict[MetricKey, tuple[Aggregation, bool | None]] = {}
        self._docs: dict[MetricKey, set[int]] = {}
        self._bare = {MetricKey(*key): list(values) for key, values in (sample_scores or {}).items()}
        self._bare_docs = {MetricKey(*key): list(ids) for key, ids in (doc_ids or {}).items()}

    def __eq__(self, other: object) -> bool:
        """By the scores and the metadata, as of a dataclass of the two."""
        if not isinstance(other, ScoringResult):
            return NotImplemented
        return (self.sample_scores, self.metadata) == (other.sample_scores, other.metadata)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ScoringResult(sample_scores={self.sample_scores!r}, metadata={self.metadata!r})"

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

    def add(self, key: MetricKey, doc_id: int, value: Any, draws: Draws | None = None) -> None:
        """One more doc's value. A second one for the same doc would count the doc twice: an error."""
        docs = self._docs.setdefault(key, set())
        if doc_id in docs:
            raise ScoringError(
                f"doc {doc_id} has two values of {key.metric} under filter {key.filter!r}",
                hint="Two entries of metric_list give a score with this name; remove one, or give each its own filter.",
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
                return f"scoring failed: {key.metric}: {short_failure(errors[doc_id].__cause__ or errors[doc_id])}"
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
        merged.unfolded = self.unfolded | other.unfolded
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
                    hint="A scorer that skips docs must say in doc_ids which docs its values belong to.",
                )
            self.declare(key, *declared(config, key))
            numbers = [plain_number(_of_draws(value, config, key)) for value in values]
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


def add_or_pass_over(result: ScoringResult, key: MetricKey, doc_id: int, value: Any) -> None:
    """None is no value: the doc is passed over under this metric, and counted. Code that aggregates may mean it."""
    if value is None and result.aggregation_of(key).name in AGGREGATIONS and not result.is_bypassed(key):
        result.flag(doc_id, "unscored")
        return
    result.add(key, doc_id, value)


def _of_draws(value: Any, config: TaskConfig, key: MetricKey) -> Any:
    """A list of numbers holds one for each draw of a doc: the metric's reducer makes one of it, else the mean."""
    if not (isinstance(value, list) and value and all(isinstance(each, int | float) for each in value)):
        return value
    own = next((each for each in filters_of(config) if each.name == key.filter), None)
    named = next((each.reducer for each in metric_configs(config, own) if each.name == key.metric), None)
    reducer = named or config.reducer
    return sum(value) / len(value) if reducer is None else get_reducer(reducer)(value)


def plain_number(value: Any) -> Any:
    """A scalar of numpy or torch, which `process_results` may give, as the Python number that it is."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def declared(config: TaskConfig, key: MetricKey) -> tuple[Aggregation, bool | None]:
    """Aggregation and direction of a score by its names alone, as `process_results` gives it: mean if undeclared."""
    own = next((each for each in filters_of(config) if each.name == key.filter), None)
    entry = next((each for each in metric_configs(config, own) if each.name == key.metric), None)
    return aggregation_of(entry), higher_is_better_of(entry)


PAIRS = "loglikelihood"
"""Most requests of most runs, which have a shorter way."""


class TakeNote(Protocol):
    def __call__(self, doc_id: int, name: str, filter_name: str | None = None) -> None: ...


def flag_docs(instances_by_doc: Mapping[int, Sequence[Instance]], flag: TakeNote) -> dict[int, Sequence[Instance]]:
    """Flag every doc that needs it; the docs that can be scored, which are those all of whose requests were answered."""
    answered: dict[int, Sequence[Instance]] = {}
    counters = [row for row in health_counters() if row.find is not None]
    of_all = [row for row in counters if not row.of_text]
    for doc_id, instances in instances_by_doc.items():
        if not of_all and instances[0].request_type == instances[-1].request_type == PAIRS:
            # One sum for the usual case: it is finite, or −∞, unless some term has no business here.
            total = sum([math.nan if each.failure else each.resps[0][0] for each in instances])
            if total < math.inf:
                answered[doc_id] = instances
                continue
        if not _is_sound(instances):
            flag(doc_id, "failed")
            continue
        answered[doc_id] = instances
        for instance in instances:
            for row in counters if REQUEST_TYPES[instance.request_type].is_text else of_all:
                if row.find is not None and row.find(instance):
                    flag(doc_id, row.name)
    return answered


def _is_sound(instances: Sequence[Instance]) -> bool:
    """Whether every request was answered, with something that an answer can be."""
    for instance in instances:
        if instance.failure is None:
            fault = REQUEST_TYPES[instance.request_type].fault
            instance.failure = next((found for answer in instance.resps if (found := fault(answer))), None)
        if instance.failure is not None:
            return False
    return True


def flag_filtered(
    name: str, answered: Mapping[int, Sequence[Instance]], left: Mapping[int, Sequence[Instance]], flag: TakeNote
) -> None:
    """Flag docs that a filter dropped, and those it could extract nothing from."""
    for doc_id, instances in answered.items():
        if doc_id not in left:
            flag(doc_id, "left_out", name)
        elif REQUEST_TYPES[instances[0].request_type].is_text and any(
            all(instance.unparsed.get(name, [False])) for instance in instances
        ):
            flag(doc_id, "unparsed", name)
