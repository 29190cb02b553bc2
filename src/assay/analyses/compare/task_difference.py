"""The difference of two runs on one task: which doc of one is which doc of the other, and how their scores differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.analyses.compare.model import CompareOptions, Flips, Floats, GoldPair, MemberDifference, NotComparable
from assay.finished import Alignment, DocColumn, Keys, Run, align
from assay.groups import PASS_AT, pass_at_k
from assay.metrics import AGGREGATIONS, Aggregation
from assay.results import MetricKey, Score
from assay.scoring import estimate
from assay.stats import (
    FEWEST_LABELS,
    Basis,
    Difference,
    Estimate,
    GoldChecked,
    Judged,
    corrected_difference,
    corrected_replicates,
    influence_difference,
    influence_of,
    paired_difference,
    replicate_difference,
    unit_index,
    unit_keys,
    unpaired_difference,
)


@dataclass(frozen=True)
class TaskDifference:
    member: MemberDifference
    paired: bool
    only_a: int = 0
    only_b: int = 0
    notes: tuple[str, ...] = ()
    flips: Flips | None = None


Alignments = dict[tuple[int, int], Alignment]
"""By the identity of the docs: all metrics of a filter share them, and are aligned once."""


def _why_unpaired(pairs: Alignment, options: CompareOptions) -> str | None:
    """What makes a pairing meaningless. Raises unless the scores may be compared as of different docs."""
    if pairs.differing and not options.ignore_prompts:
        if not options.unpaired:
            raise NotComparable(f"prompts differ on {pairs.differing:,} of {len(pairs):,} docs in common")
        return f"prompts differ on {pairs.differing:,} docs"
    if len(pairs) == 0:
        if not options.unpaired:
            raise NotComparable("no doc in common")
        return "no doc in common"
    return None


def compare_task(
    a: DocColumn, b: DocColumn, aggregation: str, options: CompareOptions, alignments: Alignments
) -> TaskDifference:
    """One metric of one task. Raises `NotComparable` where a pairing would not mean anything."""
    scored_a, scored_b = a.scored(), b.scored()
    lost = [("A", len(a) - len(scored_a)), ("B", len(b) - len(scored_b))]
    notes = [f"{count:,} docs of {side} have no score" for side, count in lost if count]
    a, b = scored_a, scored_b
    pairs = alignments.get((id(a.docs), id(b.docs))) or align(a, b)
    if not notes:
        alignments[id(a.docs), id(b.docs)] = pairs
    if why := _why_unpaired(pairs, options):
        return _unpaired(a, b, aggregation, options, [*notes, f"unpaired: {why}"])
    if pairs.differing:
        notes.append(f"prompts differ on {pairs.differing:,} docs")
    if pairs.duplicates[0]:
        notes.append(f"{pairs.duplicates[0]:,} docs occur more than once")
    if len(pairs) == 1:
        notes.append("one doc in common")
    a, b = a.take(pairs.shared[0]), b.take(pairs.shared[1])
    difference, draws = _paired(a, b, aggregation, options)
    flips = None
    if difference.gained is not None:
        ids = np.column_stack([a.doc_ids, b.doc_ids])
        flips = Flips(gained=ids[b.values > a.values], lost=ids[b.values < a.values])
    units = _units(a, b)
    moves = partial(_moves, a.values, b.values, units) if _is_plain_mean(a, b, aggregation) else lambda: None
    gold = None
    if aggregation == "mean" and a.is_numeric and b.is_numeric:
        gold = GoldPair(gold_of(a), gold_of(b), units)
    member = MemberDifference(difference, len(a), units, draws, a.docs, gold, moves)
    only_a, only_b = pairs.missing_elsewhere(0), pairs.missing_elsewhere(1)
    return TaskDifference(member, True, only_a, only_b, tuple(notes), flips)


def pass_at_k_column(run: Run, task: str, key: MetricKey, reported: float | None) -> DocColumn | None:
    """Each doc's pass@k, which a group makes of the draws of its tasks: from the shares of right draws, where these give the
    number that the group reports for the task. None where no column of the task does."""
    named, repeats = PASS_AT.fullmatch(key.metric), run.result.tasks[task].config.get("repeats", 1)
    if named is None or not isinstance(repeats, int) or repeats < int(named[1]) or reported is None:
        return None
    for column in run.columns(task).values():
        if column.key.filter != key.filter or not column.is_numeric or len(column.scored()) < len(column):
            continue
        right = column.values * repeats
        if np.abs(right - np.round(right)).max(initial=0.0) > 1e-6 or not ((right >= 0) & (right <= repeats)).all():
            continue
        counts = np.column_stack([np.full(len(right), repeats), np.round(right)]).astype(np.int64)
        chances = pass_at_k(counts, int(named[1]))
        if len(chances) and math.isclose(float(chances.mean()), reported, rel_tol=1e-6, abs_tol=1e-9):
            return replace(column, key=key, values=chances, aggregation="mean")
    return None


def _is_plain_mean(a: DocColumn, b: DocColumn, aggregation: str) -> bool:
    return aggregation == "mean" and a.is_numeric and b.is_numeric and not is_checked(a, b)


def _moves(a: Floats, b: Floats, units: Keys) -> tuple[Floats, Keys]:
    """What each doc adds to the difference of the means; around a mean of its own, a task of n has n − 1 residuals."""
    d, n = b - a, len(a)
    return (d - d.mean()) / n * math.sqrt(n / max(1, n - 1)), units


def _paired(
    a: DocColumn, b: DocColumn, aggregation: str, options: CompareOptions
) -> tuple[Difference, Callable[[], tuple[Floats, Floats]]]:
    """The difference on the same docs in the same order, and the replicates of both sides."""
    clusters = unit_index(_units(a, b))
    if aggregation == "mean" and (missing := one_sided_labels(a, b)):
        nothing = Estimate.bare(float(b.values.mean() - a.values.mean()), len(a), missing)
        sides = float(a.values.mean()), float(b.values.mean())
        return Difference(nothing, *sides, None, "none", None, math.inf, None), lambda: (np.empty(0), np.empty(0))
    if aggregation == "mean" and is_checked(a, b):
        difference = corrected_difference(as_judged(a), as_judged(b), clusters)
        return difference, lambda: (corrected_draws(a, clusters, options), corrected_draws(b, clusters, options))
    if aggregation == "mean" and a.is_numeric and b.is_numeric:
        difference = paired_difference(a.values, b.values, clusters)
        return difference, lambda: (
            aggregated(a, aggregation, options).draws,
            aggregated(b, aggregation, options).draws,
        )
    left, right = aggregated(a, aggregation, options), aggregated(b, aggregation, options)
    value_a, value_b = left.estimate.value, right.estimate.value
    if value_a is None or value_b is None:
        difference = unpaired_difference(left.estimate, right.estimate)
    else:
        difference = _of_other_numbers(a, b, left, right, AGGREGATIONS[aggregation], clusters)
    return difference, lambda: (left.draws, right.draws)


def _units(a: DocColumn, b: DocColumn) -> Keys:
    """Docs of a cluster, and docs of equal content, stand together."""
    return unit_keys(a.docs, a.clusters if a.clusters is not None else b.clusters)


def _of_other_numbers(
    a: DocColumn,
    b: DocColumn,
    left: Score,
    right: Score,
    rule: Aggregation,
    clusters: NDArray[np.int64] | None,
) -> Difference:
    """Functions of sums by each doc's part in them; a median, which is none, by its replicates."""
    value_a, value_b = left.estimate.value, right.estimate.value
    assert value_a is not None
    assert value_b is not None
    finish, parts = rule.finish, []
    for column in (a, b):
        table = None if rule.statistics is None else rule.statistics(column.values.tolist())
        if table is not None and finish is not None and np.isfinite(table).all():
            parts.append(influence_of(np.asarray(table, dtype=np.float64), finish))
    if len(parts) == 2 and np.isfinite(parts).all() and np.abs(parts[1] - parts[0]).max() > 0:
        lost = max(float(np.abs(part).max()) for part in parts)
        return influence_difference(value_a, value_b, parts[1] - parts[0], clusters, lost=lost, test="paired delta")
    units = None if clusters is None else int(clusters.max()) + 1
    return replicate_difference(value_a, value_b, left.draws, right.draws, len(a), units=units)


