"""Scores of one task as they come in: numbers and hashes only, so that memory does not grow with the text."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.instance import Instance
from assay.run.samples import SampleRow, SampleWriter, pack_arguments, to_json
from assay.tasks import DocRequests, Task

ScoreKey = tuple[str, str]
"""(metric, filter)."""


@dataclass
class Column:
    """Values of one metric under one filter, with the docs they belong to (a metric may skip docs)."""

    doc_ids: array[int] = field(default_factory=lambda: array("q"))
    values: Any = field(default_factory=lambda: array("d"))

    def add(self, doc_id: int, value: Any) -> None:
        self.doc_ids.append(doc_id)
        if isinstance(self.values, array) and not isinstance(value, int | float):
            self.values = self.values.tolist()
        self.values.append(value)

    def in_doc_order(self) -> tuple[list[int], list[Any]]:
        order = sorted(range(len(self.doc_ids)), key=self.doc_ids.__getitem__)
        return [self.doc_ids[i] for i in order], [self.values[i] for i in order]


class Accumulator:
    """Collects one task's scores, health and samples."""

    def __init__(self, task: Task, writer: SampleWriter | None) -> None:
        self.task, self.writer = task, writer
        self.columns: dict[ScoreKey, Column] = {}
        self.keys: dict[int, int] = {}
        self.clusters: dict[int, str] = {}
        self.health: Counter[str] = Counter()
        self.docs = 0
        self.hash_of_hashes = 0
        self._waiting: list[DocRequests] = []

    @property
    def scores_in_parts(self) -> bool:
        """Filters from task files may look at all responses of the task at once, so they get all of them at once."""
        return self.task.filters_are_local

    def add(self, batch: Sequence[DocRequests]) -> None:
        """Score a batch of answered docs, in doc order, or keep it until `finish`."""
        if self.scores_in_parts:
            self._score(batch)
        else:
            self._waiting.extend(batch)

    def finish(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._score(waiting)
        if self.writer is not None:
            self.writer.close()

    def _score(self, batch: Sequence[DocRequests]) -> None:
        failed = [doc for doc in batch if any(i.failure for i in doc.instances)]
        scored = [doc for doc in batch if not any(i.failure for i in doc.instances)]
        self.docs += len(batch)
        for doc in batch:
            self._note(doc)
        for doc in failed:
            self.health["failed"] += 1
            self._write_failed(doc)
        if scored:
            result = self.task.score({doc.doc_id: doc.instances for doc in scored})
            self._take(result)
            self._write(scored, result)
