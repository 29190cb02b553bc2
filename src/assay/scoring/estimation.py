"""An estimate for every number: closed forms where there is a formula, the content-hashed bootstrap for the rest."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.config import what_failed
from assay.errors import AssayError, ScoringError
from assay.metrics import AGGREGATIONS, Aggregation, is_right_or_wrong
from assay.results import Chance, Numbers, Score
from assay.stats import (
    B_DEFAULT,
    DocEvidence,
    Estimate,
    bootstrap_replicates,
    bootstrap_values,
    ends,
    estimate_from_docs,
    mean_stderr,
    poisson_weights,
    unit_index,
    unit_keys,
)

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]
Clusters = Sequence[Any] | NDArray[Any] | None

REPEATED_MOST = 200
"""Replicates of aggregations that are code of the task: each calls it again on as many items as there are docs."""
RESAMPLED_MOST = 50_000
"""Docs up to which lm-evaluation-harness's resamples of translation metrics are repeated."""


def estimate(
    values: Sequence[Any],
    aggregation: Aggregation,
    doc_keys: Keys,
    clusters: Clusters = None,
    bootstrap_iters: int = B_DEFAULT,
    *,
    higher_is_better: bool | None = True,
    counts: Sequence[tuple[int, int]] | None = None,
    drawn_once: bool = True,
) -> Score:
    """The aggregation of the docs' values, with its standard error and interval.

    `counts` are the (draws, right draws) of each doc where docs were drawn repeatedly. Without them a value of 0 or 1 is
    a count only where docs were `drawn_once`: of ten draws it may say that one of them was right, or that all were.
    `bootstrap_iters` 0 turns error bars off.
    """
    n = len(values)
    if n != len(doc_keys):
        raise ValueError(f"{n} values for {len(doc_keys)} docs")
    reason = undefined_reason(values)
    if reason is not None:
        return Score(Estimate.missing(reason, n), n, aggregation.name, higher_is_better)
    value = aggregate(values, aggregation)
    if value is None or math.isnan(value):
        why = f"the aggregation {aggregation.name} returned {'nothing' if value is None else 'NaN'}"
        return Score(replace(Estimate.missing(why, n), value=value), n, aggregation.name, higher_is_better)
    table = _statistics(values, aggregation)
    units = unit_keys(doc_keys, clusters)
    index = unit_index(units)
    draws = _draws(values, aggregation, table, units, bootstrap_iters)
    withheld = _why_withheld(value, n, aggregation, bootstrap_iters)
    evidence = _evidence(value, values, aggregation, table, index, bootstrap_iters, draws)

    def at_level(level: float) -> Estimate:
        if withheld is not None:
            return Estimate.bare(value, n, withheld)
        return estimate_from_docs(evidence, level, method=aggregation.interval)

    at_95 = at_level(0.95)
    # Of other aggregations only all docs together have a number.
    per_doc = table[:, 0] if aggregation.name == "mean" and table is not None else None
    theirs = (
        None if at_95.stderr is None else _lm_eval_stderr(values, aggregation, table, clusters, index, bootstrap_iters)
    )
    return Score(
        at_95,
        n,
        aggregation.name,
        higher_is_better,
        lm_eval_stderr=theirs,
        replicates=draws if bootstrap_iters else lambda: np.empty(0),
        counts=_counts(values, counts, drawn_once=drawn_once),
        samples=None if per_doc is None else lambda: (per_doc, units),
        keys=lambda: units,
        documents=lambda: doc_keys,
        interval=lambda level: ends(at_level(level)),
    )


def stderr_for_metric(
    metric: Aggregation | str | Callable[[Sequence[Any]], Any], bootstrap_iters: int = B_DEFAULT
) -> Callable[[Sequence[Any]], float | None] | None:
    """The function that computes the standard error of `metric(values)` as a run does; None if error bars are off.

    Docs count as different ones. A run knows them, and draws docs of equal content together.
    """
    if bootstrap_iters <= 0:
        return None
    if isinstance(metric, str):
        aggregation = AGGREGATIONS[metric]
    elif isinstance(metric, Aggregation):
        aggregation = metric
    else:
        ours = (AGGREGATIONS[name] for name in AGGREGATIONS)
        aggregation = next((each for each in ours if each.fn is metric), Aggregation("function", metric))

    def stderr(values: Sequence[Any]) -> float | None:
        keys = np.arange(len(values), dtype=np.uint64)
        return estimate(list(values), aggregation, keys, bootstrap_iters=bootstrap_iters).estimate.stderr

    return stderr