def gold_of(column: DocColumn) -> GoldChecked:
    """The docs' published values, with those under the right gold answers where there are any."""
    unchecked = GoldChecked(column.values, np.full(len(column), np.nan), np.zeros(len(column)))
    return unchecked if column.gold is None else column.gold


def is_checked(*columns: DocColumn) -> bool:
    """Whether people judged some of the docs of either run, so that the judge's error is known there."""
    return all(column.is_numeric for column in columns) and any(as_judged(column).n for column in columns)


def one_sided_labels(a: DocColumn, b: DocColumn) -> str | None:
    """What is missing where people judged one run alone: its number is theirs, the other's is the judge's opinion."""
    if not is_checked(a, b):
        return None
    judged = [as_judged(column) for column in (a, b)]
    if all(each.n for each in judged):
        return None
    have, lack = ("A", "B") if judged[0].n else ("B", "A")
    given = 0 if (labels := (b if lack == "B" else a).labels) is None else int((~np.isnan(labels)).sum())
    return (
        f"{have} has people's labels and {lack} has {given or 'none'}: label at least {FEWEST_LABELS} docs of {lack} (assay judge "
        "label); the numbers are the judge's alone"
    )


def as_judged(column: DocColumn) -> Judged:
    """With too few labels a run stands as its judge sees it, as in its own results."""
    unlabelled = np.full(len(column), np.nan)
    labels = unlabelled if column.labels is None else column.labels
    return Judged(column.values, labels if Judged(column.values, labels).n >= FEWEST_LABELS else unlabelled)


