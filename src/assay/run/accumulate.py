"""Scores of one task as they come in: numbers and hashes only, so that memory does not grow with the text."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.results.samples import SampleRow, SampleWriter, pack_arguments, to_json
from assay.run.infer import Unit
from assay.scoring import ScoringResult, ensembles_of, filters_of
from assay.stats import doc_key

if TYPE_CHECKING:
    from assay.config import RunConfig
    from assay.filters import FilterEnsemble
    from assay.metrics import Aggregation
    from assay.results.directory import RunDirectory
    from assay.run.plan import Plan
    from assay.tasks import DocRequests, Task

ScoreKey = tuple[str, str]
"""(metric, filter)."""


@dataclass
class Column:
    """Values of one metric under one filter, with the docs they belong to (a metric may skip docs)."""

    doc_ids: array[int] = field(default_factory=lambda: array("q"))
    values: Any = field(default_factory=lambda: array("d"))
    total: float = 0.0
    draws: list[tuple[int, int]] = field(default_factory=list)
    """(draws, right draws) of each doc, where docs were drawn repeatedly."""

    def extend(self, doc_ids: Sequence[int], values: Sequence[Any], draws: Sequence[tuple[int, int]] = ()) -> None:
        self.doc_ids.extend(doc_ids)
        self.draws.extend(draws)
        if isinstance(self.values, array):
            try:
                self.values.extend(values)
                self.total += sum(values)
                return
            except TypeError:
                # Not all numbers (f1 keeps pairs, BLEU texts). `extend` stops at the first, so cut back to whole batches.
                self.values = self.values.tolist()[: len(self.doc_ids) - len(doc_ids)]
        self.values.extend(values)

    def order(self) -> NDArray[np.int64] | None:
        """Positions in the order of doc ids; None where they are in order, as they are unless docs were drawn at random."""
        ids = np.frombuffer(self.doc_ids, dtype=np.int64)
        return None if bool(np.all(ids[1:] >= ids[:-1])) else np.argsort(ids, kind="stable")

    def in_doc_order(self) -> tuple[NDArray[np.int64], list[Any], list[tuple[int, int]] | None]:
        """Doc ids, values, and counts of draws (None where docs were asked once, or some of them have no count)."""
        ids, values = np.array(self.doc_ids, dtype=np.int64), list(self.values)
        draws = self.draws if self.draws and len(self.draws) == len(ids) else None
        order = self.order()
        if order is None:
            return ids, values, draws
        return ids[order], [values[i] for i in order], None if draws is None else [draws[i] for i in order]

    @property
    def mean(self) -> float | None:
        """The mean so far, for progress; None where values are no numbers."""
        return self.total / len(self.values) if isinstance(self.values, array) and self.values else None


class Accumulator:
    """Collects one task's scores, health and samples."""

    def __init__(
        self, task: Task, writer: SampleWriter | None, *, score: bool = True, keep_hashes: bool = False
    ) -> None:
        self.task, self.writer, self.scoring = task, writer, score
        self.columns: dict[ScoreKey, Column] = {}
        self.aggregations: dict[ScoreKey, Aggregation] = {}
        self.higher_is_better: dict[ScoreKey, bool | None] = {}
        self.doc_ids: array[int] = array("q")
        self.keys: array[int] = array("Q")
        self.prompts: array[int] = array("Q")
        self.clusters: list[str] | None = [] if task.config.cluster else None
        self.health: Counter[str] = Counter()
        self.unparsed_docs: dict[str, array[int]] = {}
        self.choice_counts: Counter[int] = Counter()
        self.hash_of: dict[int, str] = {}
        """Doc hashes by doc id, only where something asks for them (`keep_hashes`)."""
        self._keep_hashes = keep_hashes
        self._digest = hashlib.sha256()
        self._waiting: list[Unit] = []

    @cached_property
    def ensembles(self) -> list[FilterEnsemble]:
        return ensembles_of(self.task.config)

    @property
    def filter_names(self) -> list[str]:
        return [ensemble.name for ensemble in self.ensembles] if self.scoring else ["none"]

    @cached_property
    def scores_in_parts(self) -> bool:
        """Filters from task files may look at all responses of the task at once, so they get all of them at once."""
        steps = [step.function for each in filters_of(self.task.config) for step in each.filter]
        return all(isinstance(step, str) and step != "custom" for step in steps)

    @property
    def task_hash(self) -> str:
        """Over the requests of all docs, in doc order: two runs with the same hash asked the same."""
        return self._digest.hexdigest()

    def add(self, batch: Sequence[Unit]) -> None:
        """Score a batch of answered docs, or keep it until `finish`."""
        if self.scores_in_parts or not self.scoring:
            self._score(batch)
        else:
            self._waiting.extend(batch)

    def finish(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._score(waiting)
        if self.writer is not None:
            self.writer.close()

    def abandon(self) -> None:
        """The run ends without results: leave no half-written file."""
        if self.writer is not None:
            self.writer.discard()

    @property
    def running(self) -> tuple[str, float, int] | None:
        """(metric, mean so far, docs) of the first metric that has a mean."""
        for (metric, _), column in self.columns.items():
            if (mean := column.mean) is not None:
                return metric, mean, len(column.doc_ids)
        return None

    def _score(self, batch: Sequence[Unit]) -> None:
        result = self._scored([unit.requests for unit in batch]) if self.scoring else ScoringResult()
        for key, values in result.sample_scores.items():
            self.columns.setdefault(key, Column()).extend(result.doc_ids[key], values, result.draw_counts.get(key, ()))
        self.aggregations |= result.aggregations
        self.higher_is_better |= result.higher_is_better
        metrics = by_doc(result) if self.writer is not None else {}
        for unit in batch:
            doc = unit.requests
            flags = result.health.flags(doc.doc_id)
            self._note(doc, unit.asked, flags)
            if self.writer is not None:
                self._write(unit, flags, metrics)

    def _scored(self, batch: Sequence[DocRequests]) -> ScoringResult:
        for ensemble in self.ensembles:
            ensemble.apply([instance for doc in batch for instance in doc.instances])
        return self.task.score_docs({doc.doc_id: doc.instances for doc in batch})

    def _note(self, doc: DocRequests, asked: str, flags: Sequence[str]) -> None:
        self.doc_ids.append(doc.doc_id)
        if self._keep_hashes:
            self.hash_of[doc.doc_id] = doc.doc_hash
        self.keys.append(int(doc_key(doc.doc_hash)))
        self.prompts.append(int(asked[:16], 16))
        self._digest.update(asked.encode())
        self.health["docs"] += 1
        if doc.instances and doc.instances[0].choices is not None:
            self.choice_counts[len(doc.instances[0].choices)] += 1
        if self.clusters is not None:
            self.clusters.append(cluster_of(doc, self.task.config.cluster))
        for flag in flags:
            name, _, filter_name = flag.partition(":")
            if name == "unparsed":
                self.unparsed_docs.setdefault(filter_name, array("q")).append(doc.doc_id)
            else:
                self.health[name] += 1

    def _write(self, unit: Unit, flags: Sequence[str], metrics: Mapping[tuple[int, str], dict[str, Any]]) -> None:
        assert self.writer is not None
        doc, kept = unit.requests, unit.kept
        shared: dict[str, Any] = {
            "doc_id": doc.doc_id,
            "doc_hash": doc.doc_hash,
            "request_hash": unit.asked,
            "doc": kept.doc if kept else to_json(doc.doc),
            "target": to_json(doc.target),
            "arguments": kept.arguments if kept else pack_arguments(doc.instances),
            "resps": kept.resps if kept else to_json([instance.resps for instance in doc.instances]),
            "stops": kept.stops if kept else stops_of(doc),
            "tokens": kept.tokens if kept else tokens_of(doc),
            "failure": next((instance.failure for instance in doc.instances if instance.failure), None),
            "cluster": None if self.clusters is None else cluster_of(doc, self.task.config.cluster),
        }
        for name in self.filter_names:
            values = metrics.get((doc.doc_id, name), {})
            self.writer.add(
                SampleRow(
                    **shared,
                    filter=name,
                    filtered_resps=to_json([instance.filtered_resps.get(name) for instance in doc.instances]),
                    metrics={metric: float(value) for metric, value in values.items() if is_number(value)},
                    other={metric: value for metric, value in values.items() if not is_number(value)},
                    flags=tuple(f.partition(":")[0] for f in flags if ":" not in f or f.endswith(f":{name}")),
                )
            )


@contextmanager
def collecting(plan: Plan, config: RunConfig, directory: RunDirectory | None, *, score: bool = True) -> Iterator[dict[str, Accumulator]]:  # fmt: skip
    """An accumulator for every task: complete at the end, or, if something goes wrong, with no half-written file."""
    accumulators = {
        name: Accumulator(
            planned.task,
            None if directory is None else SampleWriter(directory.sample_file(name)),
            score=score,
            keep_hashes=config.control is not None,
        )
        for name, planned in plan.tasks.items()
    }
    try:
        yield accumulators
        for accumulator in accumulators.values():
            accumulator.finish()
    except BaseException:
        for accumulator in accumulators.values():
            accumulator.abandon()
        raise


def by_doc(result: ScoringResult) -> dict[tuple[int, str], dict[str, Any]]:
    """(doc, filter) → metric → value."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for (metric, filter_name), values in result.sample_scores.items():
        for doc_id, value in zip(result.doc_ids[metric, filter_name], values):
            found.setdefault((doc_id, filter_name), {})[metric] = value
    return found


def stops_of(doc: DocRequests) -> str | None:
    known = any(any(instance.stop_reasons) for instance in doc.instances)
    return to_json([instance.stop_reasons for instance in doc.instances]) if known else None


def tokens_of(doc: DocRequests) -> str | None:
    known = any(any(instance.tokens) for instance in doc.instances)
    return to_json([instance.tokens for instance in doc.instances]) if known else None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def cluster_of(doc: DocRequests, column: str | None) -> str:
    return str(doc.doc.get(column, "")) if column else ""
