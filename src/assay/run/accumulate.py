"""Scores of one task as they come in: numbers and hashes only, so that memory does not grow with the text."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from assay.run.hashes import request_hash
from assay.run.samples import SampleRow, SampleWriter, pack_arguments, to_json
from assay.stats import doc_key

if TYPE_CHECKING:
    from assay.scoring import ScoringResult
    from assay.tasks import DocRequests, Task

ScoreKey = tuple[str, str]
"""(metric, filter)."""


@dataclass
class Column:
    """Values of one metric under one filter, with the docs they belong to (a metric may skip docs)."""

    doc_ids: array[int] = field(default_factory=lambda: array("q"))
    values: Any = field(default_factory=lambda: array("d"))
    total: float = 0.0

    def extend(self, doc_ids: Sequence[int], values: Sequence[Any]) -> None:
        self.doc_ids.extend(doc_ids)
        if isinstance(self.values, array):
            try:
                self.values.extend(values)
                self.total += sum(values)
                return
            except TypeError:
                # Not all numbers (f1 keeps pairs, BLEU texts). `extend` stops at the first, so cut back to whole batches.
                self.values = self.values.tolist()[: len(self.doc_ids) - len(doc_ids)]
        self.values.extend(values)

    def in_doc_order(self) -> tuple[list[int], list[Any]]:
        order = sorted(range(len(self.doc_ids)), key=self.doc_ids.__getitem__)
        return [self.doc_ids[i] for i in order], [self.values[i] for i in order]

    @property
    def mean(self) -> float | None:
        """The mean so far, for progress; None where values are no numbers."""
        return self.total / len(self.values) if isinstance(self.values, array) and self.values else None


class Accumulator:
    """Collects one task's scores, health and samples."""

    def __init__(self, task: Task, writer: SampleWriter | None, *, score: bool = True) -> None:
        self.task, self.writer, self.scoring = task, writer, score
        self.columns: dict[ScoreKey, Column] = {}
        self.doc_ids: array[int] = array("q")
        self.keys: array[int] = array("Q")
        self.clusters: list[str] | None = [] if task.config.cluster else None
        self.health: Counter[str] = Counter()
        self.unparsed: Counter[str] = Counter()
        self.prompts: Counter[bytes] = Counter()
        self._waiting: list[DocRequests] = []

    def add(self, batch: Sequence[DocRequests]) -> None:
        """Score a batch of answered docs, or keep it until `finish`.

        Filters from task files may look at all responses of the task at once, so they get all of them at once.
        """
        if self.task.scores_in_parts or not self.scoring:
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

    def _score(self, batch: Sequence[DocRequests]) -> None:
        answered = [doc for doc in batch if all(instance.failure is None for instance in doc.instances)]
        self.health["docs"] += len(batch)
        self.health["failed"] += len(batch) - len(answered)
        result = self.task.score({doc.doc_id: doc.instances for doc in answered}) if answered and self.scoring else None
        if result is not None:
            for key, values in result.sample_scores.items():
                self.columns.setdefault(key, Column()).extend(result.doc_ids[key], values)
        flags = flags_of(batch, result)
        for doc in batch:
            self._note(doc, flags[doc.doc_id])
        if self.writer is not None:
            self._write(batch, result, flags)

    def _note(self, doc: DocRequests, flags: set[str]) -> None:
        self.doc_ids.append(doc.doc_id)
        self.keys.append(int(doc_key(doc.doc_hash)))
        if self.clusters is not None:
            self.clusters.append(cluster_of(doc, self.task.config.cluster))
        for flag in flags - {"failed"}:
            name, _, filter_name = flag.partition(":")
            if name == "unparsed":
                self.unparsed[filter_name] += 1
            else:
                self.health[name] += 1

    def _write(self, batch: Sequence[DocRequests], result: ScoringResult | None, flags: dict[int, set[str]]) -> None:
        assert self.writer is not None
        metrics = by_doc(result)
        filters = self.task.filter_names if self.scoring else ["none"]
        for doc in batch:
            shared = {
                "doc_id": doc.doc_id,
                "doc_hash": doc.doc_hash,
                "request_hash": request_hash(doc.instances),
                "doc": to_json(doc.doc),
                "target": to_json(doc.target),
                "arguments": pack_arguments(doc.instances),
                "resps": to_json([instance.resps for instance in doc.instances]),
                "stops": stops_of(doc),
                "cluster": None if self.clusters is None else cluster_of(doc, self.task.config.cluster),
            }
            for name in filters:
                values = metrics.get((doc.doc_id, name), {})
                numbers = {m: float(v) for m, v in values.items() if is_number(v)}
                others = {m: v for m, v in values.items() if not is_number(v)}
                mine = tuple(sorted(f.partition(":")[0] for f in flags[doc.doc_id] if ":" not in f or f.endswith(f":{name}")))  # fmt: skip
                filtered = to_json([instance.filtered_resps.get(name) for instance in doc.instances])
                self.writer.add(SampleRow(**shared, filter=name, filtered_resps=filtered, metrics=numbers, other=others, flags=mine))  # fmt: skip


def by_doc(result: ScoringResult | None) -> dict[tuple[int, str], dict[str, Any]]:
    """(doc, filter) → metric → value."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    if result is not None:
        for (metric, filter_name), values in result.sample_scores.items():
            for doc_id, value in zip(result.doc_ids[metric, filter_name], values):
                found.setdefault((doc_id, filter_name), {})[metric] = value
    return found


def stops_of(doc: DocRequests) -> str | None:
    known = any(any(instance.stop_reasons) for instance in doc.instances)
    return to_json([instance.stop_reasons for instance in doc.instances]) if known else None


def is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def cluster_of(doc: DocRequests, column: str | None) -> str:
    return str(doc.doc.get(column, "")) if column else ""


def flags_of(batch: Sequence[DocRequests], result: ScoringResult | None) -> dict[int, set[str]]:
    """What is to be said of each doc: failed, truncated, empty, tied, and `unparsed:<filter>`."""
    flags: dict[int, set[str]] = {doc.doc_id: set() for doc in batch}
    for doc in batch:
        mine = flags[doc.doc_id]
        for instance in doc.instances:
            if instance.failure is not None:
                mine.add("failed")
                continue
            if "length" in instance.stop_reasons:
                mine.add("truncated")
            if instance.request_type == "generate_until" and any(isinstance(r, str) and not r.strip() for r in instance.resps):  # fmt: skip
                mine.add("empty")
            for filter_name, unparsed in instance.unparsed.items():
                if all(unparsed):
                    mine.add(f"unparsed:{filter_name}")
    if result is not None:
        for doc_id in result.metadata.get("tied", ()):
            flags[doc_id].add("tied")
    return flags
