"""Docs in a random order, unit by unit: docs of a cluster, and docs of equal content, are asked one after the other."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np

from assay.data import doc_hash
from assay.errors import DataError
from assay.stats import cluster_key, doc_key, is_missing_label, unit_index, unit_keys
from assay.tasks import Task


def units_of(task: Task, doc_ids: Sequence[int]) -> Mapping[int, int] | None:
    """The unit of each doc; None where every doc stands alone."""
    column, wanted = task.config.cluster, set(doc_ids)
    docs = [(doc_id, doc) for doc_id, doc in enumerate(task.eval_docs) if doc_id in wanted]
    keys = np.array([doc_key(doc_hash(doc)) for _, doc in docs], dtype=np.uint64)
    clusters = None
    if column:
        for doc_id, doc in docs:
            require_label(task.task_name, doc_id, column, doc)
        clusters = np.array([cluster_key(column, doc[column]) for _, doc in docs], dtype=np.uint64)
    index = unit_index(unit_keys(keys, clusters))
    return None if index is None else dict(zip((doc_id for doc_id, _ in docs), index.tolist(), strict=True))


def require_label(task: str, doc_id: int, column: str, doc: Mapping[str, object]) -> None:
    """A doc without the label of its cluster would be counted as what it is not."""
    if is_missing_label(doc.get(column)):
        found = repr(doc[column]) if column in doc else "no such field"
        raise DataError(
            f"task {task!r}, doc {doc_id}: `cluster: {column}` finds {found}",
            hint="Every doc needs a cluster label; fill it in with process_docs, or remove `cluster`.",
        )


def draw_units(doc_ids: Sequence[int], units: Mapping[int, int] | None, most: int, seed: str) -> list[int]:
    """At most so many docs, whole units in a random order."""
    generator = random.Random(seed)
    if units is None:
        return generator.sample(doc_ids, most)
    members: dict[int, list[int]] = {}
    for doc_id in doc_ids:
        members.setdefault(units[doc_id], []).append(doc_id)
    drawn: list[int] = []
    for unit in generator.sample(list(members), len(members)):
        if drawn and len(drawn) + len(members[unit]) > most:
            break
        drawn += members[unit]
    return drawn