def corrected_draws(column: DocColumn, clusters: NDArray[Any] | None, options: CompareOptions) -> Floats:
    judged = as_judged(column)
    if not judged.n:
        return aggregated(column, "mean", options).draws
    return corrected_replicates(judged.verdicts, judged.labels, column.docs, clusters, options.bootstrap_iters)()


def _unpaired(
    a: DocColumn, b: DocColumn, aggregation: str, options: CompareOptions, notes: list[str]
) -> TaskDifference:
    left, right = aggregated(a, aggregation, options), aggregated(b, aggregation, options)
    if aggregation == "mean" and is_checked(a, b):
        notes.append("unpaired: does not include the judge's error")
    difference = unpaired_difference(left.estimate, right.estimate)
    docs = np.concatenate([a.docs, b.docs])
    member = MemberDifference(difference, len(b), docs, lambda: (left.draws, right.draws))
    return TaskDifference(member, False, len(a), len(b), tuple(notes))


def aggregated(column: DocColumn, aggregation: str, options: CompareOptions) -> Score:
    rule = AGGREGATIONS[aggregation]
    return estimate(column.values.tolist(), rule, column.docs, column.clusters, options.bootstrap_iters)


def repeatable_aggregation(column: DocColumn, reported: Score | None) -> str | None:
    """The aggregation with which the docs' values give the number that the run reports; None if it is none we have.

    A task may aggregate by code of its own, of which the results say no more than its name.
    """
    # With a control run the reported number is not the mean of these docs, but an estimate of that of all docs.
    # Nor is it where labels corrected a judge.
    by_control = reported is not None and reported.estimate.basis in (Basis.CONTROL, Basis.LABELS)
    value = None if reported is None or by_control else reported.estimate.value
    for name in dict.fromkeys([column.aggregation, "mean"]):
        if name in AGGREGATIONS and (name != "mean" or _has_mean(column, value)):
            return name
    return None


def _has_mean(column: DocColumn, reported: float | None) -> bool:
    if not column.is_numeric:
        return False
    values = column.scored().values
    if reported is None or len(values) == 0 or not math.isfinite(reported):
        return True
    return bool(np.isclose(values.mean(), reported, rtol=1e-6, atol=1e-9))
