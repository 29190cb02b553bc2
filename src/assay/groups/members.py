"""Who enters an aggregate: the members that have the number, those that lack it and why, and whom a group filter keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from assay.config import AggMetricConfig, GroupConfig, GroupFilter
from assay.errors import ConfigError
from assay.results import MetricKey, Score
from assay.stats import all_docs, distinct_docs

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Keys: TypeAlias = NDArray[np.uint64]
Scores: TypeAlias = Mapping[str, Mapping[MetricKey, Score]]


class GroupLike(Protocol):
    """What the numbers of a group depend on. `Group` itself stands above the modules that compute them."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> GroupConfig: ...
    @property
    def aggregate_metric_list(self) -> Sequence[AggMetricConfig] | None: ...
    @property
    def child_names(self) -> list[str]: ...
    @property
    def task_names(self) -> list[str]: ...


@dataclass(frozen=True)
class Member:
    """A child with its number. `size` is what it weighs where children count by size, `sent` the same for
    lm-evaluation-harness, which counts the docs that `--limit` left."""

    name: str
    score: Score
    size: int
    sent: int

    @property
    def value(self) -> float:
        value = self.score.estimate.value
        assert value is not None, "members without a value are listed as missing"
        return value

    @property
    def stderr(self) -> float | None:
        return self.score.estimate.stderr


