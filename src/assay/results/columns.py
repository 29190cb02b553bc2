"""One metric under one filter: a value for each doc, and how they become one number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.results.growing import DocIds, Numbers
from assay.results.keys import MetricKey
from assay.stats import Aggregation


class GoldValue(NamedTuple):
    """The value of a doc whose gold answer somebody checked."""

    value: float | None
    """Under the right gold answer; None where the doc has none."""
    weight: float = 1.0
    """How many docs it stands for, beside the others that were checked."""


class Draws(NamedTuple):
    """What the draws of one doc say beyond the value that was made of them."""

    n: int
    right: int | None = None
    """None where draws are graded and not right or wrong."""
    variance: float | None = None
    """Of their mean, as a sample of all draws that there could be; None where the value is not their mean, or one draw says nothing."""


@dataclass(slots=True)
class MetricColumn:
    """Values with the docs they belong to, since a metric may skip docs.

    Numbers take eight bytes each. Values of another kind (the pairs of an f1, the texts of a BLEU) turn
    the whole column into a list.
    """

    key: MetricKey
    aggregation: Aggregation
    higher_is_better: bool | None = None
    doc_ids: DocIds = field(default_factory=DocIds)
    values: Numbers[float] | list[Any] = field(default_factory=lambda: Numbers[float]("d"))
    labels: dict[int, float] | None = None
    """Where the values are verdicts of a judge: what people say of some docs, by doc id. None where no judge was asked."""
    gold: dict[int, GoldValue] | None = None
    """By doc id, for docs whose gold answer was checked."""
    draws: list[Draws] = field(default_factory=list)
    """Of each doc, where docs were drawn repeatedly."""
    _total: float = field(default=0.0, init=False, repr=False, compare=False)
    _summed: int = field(default=0, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.doc_ids)

    @property
    def is_numeric(self) -> bool:
        return isinstance(self.values, Numbers)

    def add(self, doc_id: int, value: Any, draws: Draws | None = None) -> None:
        if self.is_numeric and not isinstance(value, int | float):
            self.values = list(self.values)
        self.doc_ids.append(doc_id)
        self.values.append(value)
        if draws is not None:
            self.draws.append(draws)

    def extend(self, doc_ids: Iterable[int], values: Sequence[Any], draws: Iterable[Draws] = ()) -> None:
        """Many docs at once."""
        if self.is_numeric and not (
            isinstance(values, Numbers) or all(isinstance(value, int | float) for value in values)
        ):
            self.values = list(self.values)
        self.doc_ids.extend(doc_ids)
        self.values.extend(values)
        self.draws.extend(draws)

    def in_doc_order(self) -> MetricColumn:
        """The same column by ascending doc id; itself where it is in order, as it is unless docs were drawn at random."""
        if self.doc_ids.as_range is not None:
            return self
        ids = np.asarray(self.doc_ids)
        if bool(np.all(ids[1:] >= ids[:-1])):
            return self
        order = np.argsort(ids, kind="stable").tolist()
        ordered = MetricColumn(self.key, self.aggregation, self.higher_is_better, labels=self.labels, gold=self.gold)
        has_draws = len(self.draws) == len(self)
        ordered.extend(
            [self.doc_ids[i] for i in order],
            [self.values[i] for i in order],
            [self.draws[i] for i in order] if has_draws else (),
        )
        return ordered

    @property
    def draw_counts(self) -> list[tuple[int, int]] | None:
        """(draws, right draws) of every doc; None where docs were drawn once, or some of them have no count."""
        counts = [(each.n, each.right) for each in self.draws if each.right is not None]
        return counts if counts and len(counts) == len(self) else None

    @property
    def draw_variances(self) -> list[tuple[int, float]] | None:
        """(draws, variance of their mean) of every doc; None unless each value is the mean of two draws or more."""
        known = [(each.n, each.variance) for each in self.draws if each.variance is not None]
        return known if known and len(known) == len(self) else None

    @property
    def mean(self) -> float | None:
        """The mean so far, for progress; None where values are no numbers. Each value is added once, however often asked."""
        if not self.is_numeric or not len(self):
            return None
        self._total += sum(self.values[self._summed :])
        self._summed = len(self)
        return self._total / len(self)


def count_disagreements(columns: Mapping[MetricKey, MetricColumn]) -> dict[str, int]:
    """By metric, the docs that two filters of the task score differently; metrics under one filter are left out.

    A doc is one on which any two filters differ, however many do.
    """
    by_metric: dict[str, list[MetricColumn]] = {}
    for key, column in columns.items():
        by_metric.setdefault(key.metric, []).append(column)
    counts: dict[str, int] = {}
    for metric, same in by_metric.items():
        apart: set[int] = set()
        for left, right in combinations(same, 2):
            apart |= _disagreements(left, right)
        if len(same) > 1:
            counts[metric] = len(apart)
    return counts


def _disagreements(left: MetricColumn, right: MetricColumn) -> set[int]:
    if left.is_numeric and right.is_numeric and left.doc_ids == right.doc_ids:
        differs: NDArray[np.bool_] = np.asarray(left.values) != np.asarray(right.values)
        return set(np.asarray(left.doc_ids)[differs].tolist())
    others = dict(zip(right.doc_ids, right.values))
    return {
        doc_id
        for doc_id, value in zip(left.doc_ids, left.values)
        if doc_id in others and not _same(value, others[doc_id])
    }


def _same(a: Any, b: Any) -> bool:
    """Equality of values that may be numbers, texts, or tuples with arrays in them (Brier)."""
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(np.array_equal(a, b))
