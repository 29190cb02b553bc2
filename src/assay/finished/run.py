"""A finished run as comparison sees it, whoever wrote it: its result, and a value for each doc, column by column; and how it is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import ConfigError, did_you_mean
from assay.instance import Message
from assay.metrics import METRICS
from assay.registry import Registry
from assay.request_types import OUTPUT_TYPES
from assay.results import MetricKey, RunResult, Score, TaskResult, matching
from assay.stats import doc_keys, mean_estimate, unit_index, unit_keys
from assay.tasks import is_perturbation

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class DocColumn:
    """One metric of one task under one filter. Numbers are float64 with NaN where there is none; else objects.

    `docs` and `requests` are the first 64 bits of the content hashes; `requests` is None where the format keeps no
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
        )

    def scored(self) -> DocColumn:
        """Only the docs that have a value; itself where all have one."""
        if self.is_numeric:
            present = ~np.isnan(self.values)
        else:
            present = np.array([value is not None for value in self.values], dtype=bool)
        return self if present.all() else self.take(np.flatnonzero(present))


@dataclass(frozen=True)
class AskedRequest:
    """One request as the run made it. A chat is its messages; what a format does not keep is None."""

    prompt: str | tuple[Message, ...] | None
    continuation: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    tokens: int | None = None
    """Of the prompt, as the backend read it."""


@dataclass(frozen=True)
class AskedDoc:
    """What was asked about a doc, what was answered, and what a filter left of it."""

    doc_id: int
    doc: Mapping[str, Any]
    target: Any
    requests: tuple[AskedRequest, ...]
    responses: tuple[tuple[Any, ...], ...]
    """The draws of each request."""
    filtered: Any = None


Columns = dict[MetricKey, DocColumn]
ReadAsked = Callable[[str, str], list[AskedDoc]]
"""Task and filter to all docs, in the order of the columns."""
ShowDocs = Callable[[str, NDArray[np.int64], str], list[dict[str, Any]]]
"""Task, doc ids and filter to the docs with what was answered, as that filter left it."""
"""Task and doc ids to what was asked and answered."""


@dataclass(frozen=True)
class Run:
    """A result and the way to its docs. Columns are read when they are asked for and not kept: runs may be large."""

    result: RunResult
    path: Path
    tasks: tuple[str, ...]
    """Tasks whose samples are there."""
    read: Callable[[str], Columns]
    """Task to columns, as the samples have them."""
    show_docs: ShowDocs | None = None
    format: str = "assay"
    """Whose files these are: the name of their reader."""
    asked: ReadAsked | None = None

    @cached_property
    def label(self) -> str:
        name = self.path.resolve().name
        return f"{self.result.model_name} ({name})" if self.result.model_name else name

    def score(self, name: str, key: MetricKey) -> Score | None:
        """The number that the run itself gives for a task or group."""
        return self.result[name].scores.get(key) if name in self.result else None

    def cautions(self, name: str, key: MetricKey, label: str, *, looks: str) -> tuple[str, str, str]:
        """What the run says about the number itself: that it stopped early, was judged unchecked, is withheld; each may be ""."""
        reason = self.result.tasks[name].stop_reason if name in self.result.tasks else None
        stopped = reason is not None and not reason.startswith("all docs")
        score = self.score(name, key)
        judge, withheld = (None, None) if score is None else (score.judge, score.withheld)
        return (
            f"{label} stopped early: {looks}" if stopped else "",
            f"{label}: {judge.mark}" if judge is not None and not judge.is_corrected else "",
            f"{label} is withheld: {withheld}" if withheld is not None else "",
        )

    def shown_docs(self, task: str, ids: NDArray[np.int64], filter_name: str) -> list[dict[str, Any]]:
        """The docs with what was answered, as far as the format keeps them."""
        return self.show_docs(task, ids, filter_name) if self.show_docs else [{}] * len(ids)

    def columns(self, task: str) -> Columns:
        """A task's columns, with what the result says about how each became a number."""
        if task not in self.tasks:
            raise ConfigError(f"{self.path} has no task {task!r}", hint=did_you_mean(task, self.tasks))
        known = self.result.tasks[task]
        return {
            key: replace(
                column,
                aggregation=aggregation_name(known, key),
                higher_is_better=known.scores[key].higher_is_better if key in known.scores else None,
            )
            for key, column in self.read(task).items()
        }


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


@dataclass(frozen=True)
class RunReader:
    """One format of runs."""

    finds: Callable[[Path], bool]
    """Whether a run of this format is at a path or below it."""
    read: Callable[[Path], Run]
    from_results: Callable[[Mapping[str, Any]], RunResult] | None = None
    """Scores alone, for formats that keep them in a results file."""


class ColumnBuilder:
    """Takes docs as they come, with their values under each filter, and gives columns."""

    def __init__(self) -> None:
        self._filters: dict[str, list[tuple[str, str | None, int, dict[str, Any]]]] = {}

    def row(self, doc: str, prompt: str | None, doc_id: int, filter_name: str = "none") -> dict[str, Any]:
        """A new row; the caller fills in the metrics. `doc` and `prompt` are content hashes."""
        metrics: dict[str, Any] = {}
        self._filters.setdefault(filter_name, []).append((doc, prompt, doc_id, metrics))
        return metrics

    def columns(self) -> Columns:
        columns: Columns = {}
        for filter_name, rows in self._filters.items():
            docs = doc_keys(doc for doc, _, _, _ in rows)
            prompts = [prompt for _, prompt, _, _ in rows if prompt is not None]
            requests = doc_keys(prompts) if len(prompts) == len(rows) else None
            ids = np.array([doc_id for _, _, doc_id, _ in rows], dtype=np.int64)
            for metric in dict.fromkeys(name for _, _, _, metrics in rows for name in metrics):
                key = MetricKey(metric, filter_name)
                values = as_array([metrics.get(metric) for _, _, _, metrics in rows])
                columns[key] = DocColumn(key, docs, requests, values, ids)
        return columns


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


