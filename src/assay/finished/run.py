"""A finished run, whoever wrote it: its result, its docs with requests and answers, and a value for each doc, column by column."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import AssayError, ConfigError, DataError, did_you_mean
from assay.instance import Message
from assay.metrics import AGGREGATIONS, METRICS
from assay.request_types import OUTPUT_TYPES
from assay.results import Health, MetricKey, RunResult, Score, TaskResult, matching, plain
from assay.scoring import estimate
from assay.scratch import is_scratch
from assay.stats import Estimate, GoldChecked, cluster_key, content_key, mean_estimate, unit_index, unit_keys

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class DocColumn:
    """One metric of one task under one filter. Numbers are float64 with NaN where there is none; else objects.

    `docs` and `requests` are the first 64 bits of the content hashes; `requests` is None where the format has no
    prompts. Columns of one filter share these arrays.
    """

    key: MetricKey
    docs: Keys
    requests: Keys | None
    values: NDArray[Any]
    doc_ids: NDArray[np.int64]
    clusters: NDArray[Any] | None = None
    aggregation: str = "mean"
    higher_is_better: bool | None = None
    gold: GoldChecked | None = None
    """Where people checked the gold answers of some docs: the values under the right ones."""
    labels: NDArray[np.float64] | None = None
    """Where a judge gave the values and people judged some of the docs: what they say, NaN elsewhere."""

    def __len__(self) -> int:
        return len(self.docs)

    @property
    def is_numeric(self) -> bool:
        return self.values.dtype == np.float64

    def take(self, index: NDArray[np.int64]) -> DocColumn:
        return replace(
            self,
            docs=self.docs[index],
            requests=None if self.requests is None else self.requests[index],
            values=self.values[index],
            doc_ids=self.doc_ids[index],
            clusters=None if self.clusters is None else self.clusters[index],
            labels=None if self.labels is None else self.labels[index],
            gold=None if self.gold is None else self.gold.take(index),
        )

    def scored(self) -> DocColumn:
        """Only the docs that have a value; itself where all have one."""
        if self.is_numeric:
            present = ~np.isnan(self.values)
        else:
            present = np.array([value is not None for value in self.values], dtype=bool)
        return self if present.all() else self.take(np.flatnonzero(present))


@dataclass(frozen=True)
class SentRequest:
    """One request as it was sent. A chat is its messages; what a format does not have is None."""

    prompt: str | tuple[Message, ...] | None
    continuation: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    """Of the prompt, as the backend read it."""
    more: tuple[Any, ...] = ()
    """Further arguments, such as images."""

    @classmethod
    def of_arguments(cls, arguments: Sequence[Any], tokens: int | None = None) -> SentRequest:
        """(context, continuation), (context, settings) or (text,)."""
        context, *rest = arguments
        if rest and isinstance(rest[0], Mapping):
            return cls(context, settings=rest[0], tokens=tokens, more=tuple(rest[1:]))
        return cls(context, str(rest[0]) if rest else None, tokens=tokens, more=tuple(rest[1:]))

    @property
    def arguments(self) -> tuple[Any, ...]:
        """
        >>> SentRequest("2 + 2 =", " 4").arguments, SentRequest("2 + 2 =", settings={"until": []}).arguments
        (('2 + 2 =', ' 4'), ('2 + 2 =', {'until': []}))
        """
        prompt = "" if self.prompt is None else self.prompt
        if self.continuation is not None:
            return (prompt, self.continuation, *self.more)
        return (prompt, dict(self.settings), *self.more) if self.settings or self.more else (prompt,)


@dataclass(frozen=True)
class AnsweredDoc:
    """A doc under one filter: what was sent, what was answered, what the filter left of it and how that was scored."""

    doc_id: int
    doc_hash: str
    """Of the content: docs with the same hash are the same, whatever their place."""
    doc: Mapping[str, Any]
    target: Any
    requests: tuple[SentRequest, ...] = ()
    responses: tuple[tuple[Any, ...], ...] = ()
    """The draws of each request."""
    filtered: Any = None
    filter: str = "none"
    request_hash: str | None = None
    """Of the requests; None where the format has no prompts."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """A doc without a value is missing from the metric, never wrong."""
    cluster: str | None = None
    failure: str | None = None
    """Why there is no answer."""
    conversations: tuple[tuple[Message, ...], ...] = ()
    """All that was said in each draw, where more than one request follows from the doc."""
    broken_off: tuple[str, ...] = ()
    """Why draws broke off, where there were several; the metrics are of the others."""
    draws: int = 1


class PerSolved(NamedTuple):
    """What a draw of a doc took, and the share of its draws that solved it. The ratio of their sums is what a solved doc takes."""

    spent: float
    solved: float


Columns = dict[MetricKey, DocColumn]
ReadColumns = Callable[[str], Columns]
"""Task to its columns."""
ReadDocs = Callable[[str, Sequence[int] | None], Iterable[AnsweredDoc]]
"""Task to its docs under every filter, in the order of the columns; only those with these ids where ids are given."""

PARTS = ("samples", "prompts", "answers", "draws", "groups")
"""What a run may lack, depending on who wrote it."""


def without_samples(why: str) -> dict[str, str]:
    """What a run of scores alone lacks."""
    return dict.fromkeys(("samples", "prompts", "answers", "draws"), why)


@dataclass(frozen=True)
class Run:
    """A result and the way to its docs. Columns and docs are read when they are wanted and not held: runs may be large."""

    result: RunResult
    """Scores of tasks and groups, with what was requested (`result.config`) of which model (`result.model`)."""
    path: Path
    tasks: tuple[str, ...]
    """Tasks whose samples are there."""
    read_docs: ReadDocs | None = None
    read_columns: ReadColumns | None = None
    """Where a format has a shorter way to the columns than through all docs."""
    format: str = "assay"
    """Whose files these are."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Parts that are not there, each with what would have them."""
    written: Mapping[str, Any] | None = None
    """The results file, where it has the schema of lm-evaluation-harness."""

    @property
    def is_ours(self) -> bool:
        return self.format == "assay"

    def has(self, part: str) -> bool:
        """Whether the run has samples, prompts, answers, every draw, groups."""
        return part not in self.lacks

    def require(self, *parts: str) -> None:
        if "scores" in parts and self.is_ours and not any(task.scores for task in self.result.tasks.values()):
            raise ConfigError(
                f"{self.path} has answers and no scores",
                hint=f"assay score {self.path} --run_dir DIR scores them.",
            )
        for part in parts:
            if part in self.lacks:
                raise ConfigError(f"{self.path} ({self.format}) has no {part}", hint=self.lacks[part])

    @cached_property
    def label(self) -> str:
        if is_scratch(self.path):
            return self.result.model_name or "a run"
        name = self.path.resolve().name
        return f"{self.result.model_name} ({name})" if self.result.model_name else name

    def score(self, name: str, key: MetricKey) -> Score | None:
        """The number that the run itself gives for a task or group."""
        return self.result[name].scores.get(key) if name in self.result else None

    def overlay(self, task: str) -> str:
        """The overlays that the task was scored under, with the beginning of each one's hash."""
        given = self.result.tasks[task].overlays if task in self.result.tasks else ()
        return " and ".join(f"overlay {each.name} ({each.sha256[:6]})" for each in given) or "without an overlay"

    def cautions(self, name: str, key: MetricKey, label: str, *, looks: str) -> tuple[str, str, str]:
        """What the run says about the number itself: that it ended early, was judged unchecked, is withheld; each may be "".
        `looks` says what follows where a run of ours stopped as soon as it had seen enough."""
        reason = self.result.tasks[name].stop_reason if name in self.result.tasks else None
        stopped = reason is not None and not reason.startswith("all docs")
        score = self.score(name, key)
        judge, withheld = (None, None) if score is None else (score.judge, score.withheld)
        return (
            (f"{label} stopped early: {looks}" if self.result.origin == "assay" else f"{label}: {reason}")
            if stopped
            else "",
            f"{label}: {judge.mark}" if judge is not None and not judge.is_corrected else "",
            f"{label} is withheld: {withheld}" if withheld is not None else "",
        )

    def columns(self, task: str) -> Columns:
        """A task's columns, with what the result says about how each became a number."""
        self._require_task(task)
        if self.read_columns is not None:
            columns = self.read_columns(task)
        else:
            columns = columns_of(self.docs(task))
        known = self.result.tasks[task]
        return {
            key: replace(
                column,
                aggregation=aggregation_name(known, key),
                higher_is_better=known.scores[key].higher_is_better if key in known.scores else None,
            )
            for key, column in columns.items()
        }

    def docs(
        self, task: str, filter_name: str | None = None, ids: Sequence[int] | None = None
    ) -> Iterator[AnsweredDoc]:
        """A task's docs with requests and answers, under one filter or all, in the order of the columns."""
        self._require_task(task)
        assert self.read_docs is not None
        wanted = None if ids is None else frozenset(ids)
        return (
            doc
            for doc in guarded(self.read_docs(task, ids), self.path, self.format)
            if filter_name in (None, doc.filter) and (wanted is None or doc.doc_id in wanted)
        )

    def shown_docs(self, task: str, ids: NDArray[np.int64], filter_name: str) -> list[dict[str, str]]:
        """These docs with what was answered, as JSON texts, under the filter where it has them; as far as the format has answers."""
        if not self.has("answers"):
            return [{}] * len(ids)
        found: dict[int, AnsweredDoc] = {}
        for doc in self.docs(task, ids=ids.tolist()):
            if doc.doc_id not in found or doc.filter == filter_name:
                found[doc.doc_id] = doc
        names = {"doc": "doc", "target": "target", "resps": "responses", "filtered_resps": "filtered"}
        return [
            {name: _text(getattr(found[i], part)) for name, part in names.items()} if i in found else {}
            for i in ids.tolist()
        ]

    def _require_task(self, task: str) -> None:
        self.require("samples")
        if task not in self.tasks:
            raise ConfigError(f"{self.path} has no task {task!r}", hint=did_you_mean(task, self.tasks))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=plain)


