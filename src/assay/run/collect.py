"""Scores of one task as they come in: numbers and hashes only, so that memory does not grow with the text."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.filters import ReadLabel, works_per_doc
from assay.instance import Instance
from assay.results import (
    DocIds,
    Flag,
    Health,
    MetricColumn,
    MetricKey,
    Numbers,
    RunDirectory,
    SampleRow,
    SampleWriter,
    pack_arguments,
    pack_questions,
    pack_responses,
    to_json,
)
from assay.run.drawing import require_label
from assay.run.units import Unit
from assay.scoring import ScoringResult, ensembles_of
from assay.stats import cluster_key

if TYPE_CHECKING:
    from assay.config import RunConfig
    from assay.filters import FilterEnsemble
    from assay.run.plan import Plan
    from assay.tasks import DocRequests, Task
from assay.timelimit import DOC_SECONDS, begin, watched

AskRoles = Callable[[str, Sequence[Instance]], None]
"""(task, questions to other models of the run) → nothing; the answers are filled in."""


class Collector:
    """Collects one task's scores, health and samples."""

    def __init__(
        self,
        task: Task,
        writer: SampleWriter | None,
        *,
        score: bool = True,
        keep_hashes: bool = False,
        ask_roles: AskRoles | None = None,
    ) -> None:
        self.task, self.writer, self.scoring, self.ask_roles = task, writer, score, ask_roles
        self.columns: dict[MetricKey, MetricColumn] = {}
        self.health = Health()
        self.unparsed_docs: dict[str, array[int]] = {}
        """By filter."""
        self.no_gold_docs: set[int] = set()
        self.doc_ids = DocIds()
        self.keys: Numbers[int] = Numbers("Q")
        self.prompts: Numbers[int] = Numbers("Q")
        """The first 64 bits of the hash of each doc's requests, until `finish` counts those that are equal."""
        self.clusters: Numbers[int] | None = Numbers("Q") if task.config.cluster else None
        """The key of each doc's cluster."""
        self.choice_counts: Counter[int] = Counter()
        self.drawn_once = True
        """Whether no request was answered more than once."""
        self.hash_of: dict[int, str] = {}
        """Doc hashes by doc id, only where something asks for them (`keep_hashes`)."""
        self._keep_hashes = keep_hashes
        self._digest = hashlib.sha256()
        self._waiting: list[Unit] = []

    @cached_property
    def ensembles(self) -> list[FilterEnsemble]:
        return ensembles_of(self.task.config)

    @cached_property
    def filter_names(self) -> list[str]:
        """One row of samples each."""
        return [ensemble.name for ensemble in self.ensembles] if self.scoring else ["none"]

    @cached_property
    def scores_in_parts(self) -> bool:
        """Whether every filter works doc by doc; one that does not is given all responses of the task at once."""
        return all(works_per_doc(step) for ensemble in self.ensembles for step in ensemble.steps)

    @property
    def task_hash(self) -> str:
        """Over the requests of all docs, in doc order: two runs with the same hash asked the same."""
        return self._digest.hexdigest()

    def add(self, units: Sequence[Unit]) -> None:
        """Score some answered docs, or keep them until `finish`."""
        if not self.scoring or self.scores_in_parts:
            self._score(units)
        else:
            self._waiting.extend(units)

    def finish(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._score(waiting)
        if self.writer is not None:
            self.writer.close()
        prompts, self.prompts = np.sort(self.prompts), Numbers("Q")
        self.health.duplicate_prompts = int(np.count_nonzero(prompts[1:] == prompts[:-1]))

    def abandon(self) -> None:
        """The run ends without results: leave no half-written file."""
        if self.writer is not None:
            self.writer.discard()

    @property
    def running(self) -> tuple[str, float, int] | None:
        """(metric, mean so far, docs) of the first metric that has a mean."""
        for key, column in self.columns.items():
            if (mean := column.mean) is not None:
                return key.metric, mean, len(column)
        return None

    def _score(self, units: Sequence[Unit]) -> None:
        result = self._scored([unit.requests for unit in units]) if self.scoring else ScoringResult()
        for key, column in result.columns.items():
            known = self.columns.setdefault(key, MetricColumn(key, column.aggregation, column.higher_is_better))
            known.extend(column.doc_ids, column.values, column.draws)
            if column.labels is not None:
                known.labels = {**(known.labels or {}), **column.labels}
        values = values_by_doc(result) if self.writer is not None else {}
        for unit in units:
            flags = result.flags.get(unit.requests.doc_id, [])
            asked = unit.request_hash
            failures = (each.failure for each in unit.requests.instances if each.failure)
            failure = next(failures, None) or result.why_failed(unit.requests.doc_id)
            self._note(unit, asked, flags, failure)
            if self.writer is not None:
                self._write(unit, asked, flags, values, failure)

    def _scored(self, docs: Sequence[DocRequests]) -> ScoringResult:
        for ensemble in self.ensembles:
            apply_filters(ensemble, docs)
        by_doc = {doc.doc_id: doc.instances for doc in docs}
        if self.ask_roles is not None and self.task.scorer.roles:
            scored = {
                doc_id: self.task.scored_instances(instances)
                for doc_id, instances in by_doc.items()
                if not any(instance.failure for instance in instances)
            }
            while questions := self.task.scorer.next_requests(scored, self.task.config):
                self.ask_roles(self.task.task_name, questions)
        return self.task.score_docs(by_doc)

    def _note(self, unit: Unit, asked: str, flags: Sequence[Flag], failure: str | None) -> None:
        doc = unit.requests
        self.doc_ids.append(doc.doc_id)
        if self._keep_hashes:
            self.hash_of[doc.doc_id] = doc.doc_hash
        self.keys.append(int(doc.doc_hash[:16], 16))  # `doc_key`, without numpy's detour
        self.prompts.append(int(asked[:16], 16))
        self._digest.update(asked.encode())
        self.health.docs += 1
        if self.drawn_once:
            self.drawn_once = {instance.repeats for instance in doc.instances} <= {1}
        names = {flag.name for flag in flags} if flags else set()
        if doc.instances and doc.instances[0].choices is not None and not names & {"failed", "no_gold"}:
            # Guessing cannot be right where no choice is, and what was not answered was not guessed.
            self.choice_counts[len(doc.instances[0].choices)] += 1
        if self.clusters is not None:
            column = self.task.config.cluster or ""
            self.clusters.append(int(cluster_key(column, cluster_of(doc, column, self.task.task_name))))
        self.health.note(flags)
        if "no_gold" in names:
            self.no_gold_docs.add(doc.doc_id)
        if "failed" in names:
            self.health.note_failure(failure or "no reason is known")
        for flag in flags:
            if flag.name == "unparsed" and flag.filter is not None:
                self.unparsed_docs.setdefault(flag.filter, array("q")).append(doc.doc_id)

    def _write(
        self,
        unit: Unit,
        asked: str,
        flags: Sequence[Flag],
        values: Mapping[tuple[int, str], dict[str, Any]],
        failure: str | None,
    ) -> None:
        assert self.writer is not None
        doc, kept = unit.requests, unit.kept
        if kept is not None:
            text, arguments, resps = kept.doc, kept.arguments, kept.resps
            came_with = {"stops": kept.stops, "tokens": kept.tokens, "extras": kept.extras}
        else:
            text, arguments = to_json(doc.doc), pack_arguments(doc.instances)
            resps = to_json([instance.resps for instance in doc.instances])
            came_with = pack_responses(doc.instances)
        for name in self.filter_names:
            metrics = values.get((doc.doc_id, name), {})
            numbers = {metric: float(value) for metric, value in metrics.items() if isinstance(value, int | float)}
            other = {metric: value for metric, value in metrics.items() if metric not in numbers}
            filtered = [instance.filtered_resps.get(name) for instance in doc.instances]
            self.writer.add(
                SampleRow(
                    doc_id=doc.doc_id,
                    doc_hash=doc.doc_hash,
                    request_hash=asked,
                    filter=name,
                    doc=text,
                    target=to_json(doc.target),
                    arguments=arguments,
                    resps=resps,
                    filtered_resps=to_json(filtered),
                    **came_with,
                    questions=pack_questions(doc.instances),
                    failure=failure,
                    metrics=numbers,
                    labels=self._labels(doc.doc_id, name),
                    other={**other, **rules_of(filtered)},
                    flags=tuple([flag.name for flag in flags if flag.filter in (None, name)]) if flags else (),
                    cluster=cluster_of(doc, self.task.config.cluster, self.task.task_name),
                )
            )

    def _labels(self, doc_id: int, filter_name: str) -> dict[str, float]:
        return {
            key.metric: column.labels[doc_id]
            for key, column in self.columns.items()
            if key.filter == filter_name and column.labels and doc_id in column.labels
        }


def rules_of(filtered: Sequence[Any]) -> dict[str, Any]:
    """The rules by which a filter read the answers of a doc, where it says."""
    each = [one for value in filtered for one in (value if isinstance(value, list) else [value])]
    rules = [one.rule for one in each if isinstance(one, ReadLabel)]
    return {"read_by": rules} if rules else {}


def apply_filters(ensemble: FilterEnsemble, docs: Sequence[DocRequests]) -> None:
    """To all docs at once; if that fails, to each alone, and a doc on which it fails is a failed doc."""
    with watched():
        try:
            begin(DOC_SECONDS + len(docs) / 10)
            return ensemble.apply([instance for doc in docs for instance in doc.instances])
        except Exception as error:  # a filter may be anybody's code
            failed = 0
            for doc in docs:
                try:
                    begin()
                    ensemble.apply(doc.instances)
                except Exception as its_error:
                    failed += 1
                    reason = f"filtering failed: {ensemble.name}: {type(its_error).__name__}"
                    doc.instances[0].failure = doc.instances[0].failure or reason
            if failed == len(docs):
                raise error


@contextmanager
def collecting(
    plan: Plan,
    config: RunConfig,
    directory: RunDirectory | None,
    *,
    score: bool = True,
    ask_roles: AskRoles | None = None,
) -> Iterator[dict[str, Collector]]:
    """A collector for every task: complete at the end, or, if something goes wrong, with no half-written file."""
    collectors = {
        name: Collector(
            planned.task,
            None if directory is None else SampleWriter(directory.sample_file(name)),
            score=score,
            keep_hashes=config.control is not None,
            ask_roles=ask_roles,
        )
        for name, planned in plan.tasks.items()
    }
    try:
        yield collectors
        for collector in collectors.values():
            collector.finish()
    except BaseException:
        for collector in collectors.values():
            collector.abandon()
        raise


def values_by_doc(result: ScoringResult) -> dict[tuple[int, str], dict[str, Any]]:
    """(doc, filter) → metric → value."""
    values: dict[tuple[int, str], dict[str, Any]] = {}
    for key, column in result.columns.items():
        for doc_id, value in zip(column.doc_ids, column.values):
            values.setdefault((doc_id, key.filter), {})[key.metric] = value
    return values


def cluster_of(doc: DocRequests, column: str | None, task: str) -> str | None:
    """The label of a doc's cluster; None where the task has none. A doc without a label would be counted wrongly."""
    if not column:
        return None
    require_label(task, doc.doc_id, column, doc.doc)
    return str(doc.doc[column])
