"""Which doc of one run is which doc of the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.comparison.views import Column

_STRIDE = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Alignment:
    """Positions of the same docs in both columns, and what has no partner."""

    a: NDArray[np.int64]
    b: NDArray[np.int64]
    only_a: int
    only_b: int
    differing: int
    """Docs in common whose prompts differ."""
    duplicates: int
    """Docs of A that occur more than once."""

    def __len__(self) -> int:
        return len(self.a)


def align(a: Column, b: Column) -> Alignment:
    """Pair docs by content. Copies of a doc are paired in the order of their prompts, then of their place."""
    keys_a, copies = _distinct(a)
    keys_b, _ = _distinct(b)
    _, at_a, at_b = np.intersect1d(keys_a, keys_b, assume_unique=True, return_indices=True)
    order = np.argsort(at_a, kind="stable")
    at_a, at_b = at_a[order].astype(np.int64), at_b[order].astype(np.int64)
    differing = 0
    if a.requests is not None and b.requests is not None:
        differing = int((a.requests[at_a] != b.requests[at_b]).sum())
    return Alignment(at_a, at_b, len(a) - len(at_a), len(b) - len(at_b), differing, copies)


def _distinct(column: Column) -> tuple[NDArray[np.uint64], int]:
    """Keys made different for the second, third, … copy of a doc."""
    requests = column.requests if column.requests is not None else np.zeros(len(column), dtype=np.uint64)
    order = np.lexsort((np.arange(len(column)), requests, column.docs))
    ordered = column.docs[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, dtype=bool)
    place = np.arange(len(ordered))
    rank = place - np.maximum.accumulate(np.where(first, place, 0)) if len(ordered) else place
    keys = np.empty_like(column.docs)
    keys[order] = ordered + rank.astype(np.uint64) * _STRIDE
    return keys, int((rank == 1).sum())