def undefined_reason(values: Sequence[Any]) -> str | None:
    """Why there is no number: no docs, or docs whose value a reducer could not give."""
    if len(values) == 0:
        return "no docs"
    without = sum(value is None for value in values)
    if 0 < without < len(values):
        return f"{without} of {len(values)} docs have no value, for example because a reducer needs more draws"
    return None


def aggregate(values: Sequence[Any], aggregation: Aggregation) -> float | None:
    """The aggregation's number as a float; a failure is an error that names the aggregation."""
    if aggregation.name != "bypass" and all(value is None for value in values):
        return None
    try:
        # Those without statistics may be anybody's code, which is written for a list.
        value = aggregation.fn(list(values) if aggregation.statistics is None else values)
    except AssayError as error:
        raise ScoringError(f"aggregation {aggregation.name}: {error.message}", hint=error.hint) from error
    except Exception as error:  # an aggregation may be anybody's code
        odd = next((at for at, each in enumerate(values) if not isinstance(each, (int, float, np.number))), 0)
        said, correct = what_failed(error)
        correct = correct or "The metric and the aggregation may not belong together."
        raise ScoringError(
            f"aggregation {aggregation.name} of {len(values)} values: {said}",
            hint=f"Value {odd + 1} is {values[odd]!r:.120}. {correct}",
        ) from error
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ScoringError(f"aggregation {aggregation.name} gave {str(value)[:120]}, which is not a number") from None


def _statistics(values: Sequence[Any], aggregation: Aggregation) -> Floats | None:
    """A row per doc, or None where the values are not what the aggregation's statistics are for."""
    rows = None if aggregation.statistics is None else aggregation.statistics(values)
    if rows is None:
        return None
    table = np.asarray(rows, dtype=np.float64)
    return table if np.isfinite(table).all() else None


def _floats(values: Sequence[Any]) -> Sequence[float]:
    return values if isinstance(values, Numbers) else [float(value) for value in values]


def _evidence(
    value: float,
    values: Sequence[Any],
    aggregation: Aggregation,
    table: Floats | None,
    index: NDArray[np.int64] | None,
    bootstrap_iters: int,
    draws: Callable[[], Floats],
) -> DocEvidence:
    """What interval methods are given of a number."""
    is_mean = aggregation.name == "mean" and table is not None
    ratio = transform = formula = None
    if is_mean:
        values = _floats(values)
        array = np.asarray(values, dtype=np.float64)
        ratio = (array, np.broadcast_to(1.0, len(array)))
    elif aggregation.transform is not None and table is not None:
        ratio, transform = (table[:, 0], table[:, 1]), aggregation.transform
    if aggregation.estimate is not None and table is not None:
        formula = partial(aggregation.estimate, value, table, index)
    return DocEvidence(value, len(values), index, ratio, transform, formula, draws, bootstrap_iters, values, is_mean)


def _why_withheld(value: float, n: int, aggregation: Aggregation, bootstrap_iters: int) -> str | None:
    """Why no method at all can give an interval."""
    if not bootstrap_iters:
        return "error bars are turned off"
    if n == 1:
        return "one doc"
    if not math.isfinite(value):
        return "the number is infinite"
    return "nothing was scored" if aggregation.name == "bypass" else None


def _lm_eval_stderr(
    values: Sequence[Any],
    aggregation: Aggregation,
    table: Floats | None,
    clusters: Clusters,
    index: NDArray[np.int64] | None,
    bootstrap_iters: int,
) -> float | None:
    """What lm-evaluation-harness gives for its task files, where it is another number than ours: it knows neither
    clusters nor docs of equal content. A task that names its clusters is no file of its."""
    if clusters is not None or table is None:
        return None
    if aggregation.resamples and len(table) <= RESAMPLED_MOST:
        return resampled_stderr(table, aggregation, min(aggregation.resamples, bootstrap_iters))
    if aggregation.name == "mean" and index is not None:
        return mean_stderr(_floats(values))
    return None


