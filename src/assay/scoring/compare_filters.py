"""What two filters of one task disagree about, and what unparsed answers could change."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from assay.scoring.base import ScoringResult


@dataclass(frozen=True)
class Disagreement:
    """Docs to which two filters give different values of one metric."""

    metric: str
    filters: tuple[str, str]
    doc_ids: tuple[int, ...]
    compared: int


def disagreements(result: ScoringResult) -> list[Disagreement]:
    """Every pair of filters that scores the same metric differently on some doc; most docs first."""
    found = []
    filters: dict[str, list[str]] = {}
    for metric, filter_name in result.sample_scores:
        filters.setdefault(metric, []).append(filter_name)
    for metric, names in filters.items():
        for a, b in combinations(names, 2):
            left = dict(zip(result.doc_ids[metric, a], result.sample_scores[metric, a]))
            right = dict(zip(result.doc_ids[metric, b], result.sample_scores[metric, b]))
            both = left.keys() & right.keys()
            apart = tuple(sorted(doc for doc in both if not same(left[doc], right[doc])))
            if apart:
                found.append(Disagreement(metric, (a, b), apart, len(both)))
    return sorted(found, key=lambda each: -len(each.doc_ids))


def same(a: Any, b: Any) -> bool:
    """Equality of values that may be numbers, texts, or tuples with arrays in them (Brier)."""
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(np.array_equal(a, b))


def unparsed_bounds(
    values: Sequence[float], doc_ids: Sequence[int], unparsed: Collection[int]
) -> tuple[float, float] | None:
    """The mean if every unparsed answer were wrong (0), and if every one were right (1).

    >>> unparsed_bounds([1.0, 0.0, 0.0, 1.0], [0, 1, 2, 3], {2})
    (0.5, 0.75)
    """
    if not values:
        return None
    parsed = sum(value for value, doc_id in zip(values, doc_ids) if doc_id not in unparsed)
    lost = sum(1 for doc_id in doc_ids if doc_id in unparsed)
    return parsed / len(values), (parsed + lost) / len(values)