@dataclass(frozen=True)
class Gathered:
    """The children of one aggregate. `missing` maps those without a number to the reason."""

    members: tuple[Member, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    @property
    def values(self) -> Floats:
        return np.array([member.value for member in self.members], dtype=np.float64)


def filters_with_metric(entry: AggMetricConfig, names: Sequence[str], scores: Scores) -> list[str]:
    """The filters an entry names, else those under which any child has the metric, sorted."""
    if entry.filter_list is not None:
        return list(dict.fromkeys(entry.filter_list))
    return sorted({key.filter for name in names for key in scores.get(name, ()) if key.metric == entry.metric})


def gather_numbers(entry: AggMetricConfig, key: MetricKey, names: Sequence[str], scores: Scores) -> Gathered:
    """Split children into those that have the number and those that do not."""
    members: list[Member] = []
    missing: dict[str, str] = {}
    # lm-evaluation-harness weighs a task by the largest count among its metrics, even for a metric that only some of
    # its docs have. Entries in its own words keep that; ours weigh by the docs that are in the number.
    by_largest = entry.lm_eval_semantics
    for name in names:
        own = scores.get(name, {})
        score = own.get(key)
        if score is None:
            missing[name] = "was not scored" if name not in scores else f"has no {key}"
        elif score.estimate.value is None:
            missing[name] = score.estimate.undefined or f"has no value for {key}"
        elif not math.isfinite(score.estimate.value):
            missing[name] = f"has {key} = {score.estimate.value}"
        else:
            size, sent = score.size, score.size if score.asked is None else score.asked
            if by_largest and len(own) > 1:
                size = max(other.size for other in own.values())
                sent = max(other.size if other.asked is None else other.asked for other in own.values())
            members.append(Member(name, score, size, sent))
    return Gathered(tuple(members), missing)


def agreed_direction(members: Sequence[Member]) -> bool | None:
    """Whether higher is better, if the members agree."""
    directions = {member.score.higher_is_better for member in members}
    return directions.pop() if len(directions) == 1 else None


def draw_table(members: Sequence[Member]) -> Floats:
    """Replicates of all children, [B, k]; a child with fewer cuts the rest."""
    rows = [member.score.draws for member in members]
    length = min((len(row) for row in rows), default=0)
    return np.stack([row[:length] for row in rows]).T if length else np.empty((0, len(rows)))


def count_docs(scores: Sequence[Score]) -> int:
    """How many docs the number rests on: one that two children have is one doc, also where only one of them has clusters."""
    docs = documents_below(scores) if len(scores) > 1 else None
    return sum(score.estimate.n for score in scores) if docs is None else len(docs)


def documents_below(scores: Sequence[Score]) -> Keys | None:
    """The docs behind these numbers, each as often as the child that has it most often; None where one does not tell."""
    parts = [docs for score in scores if score.documents is not None and (docs := score.documents()) is not None]
    return all_docs(parts) if parts and len(parts) == len(scores) else None


def docs_below(scores: Sequence[Score]) -> Keys | None:
    """The docs behind any of these numbers, each once; None where one does not tell."""
    parts = [keys for score in scores if (keys := score.doc_keys) is not None]
    return distinct_docs(parts) if parts and len(parts) == len(scores) else None


# `group_filter`: only the k best, the k worst, or those beyond a threshold enter.


@dataclass(frozen=True)
class Select:
    """Which children enter: at the point estimate (False) or in each replicate (True)."""

    choose: Callable[[bool], Mask]
    by_rank: Callable[[Floats], Mask] | None = None
    """Values of the children → whom it would choose; only for filters that take the best or worst k by their own number."""
    threshold: float | None = None
    """The number that a child must reach, where that is the whole filter."""

    def __call__(self, in_replicates: bool) -> Mask:
        return self.choose(in_replicates)


def selection(
    filters: Sequence[GroupFilter], entry: AggMetricConfig, key: MetricKey, members: Sequence[Member], scores: Scores
) -> Select | None:
    """Which children pass all filters, one after the other; None where there are no filters.

    The choice is made anew in every replicate. Picking the best five looks at the same noise as their mean does, and an
    error bar that took the five for given would be too short.
    """
    if not filters:
        return None
    ranked: list[tuple[GroupFilter, Sequence[Member], bool]] = []
    for rule in filters:
        by = members if rule.metric is None else _by_metric(rule.metric, key, members, scores)
        stated = entry.higher_is_better if rule.metric is None else None
        ranked.append((rule, by, (agreed_direction(by) if stated is None else stated) is not False))

    def choose(tables: Sequence[Floats]) -> Mask:
        mask = np.ones(tables[0].shape, dtype=bool)
        for (rule, _, high), values in zip(ranked, tables, strict=True):
            mask = mask & _passing(rule, np.where(mask, values if high else -values, np.nan), high)
        return mask

    def select(in_replicates: bool) -> Mask:
        sides = [by for _, by, _ in ranked]
        return choose([draw_table(by) if in_replicates else np.array([m.value for m in by]) for by in sides])

    ranks = all(rule.metric is None and rule.function in ("top_k", "bottom_k") for rule in filters)
    only = filters[0] if len(filters) == 1 and filters[0].metric is None else None
    threshold = only.threshold if only is not None and only.function == "threshold" else None
    return Select(select, (lambda values: choose([values] * len(ranked))) if ranks else None, threshold)


def _by_metric(metric: str, key: MetricKey, members: Sequence[Member], scores: Scores) -> list[Member]:
    """The same children by another metric, under the same filter or else under the only one it has."""
    chosen: list[Member] = []
    for member in members:
        own = scores.get(member.name, {})
        options = [score for other, score in own.items() if other.metric == metric]
        score = own.get(MetricKey(metric, key.filter)) or (options[0] if len(options) == 1 else None)
        if score is None or score.estimate.value is None:
            raise ConfigError(f"group_filter looks at {metric!r}, which {member.name!r} does not have")
        chosen.append(Member(member.name, score, member.size, member.sent))
    return chosen


def _passing(rule: GroupFilter, goodness: Floats, high: bool) -> Mask:
    if rule.function == "threshold":
        if rule.threshold is None:
            raise ConfigError(
                "group_filter: threshold without a number", hint="Write {function: threshold, threshold: 0.5}."
            )
        return goodness >= (rule.threshold if high else -rule.threshold)
    if rule.k is None:
        raise ConfigError(
            f"group_filter: {rule.function} without k", hint=f"Write {{function: {rule.function}, k: 5}}."
        )
    # A stable sort: of children that tie, those listed first enter. NaN (already out) sorts last.
    order = np.argsort(-goodness if rule.function == "top_k" else goodness, axis=-1, kind="stable")
    mask = np.zeros(goodness.shape, dtype=bool)
    np.put_along_axis(mask, order[..., : rule.k], True, axis=-1)
    return mask & ~np.isnan(goodness)