def is_higher_better(score: Score | DocColumn | None) -> bool:
    """Unknown counts as yes."""
    return score is None or score.higher_is_better is not False


def aggregation_name(task: TaskResult, key: MetricKey) -> str:
    """What the score says; where its file does not tell, what the task's config says of the metric, else its default."""
    score = task.scores.get(key)
    if score is not None and score.aggregation is not None:
        return score.aggregation
    listed = task.config.get("metric_list")
    if not listed and task.config.get("output_type") == "loglikelihood_rolling":
        listed = OUTPUT_TYPES["loglikelihood_rolling"].metrics
    for entry in listed or ():
        name, stated = (entry.get("metric"), entry.get("aggregation")) if isinstance(entry, Mapping) else (entry, None)
        if name == key.metric:
            return str(stated) if stated is not None else METRICS[name].aggregation if name in METRICS else "mean"
    return "mean"


# For readers of other harnesses


@contextmanager
def blaming(path: Path, origin: str) -> Iterator[None]:
    """What is not as expected in here is the fault of the files, and is said so: other harnesses change what they write."""
    try:
        yield
    except AssayError:
        raise
    except (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError) as error:
        raise DataError(
            f"{path} cannot be read as {origin}: {type(error).__name__}: {error}",
            hint="Its files are damaged, or were written by a version that is not known here.",
        ) from error


