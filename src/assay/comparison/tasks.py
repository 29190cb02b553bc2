"""The difference of two runs on one task."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.comparison.align import Alignment, align
from assay.comparison.model import Flips, Floats, Options, Part
from assay.comparison.views import Column, RunView
from assay.metrics import AGGREGATIONS, Aggregation
from assay.scoring import estimate
from assay.stats import Difference, Score, cluster_index, paired_difference, replicate_difference, unpaired_difference


@dataclass(frozen=True)
class TaskDifference:
    part: Part
    paired: bool
    only_a: int
    only_b: int
    notes: tuple[str, ...]
    flips: Flips | None


class Incomparable(Exception):
    """Why a task is not compared unless asked for in so many words."""


Alignments = dict[tuple[int, int], Alignment]
"""By the identity of the docs: all metrics of a filter share them, and are aligned once."""


def compare_task(a: Column, b: Column, aggregation: str, options: Options, known: Alignments) -> TaskDifference:
    """One metric of one task. Raises `Incomparable` where a pairing would not mean anything."""
    notes: list[str] = []
    a, b = _scored(a, "A", notes), _scored(b, "B", notes)
    pairs = known.get((id(a.docs), id(b.docs))) or align(a, b)
    if not notes:
        known[id(a.docs), id(b.docs)] = pairs
    if pairs.differing and not options.ignore_prompts:
        if not options.unpaired:
            raise Incomparable(f"prompts differ on {pairs.differing:,} of {len(pairs):,} docs in common")
        notes.append(f"unpaired: prompts differ on {pairs.differing:,} docs")
        return _unpaired(a, b, aggregation, options, notes)
    if len(pairs) == 0:
        if not options.unpaired:
            raise Incomparable("no doc in common")
        notes.append("unpaired: no doc in common")
        return _unpaired(a, b, aggregation, options, notes)
    if pairs.differing:
        notes.append(f"prompts differ on {pairs.differing:,} docs")
    if pairs.duplicates:
        notes.append(f"{pairs.duplicates:,} docs occur more than once")
    if len(pairs) == 1:
        notes.append("one doc in common")
    return _paired(a.take(pairs.a), b.take(pairs.b), pairs, aggregation, options, notes)


def _scored(column: Column, side: str, notes: list[str]) -> Column:
    """Only docs that have a value; NaN and None are counted and left out."""
    present = (
        ~np.isnan(column.values) if column.numeric else np.array([v is not None for v in column.values], dtype=bool)
    )
    if present.all():
        return column
    notes.append(f"{int((~present).sum()):,} docs of {side} have no score")
    return column.take(np.flatnonzero(present))


def _paired(
    a: Column, b: Column, pairs: Alignment, aggregation: str, options: Options, notes: list[str]
) -> TaskDifference:
    clusters = a.clusters if a.clusters is not None else b.clusters
    if aggregation == "mean" and a.numeric and b.numeric:
        difference = paired_difference(a.values, b.values, clusters, keys=a.docs, replicates=options.replicates)
        draws = _draws(a, b, AGGREGATIONS["mean"], options)
    else:
        difference, draws = _by_replicates(a, b, AGGREGATIONS[aggregation], clusters, options)
    flips = None
    if difference.gained is not None:
        up, down = np.flatnonzero(b.values > a.values), np.flatnonzero(b.values < a.values)
        flips = Flips(_ids(a, b, up), _ids(a, b, down))
    part = Part(difference, len(a), a.docs, draws)
    return TaskDifference(part, True, pairs.only_a, pairs.only_b, tuple(notes), flips)


def _ids(a: Column, b: Column, at: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.column_stack([a.doc_ids[at], b.doc_ids[at]])


def _by_replicates(
    a: Column, b: Column, aggregation: Aggregation, clusters: NDArray[Any] | None, options: Options
) -> tuple[Difference, Callable[[], tuple[Floats, Floats]]]:
    left, right = _score(a, aggregation, options), _score(b, aggregation, options)
    units = None if clusters is None else int(cluster_index(clusters).max()) + 1
    values = left.estimate.value, right.estimate.value
    if values[0] is None or values[1] is None:
        return unpaired_difference(left.estimate, right.estimate), lambda: (left.draws, right.draws)
    difference = replicate_difference(values[0], values[1], left.draws, right.draws, len(a), units=units)
    return difference, lambda: (left.draws, right.draws)


def _unpaired(a: Column, b: Column, aggregation: str, options: Options, notes: list[str]) -> TaskDifference:
    rule = AGGREGATIONS[aggregation]
    left, right = _score(a, rule, options), _score(b, rule, options)
    difference = unpaired_difference(left.estimate, right.estimate)
    docs = np.concatenate([a.docs, b.docs])
    part = Part(difference, len(b), docs, lambda: (left.draws, right.draws))
    return TaskDifference(part, False, len(a), len(b), tuple(notes), None)


def _draws(a: Column, b: Column, aggregation: Aggregation, options: Options) -> Callable[[], tuple[Floats, Floats]]:
    return lambda: (_score(a, aggregation, options).draws, _score(b, aggregation, options).draws)


def _score(column: Column, aggregation: Aggregation, options: Options) -> Score:
    return estimate(column.values.tolist(), aggregation, column.docs, column.clusters, options.replicates)


def aggregation_for(run: RunView, task: str, key: str, column: Column) -> str | None:
    """The aggregation of a metric, if with it the docs give the number that the run reports; None if nothing known does.

    A task may aggregate by code of its own, of which the results say no more than its name.
    """
    said = run.aggregations.get(task, {}).get(key.partition(",")[0], "mean")
    reported = run.reported.get(task, {}).get(key)
    # With a control run the reported number is not the mean of these docs, but an estimate of that of all docs.
    value = None if reported is None or reported.method == "control variate" else reported.value
    for name in dict.fromkeys([said, "mean"]):
        if name in AGGREGATIONS and _reproduces(name, column, value):
            return name
    return None


def _reproduces(name: str, column: Column, reported: float | None) -> bool:
    if name == "mean" and not column.numeric:
        return False
    if reported is None or name != "mean":
        return True
    values = column.values[~np.isnan(column.values)]
    if len(values) == 0 or not math.isfinite(reported):
        return True
    return bool(np.isclose(values.mean(), reported, rtol=1e-6, atol=1e-9))
