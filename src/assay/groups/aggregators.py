"""From the numbers of the children to one: the built-in aggregators and the registry.

An aggregator works on the last axis of an array, so that one call serves a single row of values and a thousand bootstrap
replicates. A `mask` tells which children enter, replicate by replicate; a row it leaves empty, or in which the
aggregator has no value (a harmonic mean with a zero), comes out as NaN.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from assay.config import AggMetricConfig
from assay.errors import ConfigError
from assay.groups.members import Floats, Gathered, Mask, Member, Scores, filters_with_metric, gather_numbers
from assay.registry import Registry
from assay.results import MetricKey, Score
from assay.stats import bootstrap_replicates, doc_keys, ends, mean_estimate

Combine: TypeAlias = Callable[[Floats, Floats, Mask | None], Floats]
"""(values [..., k], weights [k], mask [..., k] or None) → [...]"""


def _unbound(values: Floats, weights: Floats, mask: Mask | None) -> Floats:
    raise AssertionError("this aggregator is bound to its children before it is called")


@dataclass(frozen=True)
class ArrayAggregator:
    """An aggregator as runs use it: one metric under one filter, with the children in an array."""

    name: str
    combine: Combine = _unbound
    bind: Callable[[Sequence[Member], MetricKey], Combine] | None = None
    """For code that must know whose numbers it gets, and under which filter: makes `combine` for these children."""
    linear: bool = False
    """Whether the closed forms of errors apply."""
    extreme: Callable[..., float] | None = None
    """`min` or `max` where the number is that of one child."""
    monotone: bool = False
    """Whether the number never falls when a child rises (of weighted ones: where weights are equal, or all enter)."""
    smooth: bool = False
    """Whether every child always counts. Where some are chosen (the best k), the choice biases replicates."""
    weighted: bool = False
    """Whether weights change the number."""
    by_size: bool = False
    """Whether children count by size unless an entry says otherwise."""
    needs_weights: bool = False
    on_samples: bool = False
    """Whether it reads the children's docs, so that their numbers alone do not determine its own."""
    kwargs: tuple[str, ...] = ()
    """The arguments it takes from an entry."""
    filters: Callable[[AggMetricConfig, Sequence[str], Scores], list[str]] = filters_with_metric
    """The filters for which an entry has a number."""
    gather: Callable[[AggMetricConfig, MetricKey, Sequence[str], Scores], Gathered] = gather_numbers
    """What it takes from each child."""
    why_undefined: Callable[[Floats, Sequence[str]], str | None] = lambda values, names: None

    def bound_to(self, members: Sequence[Member], key: MetricKey) -> ArrayAggregator:
        return self if self.bind is None else replace(self, combine=self.bind(members, key))


# Means


