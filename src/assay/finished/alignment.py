"""Which doc of one run is which doc of another: columns side by side, by what the docs say and not by where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assay.finished.run import DocColumn, Keys
from assay.stats import unit_keys

_STRIDE = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Alignment:
    """The docs of several columns side by side."""

    columns: tuple[DocColumn, ...]
    places: NDArray[np.int64]
    """[columns, docs]: where each doc is in each column, −1 where it is not."""
    differing: int
    """Docs whose prompts are not the same in all columns that have them."""
    duplicates: tuple[int, ...]
    """By column: docs that occur more than once in it."""

    @cached_property
    def in_all(self) -> NDArray[np.bool_]:
        """Which docs every column has."""
        return np.asarray((self.places >= 0).all(axis=0))

    @cached_property
    def shared(self) -> NDArray[np.int64]:
        """[columns, docs]: the places of the docs that every column has, in the order of the first column."""
        common = self.places[:, self.in_all]
        return common[:, np.argsort(common[0], kind="stable")]

    @cached_property
    def units(self) -> Keys:
        """The unit of each doc: docs of a cluster, and docs of equal content, stand together."""
        docs, clusters = np.zeros((2, self.places.shape[1]), dtype=np.uint64)
        known = np.zeros(len(docs), dtype=bool)
        for column, at in zip(self.columns, self.places, strict=True):
            here = at >= 0
            docs[here] = column.docs[at[here]]
            if column.clusters is not None:
                new = here & ~known
                clusters[new], known[new] = column.clusters[at[new]], True
        return unit_keys(docs, np.where(known, clusters, docs) if known.any() else None)

    def __len__(self) -> int:
        """Docs that every column has."""
        return int(self.in_all.sum())

    def missing_elsewhere(self, column: int) -> int:
        """Docs of a column that another one lacks."""
        return len(self.columns[column]) - len(self)

    def table(self) -> NDArray[np.float64]:
        """Values [columns, docs], NaN where a column lacks the doc."""
        rows = [np.append(column.values, np.nan)[at] for column, at in zip(self.columns, self.places, strict=True)]
        return np.stack(rows)


def align(*columns: DocColumn) -> Alignment:
    """Docs with the same content are one doc. Copies of a doc are paired in the order of their prompts, then of their place."""
    made = [_distinct_keys(column) for column in columns]
    union = np.unique(np.concatenate([keys for keys, _ in made]))
    places = np.full((len(columns), len(union)), -1, dtype=np.int64)
    requests = np.zeros(len(union), dtype=np.uint64)
    known, differs = np.zeros((2, len(union)), dtype=bool)
    for row, (column, (keys, _)) in enumerate(zip(columns, made, strict=True)):
        at = np.searchsorted(union, keys)
        places[row, at] = np.arange(len(column))
        if column.requests is not None:
            differs[at] |= known[at] & (requests[at] != column.requests)
            requests[at], known[at] = column.requests, True
    return Alignment(columns, places, int(differs.sum()), tuple(copies for _, copies in made))


def _distinct_keys(column: DocColumn) -> tuple[Keys, int]:
    """Keys made different for the second, third, … copy of a doc, and how many docs have copies."""
    requests = column.requests if column.requests is not None else np.zeros(len(column), dtype=np.uint64)
    order = np.lexsort((np.arange(len(column)), requests, column.docs))
    ordered = column.docs[order]
    place = np.arange(len(ordered))
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    rank = place - np.maximum.accumulate(np.where(first, place, 0))
    keys = np.empty_like(column.docs)
    keys[order] = ordered + rank.astype(np.uint64) * _STRIDE
    return keys, int((rank == 1).sum())
