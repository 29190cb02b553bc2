"""From the numbers of the children to one: the built-in aggregators and the registry.

An aggregator works on the last axis of an array, so that one call serves a single row of values and a thousand bootstrap
replicates. A `mask` tells which children enter, replicate by replicate; a row it leaves empty, or in which the
aggregator has no value (a harmonic mean with a zero), comes out as NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from assay.config import AggMetricConfig
from assay.groups.members import Floats, Gathered, Mask, Member, Scores, filters_with_metric, gather_numbers
from assay.groups.passk import filters_with_counts, gather_pass_at_k
from assay.registry import Registry
from assay.results import MetricKey

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
    """Whether every child counts, a little more or less, so that no choice among them biases its replicates."""
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