def guarded(docs: Iterable[AnsweredDoc], path: Path, origin: str) -> Iterator[AnsweredDoc]:
    """The docs; where reading them fails, the files are named."""
    with blaming(path, origin):
        for doc in docs:
            if not (isinstance(doc.filter, str) and isinstance(doc.doc_hash, str) and isinstance(doc.doc_id, int)):
                raise TypeError(f"a doc is called {doc.doc_id!r} under the filter {doc.filter!r}")
            yield doc


def columns_of(docs: Iterable[AnsweredDoc]) -> Columns:
    """The metrics of docs under all their filters, column by column."""
    by_filter: dict[str, _Rows] = {}
    for doc in docs:
        by_filter.setdefault(doc.filter, _Rows()).add(doc)
    return {key: column for name, rows in by_filter.items() for key, column in rows.columns(name)}


class _Rows:
    """The docs under one filter, without their texts."""

    def __init__(self) -> None:
        self.docs, self.requests, self.ids = array("Q"), array("Q"), array("q")
        self.clusters, self.has_clusters = array("Q"), False
        self.metrics: dict[str, list[Any]] = {}

    def add(self, doc: AnsweredDoc) -> None:
        for name in doc.metrics:
            if name not in self.metrics:
                self.metrics[name] = [None] * len(self.docs)
        for name, values in self.metrics.items():
            values.append(doc.metrics.get(name))
        self.docs.append(int(content_key(doc.doc_hash)))
        self.clusters.append(self.docs[-1] if doc.cluster is None else int(cluster_key("cluster", doc.cluster)))
        self.has_clusters |= doc.cluster is not None
        if doc.request_hash is not None:
            self.requests.append(int(content_key(doc.request_hash)))
        self.ids.append(doc.doc_id)

    def columns(self, filter_name: str) -> Iterator[tuple[MetricKey, DocColumn]]:
        docs, ids = np.array(self.docs, dtype=np.uint64), np.array(self.ids, dtype=np.int64)
        requests = np.array(self.requests, dtype=np.uint64) if len(self.requests) == len(docs) else None
        clusters = np.array(self.clusters, dtype=np.uint64) if self.has_clusters else None
        whole = max((_present(values) for values in self.metrics.values()), default=0)
        for name, values in self.metrics.items():
            key = MetricKey(name, filter_name)
            if any(isinstance(value, PerSolved) for value in values) and _present(values) < whole:
                continue  # what some docs took says nothing of all
            yield key, DocColumn(key, docs, requests, as_array(values), ids, clusters)


def _present(values: Sequence[Any]) -> int:
    return sum(value is not None for value in values)


def as_array(values: list[Any]) -> NDArray[Any]:
    """Numbers as float64 with NaN for what is missing; anything else as objects.

    >>> as_array([1, None, True])
    array([ 1., nan,  1.])
    """
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    objects = np.empty(len(values), dtype=object)
    objects[:] = [tuple(value) if isinstance(value, list) else value for value in values]
    return objects