def _shares(weights: Floats, mask: Mask | None) -> Floats:
    """Weights brought to sum 1 over those that enter."""
    entering = weights if mask is None else np.where(mask, weights, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(entering / entering.sum(axis=-1, keepdims=True))


def _dot(values: Floats, shares: Floats) -> Floats:
    if shares.ndim == 1:
        return np.asarray(values @ shares)
    return np.asarray(np.einsum("...k,...k->...", values, shares))


def mean(values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
    if values.ndim == 1 and mask is None and weights.sum() > 0:
        # Added up one after the other, as lm-evaluation-harness does it: the same number to the last digit.
        return np.asarray(sum((values * weights).tolist()) / sum(weights.tolist()))
    return _dot(values, _shares(weights, mask))


def harmonic_mean(values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        result = 1.0 / _dot(_neutral(1.0 / values, mask), _shares(weights, mask))
    return _nan_unless_positive(result, values, mask)


def geometric_mean(values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        result = np.exp(_dot(_neutral(np.log(values), mask), _shares(weights, mask)))
    return _nan_unless_positive(result, values, mask)


def _neutral(values: Floats, mask: Mask | None) -> Floats:
    """Left-out children have weight 0, but 0 · inf is NaN; give them a finite value."""
    return values if mask is None else np.where(mask, values, 0.0)


def _nan_unless_positive(result: Floats, values: Floats, mask: Mask | None) -> Floats:
    bad = values <= 0 if mask is None else (values <= 0) & mask
    return np.where(bad.any(axis=-1), np.nan, result)


def _needs_positive(kind: str) -> Callable[[Floats, Sequence[str]], str | None]:
    def why(values: Floats, names: Sequence[str]) -> str | None:
        bad = [f"{name} is {value:g}" for name, value in zip(names, values) if value <= 0]
        return f"the {kind} mean needs values above zero, but {', '.join(bad[:3])}" if bad else None

    return why


# Order statistics


def median(values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
    if mask is None:
        lower, upper = (values.shape[-1] - 1) // 2, values.shape[-1] // 2
        ordered = np.partition(values, sorted({lower, upper}), axis=-1)
        middle = (ordered[..., lower] + ordered[..., upper]) / 2
        return np.where(np.isnan(values).any(axis=-1), np.nan, middle)
    # NaN sorts to the end, so the middle of the first m sorted values is the median of those that enter.
    ordered = np.sort(np.where(mask, values, np.nan), axis=-1)
    m = mask.sum(axis=-1)
    above = np.take_along_axis(ordered, np.expand_dims(np.minimum(m // 2, ordered.shape[-1] - 1), -1), axis=-1)
    below = np.take_along_axis(ordered, np.expand_dims(np.maximum((m - 1) // 2, 0), -1), axis=-1)
    return np.asarray((below + above)[..., 0] / 2)


def minimum(values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
    return _extreme(np.min, values, mask, np.inf)


def maximum(values: Floats, weights: Floats, mask: Mask | None = None) -> Floats:
    return _extreme(np.max, values, mask, -np.inf)


def _extreme(pick: Callable[..., Any], values: Floats, mask: Mask | None, outside: float) -> Floats:
    if mask is None:
        return np.asarray(pick(values, axis=-1))
    extreme = pick(np.where(mask, values, outside), axis=-1)
    return np.where(mask.any(axis=-1), extreme, np.nan)


# pass@k, from the counts of each problem: n draws, c of them right. With n draws, 1 − C(n−c, k) / C(n, k) is the unbiased
# estimate of the chance that at least one of k draws is right (Chen et al. 2021). The group's number is the mean over the
# problems of all its tasks, so tasks count by size.

PASS_AT = re.compile(r"pass@(\d+)")


def pass_at_k(counts: NDArray[np.int64], k: int) -> Floats:
    """For each problem, the probability that at least one of k draws is right.

    >>> pass_at_k(np.array([[10, 3], [10, 0], [10, 8]]), 5).round(4).tolist()
    [0.9167, 0.0, 1.0]
    """
    pairs, inverse = np.unique(np.asarray(counts, dtype=np.int64), axis=0, return_inverse=True)
    chances = [1.0 - math.comb(int(n - c), k) / math.comb(int(n), k) for n, c in pairs]
    return np.asarray(chances, dtype=np.float64)[inverse.reshape(-1)]


def k_of(entry: AggMetricConfig) -> int:
    """`kwargs: {k: 10}`, else the number in the metric's name (`pass@10`), else 1."""
    named = PASS_AT.fullmatch(entry.metric)
    k = entry.kwargs.get("k", int(named[1]) if named else 1)
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise ConfigError(f"metric {entry.metric!r}: pass@k with k = {k!r}", hint="k must be a whole number from 1 up.")
    if named and int(named[1]) != k:
        raise ConfigError(
            f"metric {entry.metric!r}: pass@k with k = {k}", hint=f"Name it pass@{k}, or write k: {named[1]}."
        )
    return k


def counted_metric(entry: AggMetricConfig) -> str | None:
    """The metric whose right draws an entry names: by `of`, or by being called after it. None: the task's own is meant."""
    of = entry.kwargs.get("of")
    if of is not None:
        return str(of)
    return None if PASS_AT.fullmatch(entry.metric) else entry.metric


def filters_with_counts(entry: AggMetricConfig, names: Sequence[str], scores: Scores) -> list[str]:
    """pass@10 may be asked of tasks that report only pass@1, so any metric with counts will do."""
    if entry.filter_list is not None:
        return filters_with_metric(entry, names, scores)
    ready, of = f"pass@{k_of(entry)}", counted_metric(entry)
    keys = {key: score for name in names for key, score in scores.get(name, {}).items()}
    named = {key.filter for key in keys if key.metric in (ready, of, entry.metric)}
    return sorted(named or {key.filter for key, score in keys.items() if score.counts is not None})


def gather_pass_at_k(entry: AggMetricConfig, key: MetricKey, names: Sequence[str], scores: Scores) -> Gathered:
    """The children's pass@k: the one that a child reports itself, else made from the counts of what it drew.

    The counts of a task do not depend on k, so pass@10 may be asked of tasks that report only pass@1.
    """
    k, of = k_of(entry), counted_metric(entry)
    members: list[Member] = []
    missing: dict[str, str] = {}
    for name in names:
        if name not in scores:
            missing[name] = "was not scored"
            continue
        own = {other.metric: score for other, score in scores[name].items() if other.filter == key.filter}
        found = _member(name, own, k, of, key.filter)
        if isinstance(found, Member):
            members.append(found)
        else:
            missing[name] = found
    return Gathered(tuple(members), missing)


def _member(name: str, own: Mapping[str, Score], k: int, of: str | None, filter_name: str) -> Member | str:
    """A child with its pass@k, or why it has none."""
    ready = own.get(f"pass@{k}")
    if ready is not None and ready.estimate.value is not None and math.isfinite(ready.estimate.value):
        return Member(name, ready, ready.size, ready.asked or ready.size)
    counted = counted_score(own, of, k)
    if isinstance(counted, str):
        return f"{counted} under filter {filter_name!r}"
    counts = counted.draw_counts
    assert counts is not None
    short = int((counts[:, 0] < k).sum())
    if not len(counts):
        return "has no problems"
    if short:
        return f"has {short} of {len(counts)} problems with fewer than {k} draws"
    return Member(name, pass_at_k_score(counted, counts, k, name), counted.size, counted.asked or counted.size)


def counted_score(own: Mapping[str, Score], of: str | None, k: int) -> Score | str:
    """The score whose right draws are counted, or why there is none.

    A value of 0 or 1 of any other metric is no draw of this one: a program that compiles has not passed its tests.
    """
    counted = {metric: score for metric, score in own.items() if score.counts is not None}
    if of is not None:
        return counted.get(of, f"did not count which draws {of!r} gets right")
    if drawn := [score for metric, score in counted.items() if PASS_AT.fullmatch(metric)]:
        return drawn[0]  # pass@1 and pass@10 of one task count the same draws
    if reported := [metric for metric in own if PASS_AT.fullmatch(metric)]:
        return f"reports {', '.join(reported)} but not pass@{k}, and did not count which draws are right,"
    if len(counted) > 1:
        return f"drew {_either(list(counted))}: name one with kwargs: {{k: {k}, of: {next(iter(counted))}}}"
    return next(iter(counted.values()), "did not count which draws are right")


def require_one_to_count(entry: AggMetricConfig, group: str, task: str, metrics: Sequence[str]) -> None:
    """Refuse an entry that could count the draws of several of a task's `metrics`, which may all be 0 or 1."""
    k, of = k_of(entry), counted_metric(entry)
    if of is None and len(metrics) > 1 and not any(PASS_AT.fullmatch(name) for name in metrics):
        raise ConfigError(
            f"group {group!r}: {entry.metric} of {task!r} could count the right draws of {_either(metrics)}",
            hint=f"Name one: {{metric: {entry.metric}, aggregation: pass@k, kwargs: {{k: {k}, of: {metrics[0]}}}}}.",
        )


def _either(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def pass_at_k_score(counted: Score, counts: NDArray[np.int64], k: int, name: str) -> Score:
    chances = pass_at_k(counts, k)
    known = counted.doc_keys
    keys = known if known is not None else doc_keys(f"{name}:{i}" for i in range(len(chances)))
    shared = len(np.unique(keys)) < len(keys)

    def replicates() -> Floats:
        table = np.column_stack([chances, np.ones(len(chances))])
        return bootstrap_replicates(table, lambda sums: sums[..., 0] / sums[..., 1], keys, B=len(counted.draws))

    at_level = partial(mean_estimate, chances, keys if shared else None)
    return Score(
        at_level(),
        size=counted.size,
        higher_is_better=True,
        replicates=replicates,
        counts=lambda: counts,
        samples=lambda: (chances, keys),
        interval=lambda level: ends(at_level(level=level)),
    )


AGGREGATORS: Registry[ArrayAggregator | Callable[..., Any]] = Registry("aggregator", group="assay.aggregators")
"""By name. What users add is a function or a class: see `functions`."""

for _aggregator in (
    ArrayAggregator("mean", mean, linear=True, monotone=True, weighted=True, by_size=True),
    ArrayAggregator("weighted_mean", mean, linear=True, monotone=True, weighted=True, needs_weights=True),
    ArrayAggregator("median", median, monotone=True),
    ArrayAggregator(
        "harmonic_mean",
        harmonic_mean,
        monotone=True,
        smooth=True,
        weighted=True,
        why_undefined=_needs_positive("harmonic"),
    ),
    ArrayAggregator(
        "geometric_mean",
        geometric_mean,
        monotone=True,
        smooth=True,
        weighted=True,
        why_undefined=_needs_positive("geometric"),
    ),
    ArrayAggregator("min", minimum, monotone=True, extreme=min),
    ArrayAggregator("max", maximum, monotone=True, extreme=max),
    ArrayAggregator(
        "pass@k",
        mean,
        linear=True,
        weighted=True,
        by_size=True,
        kwargs=("k", "of"),
        filters=filters_with_counts,
        gather=gather_pass_at_k,
    ),
):
    AGGREGATORS.add(_aggregator.name, _aggregator)