def run_of_columns(
    columns: Mapping[str, Columns],
    *,
    path: Path,
    model: str,
    origin: str,
    show_docs: ShowDocs,
    asked: ReadAsked | None = None,
) -> Run:
    """The run of a log that keeps values of docs and no scores. Its scores are their means."""
    tasks = {}
    for task, of_task in columns.items():
        scored = {key: column.scored() for key, column in of_task.items() if column.is_numeric}
        means = {key: mean_estimate(c.values, unit_index(unit_keys(c.docs, c.clusters))) for key, c in scored.items()}
        tasks[task] = TaskResult(task, task, {key: Score(mean, mean.n, "mean") for key, mean in means.items()})
    result = RunResult(tasks, roots=tuple(tasks), model={"name": model}, origin=origin)
    return Run(result, path, tuple(tasks), lambda task: columns[task], show_docs, format=origin, asked=asked)


LM_EVAL = "lm-evaluation-harness"

RUN_READERS = Registry[RunReader](
    "run reader",
    group="assay.run_readers",
    lazy={
        "assay": "assay.finished.own:READER",
        "inspect": "assay.finished.inspect_ai:READER",
        "lighteval": "assay.finished.lighteval:READER",
        LM_EVAL: "assay.finished.lm_eval.run_files:READER",
    },
)
"""Formats of runs, by the harness that writes them. The first that finds its files reads them."""


def open_run(path: str | Path) -> Run:
    """A run directory of ours, or what lm-evaluation-harness, lighteval or inspect wrote (also a single file of theirs)."""
    where = Path(path)
    if not where.exists():
        raise ConfigError(f"{path} does not exist", hint="Use the directory of a finished run.")
    for name in RUN_READERS:
        reader = RUN_READERS.get_installed(name)
        if reader is not None and reader.finds(where):
            return reader.read(where)
    raise ConfigError(
        f"{path} contains no run that can be read",
        hint="Known: run directories of Assay, results and samples of lm-evaluation-harness, details of lighteval (Parquet), .eval logs of inspect.",
    )


def open_results(data: Mapping[str, Any], path: Path) -> Run:
    """A results file by itself, of ours or of lm-evaluation-harness: scores and standard errors, no docs."""

    def no_columns(task: str) -> Columns:
        raise ConfigError(f"{path} has no samples")

    if "assay" in data:
        result = RunResult.from_dict(data)
    else:
        from_results = RUN_READERS[LM_EVAL].from_results
        assert from_results is not None
        result = from_results(data)
    return Run(result, path, (), no_columns, format="results")


def clean_name(name: str) -> str:
    """
    >>> clean_name("arc_easy:mc:typo(0.1)"), clean_name("arc_easy:5shot")
    ('arc_easy:mc', 'arc_easy:5shot')
    """
    return ":".join(part for part in name.split(":") if not is_perturbation(part))


def perturbations_in(name: str) -> str:
    return ", ".join(part for part in name.split(":") if is_perturbation(part)) or "none"


def named_like(a: Run, b: Run) -> tuple[Run, dict[str, str]]:
    """B with the names of A, where two names differ in their perturbations alone; and A's name to B's for these.

    `arc_easy:typo(0.1)` is then compared with `arc_easy`, doc by doc. A task with several partners keeps its name: which of them is meant, nobody said.
    """
    names = {clean_name(name): name for name in [*a.result.tasks, *a.result.groups] if name not in b.result}
    wanted = [name for name in [*b.result.tasks, *b.result.groups] if name not in a.result]
    partners = Counter(map(clean_name, wanted))
    back = {names[clean_name(n)]: n for n in wanted if clean_name(n) in names and partners[clean_name(n)] == 1}
    if not back:
        return b, {}
    new = {own: name for name, own in back.items()}

    def renamed(nodes: dict[str, Any]) -> dict[str, Any]:
        return {new.get(name, name): replace(node, name=new.get(name, name)) for name, node in nodes.items()}

    groups = {
        name: replace(group, children=tuple(new.get(child, child) for child in group.children))
        for name, group in renamed(b.result.groups).items()
    }
    roots = tuple(new.get(name, name) for name in b.result.roots)
    show = b.show_docs
    run = replace(
        b,
        result=replace(b.result, tasks=renamed(b.result.tasks), groups=groups, roots=roots),
        tasks=tuple(new.get(name, name) for name in b.tasks),
        read=lambda task: b.read(back.get(task, task)),
        show_docs=None if show is None else lambda task, ids, name: show(back.get(task, task), ids, name),
    )
    return run, back


def shared_keys(columns: Sequence[Columns], metric: str | None) -> list[MetricKey]:
    """Metrics that are numbers in all of these, or those of them that are called so."""
    shared = [key for key in columns[0] if all(key in c and c[key].is_numeric for c in columns)]
    return shared if metric is None else matching(metric, shared)