def resampled_stderr(table: Floats, aggregation: Aggregation, times: int) -> float | None:
    """lm-evaluation-harness's own standard error of BLEU, chrF and TER, from the very docs that it would draw.

    It allows them 100 resamples, too few for two harnesses to agree by chance: where almost nothing matches, two such
    numbers differ by half. So that files can be compared, the draws are made as it makes them. The interval is not
    taken from them.
    """
    assert aggregation.finish is not None
    if times < 2:
        return None
    draw, docs = random.Random(0).choices, range(len(table))
    replicates = [float(aggregation.finish(table[draw(docs, k=len(table))].sum(axis=0))) for _ in range(times)]
    return float(np.std(replicates, ddof=1))


def _draws(
    values: Sequence[Any],
    aggregation: Aggregation,
    table: Floats | None,
    units: Keys,
    iterations: int,
) -> Callable[[], Floats]:
    """The replicates, computed when first needed, once."""
    computed: list[Floats] = []

    def compute() -> Floats:
        if len(values) < 2 or aggregation.name == "bypass":
            return np.empty(0)
        if table is not None and aggregation.finish is not None:
            return bootstrap_replicates(table, aggregation.finish, units, B=iterations)
        if aggregation.replicate is not None:
            return bootstrap_values(values, aggregation.replicate, units, B=iterations)
        return repeated(values, aggregation, units, iterations)

    def once() -> Floats:
        if not computed:
            computed.append(compute())
        return computed[0]

    return once


def repeated(values: Sequence[Any], aggregation: Aggregation, keys: Keys, iterations: int) -> Floats:
    """Replicates of an aggregation that is just a function: each item as often as its weight says.

    A fixed number, so that the error bar does not depend on the machine. A draw for which the function fails (a class that
    is missing) is undefined, not an error.
    """
    numbers = []
    most = min(iterations, REPEATED_MOST)
    for b in range(0, most, 4):
        for weights in poisson_weights(keys, (b, min(b + 4, most))):
            items = [value for value, times in zip(values, weights.tolist()) for _ in range(times)]
            numbers.append(quietly(aggregation, items))
    return np.asarray(numbers, dtype=np.float64)


def quietly(aggregation: Aggregation, items: list[Any]) -> float:
    """The number, without what task code prints; NaN where some of the docs have none."""
    import contextlib
    import io
    import warnings

    # Task code prints and warns, once per call; two hundred copies help nobody.
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            value = aggregation.fn(items)
            return math.nan if value is None else float(value)
        except Exception:  # a resample may lack what the function needs, one of two classes say: it has no value then
            return math.nan


def _counts(
    values: Sequence[Any], counts: Sequence[tuple[int, int]] | None, *, drawn_once: bool
) -> Callable[[], NDArray[np.int64]] | None:
    """(draws, right draws) per doc; a doc drawn once with a value of 0 or 1 is its own count."""
    if counts is not None:
        return partial(np.asarray, counts, dtype=np.int64)
    if drawn_once and all(is_right_or_wrong(value) for value in values):
        return lambda: np.asarray([(1, int(value)) for value in values], dtype=np.int64)
    return None


def chance_test(score: Score, choice_counts: Mapping[int, int], *, tests: int = 1, alpha: float = 0.05) -> Chance:
    """Whether an accuracy lies above that of guessing, below it, or within 0.05 of it, by the score's own interval.

    `choice_counts` says how many docs have how many choices; docs may differ. Over `tests` tasks together, guessing is
    called above or below with a probability of at most `alpha`, and so is what differs by more than the margin called
    within it (two one-sided tests). Where guessing gets less than 0.1, the margin is half of that.
    """
    docs = sum(choice_counts.values())
    guessing = sum(count / choices for choices, count in choice_counts.items()) / docs
    margin = min(CHANCE_MARGIN, guessing / 2)
    outer, inner = score.bounds(1 - alpha / tests), score.bounds(1 - 2 * alpha / tests)
    if outer is None or inner is None:
        return Chance(guessing, "nothing", margin, tests)
    if outer[0] > guessing:
        return Chance(guessing, "above", margin, tests)
    if outer[1] < guessing:
        return Chance(guessing, "below", margin, tests)
    within = guessing - margin <= inner[0] and inner[1] <= guessing + margin
    return Chance(guessing, "equal" if within else "nothing", margin, tests)


CHANCE_MARGIN = 0.05