def run_of_docs(
    tasks: Sequence[str],
    read_docs: ReadDocs,
    *,
    path: Path,
    model: str,
    origin: str,
    date: float = 0.0,
    read_columns: ReadColumns | None = None,
    read_values: ReadDocs | None = None,
    lacks: Mapping[str, str] | None = None,
    stop_reasons: Mapping[str, str] | None = None,
) -> Run:
    """The run of a log that has values of docs and no scores. Its scores are their means. `read_values` gives the docs without
    their texts, where that is quicker."""
    healths = {task: Health() for task in tasks}
    read = read_values or read_docs
    columns = {
        task: columns_of(_counted(guarded(read(task, None), path, origin), healths[task]))
        if read_columns is None
        else read_columns(task)
        for task in tasks
    }
    found = {}
    for task, of_task in columns.items():
        docs = max(map(len, of_task.values()), default=0)
        scores = {key: score for key, column in of_task.items() if (score := _score(column.scored())) is not None}
        health = replace(healths[task], docs=docs)
        stopped = (stop_reasons or {}).get(task)
        found[task] = TaskResult(task, task, scores, health, sample_len=docs, original=docs, stop_reason=stopped)
    result = RunResult(found, roots=tuple(found), model={"name": model}, date=date, origin=origin)
    return Run(result, path, tuple(found), read_docs, columns.__getitem__, origin, lacks or {})


def _score(column: DocColumn) -> Score | None:
    """The mean, or what a solved doc takes; None for values that are neither."""
    if column.is_numeric:
        mean = mean_estimate(column.values, unit_index(unit_keys(column.docs, column.clusters)))
        return Score(mean, mean.n, "mean")
    if not all(isinstance(value, PerSolved) for value in column.values):
        return None
    if not any(value.solved for value in column.values):
        return Score(Estimate.missing("no doc was solved", len(column)), len(column), "per_solved", False)
    per_solved = AGGREGATIONS["per_solved"]
    return estimate(column.values.tolist(), per_solved, column.docs, column.clusters, higher_is_better=False)


def _counted(docs: Iterable[AnsweredDoc], health: Health) -> Iterator[AnsweredDoc]:
    """The docs, with what failed among them counted: whole docs, and draws of docs that have others. For scores from 0 to 1
    the bounds say what they would be with all of these wrong, and with all of them right."""
    totals: dict[tuple[str, str], float] = {}
    lost, is_share = 0.0, set[tuple[str, str]]()
    for doc in docs:
        health.docs += 1
        health.failed += doc.failure is not None
        for reason in doc.broken_off or ((doc.failure,) if doc.failure is not None else ()):
            health.note_failure(reason)
        broken = 1.0 if doc.failure is not None else len(doc.broken_off) / doc.draws
        lost += broken
        for name, value in doc.metrics.items():
            key = name, doc.filter
            if key not in totals:
                totals[key] = 0.0
                is_share.add(key)
            if isinstance(value, int | float) and 0 <= value <= 1:
                totals[key] += value * (1 - broken)
            else:
                is_share.discard(key)
        yield doc
    if lost:
        of_tries = {MetricKey(*key): totals[key] for key in is_share if not key[0].startswith("pass")}
        health.bounds = {key: (low / health.docs, (low + lost) / health.docs) for key, low in of_tries.items()}


def only_run(runs: Sequence[Run], path: Path, of: str) -> Run:
    """The run of a place that holds one; where it holds several, what to do with them."""
    if len(runs) > 1:
        names = ", ".join(run.result.model_name for run in runs[:5])
        raise ConfigError(
            f"{path} has runs of {len(runs)} {of}: {names}{', …' if len(runs) > 5 else ''}",
            hint="`assay rank` takes all of them; elsewhere use the path of one.",
        )
    return runs[0]


def timestamp(text: str) -> float:
    """Seconds since 1970 of a date in a log or in the name of a file, which has no colons; 0 where it is none.

    >>> timestamp("1970-01-02T00:00:00+00:00"), timestamp("1970-01-02T00-00-01.5"), timestamp("yesterday")
    (86400.0, 86401.5, 0.0)
    """
    day, _, clock = text.partition("T")
    try:
        found = datetime.fromisoformat(f"{day}T{clock[:8].replace('-', ':')}{clock[8:]}" if clock else day)
    except ValueError:
        return 0.0
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def shared_keys(columns: Sequence[Columns], metric: str | None) -> list[MetricKey]:
    """Metrics that are numbers in all of these, or those of them that are called so."""
    shared = [key for key in columns[0] if all(key in c and c[key].is_numeric for c in columns)]
    return shared if metric is None else matching(metric, shared)
