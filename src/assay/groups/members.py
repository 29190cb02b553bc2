"""What enters an aggregate: children with a number, those without, and the weight of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from assay.config import AggMetricConfig
from assay.errors import ConfigError, did_you_mean
from assay.groups.formulas import Floats, Formula
from assay.groups.group import Group, node_name
from assay.groups.keys import MetricKey
from assay.stats import Score

Scores: TypeAlias = Mapping[str, Mapping[MetricKey, Score]]


@dataclass(frozen=True)
class Member:
    """A child with its number. `size` is what it weighs where children count by size."""

    name: str
    score: Score
    size: int

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


def candidates(group: Group, entry: AggMetricConfig) -> list[str]:
    """The names an entry runs over: all leaves, or the direct children."""
    nodes = group.get_all_tasks() if entry.over == "tasks" else group.get_direct_children()
    return [node_name(node) for node in nodes]


def filters_of(entry: AggMetricConfig, names: Sequence[str], scores: Scores) -> list[str]:
    """The filters an entry names, else those under which any child has the metric, sorted."""
    if entry.filter_list is not None:
        return list(dict.fromkeys(entry.filter_list))
    return sorted({key.filter for name in names for key in scores.get(name, ()) if key.metric == entry.metric})


def gather(entry: AggMetricConfig, key: MetricKey, names: Sequence[str], scores: Scores) -> Gathered:
    """Split children into those that have the number and those that do not."""
    members: list[Member] = []
    missing: dict[str, str] = {}
    # lm-evaluation-harness weighs a task by the largest count among its metrics, even for a metric that only some of
    # its docs have. Entries in its own words keep that; ours weigh by the docs that are in the number.
    by_largest = entry.speaks_lm_eval
    for name in names:
        found = scores.get(name, {})
        score = found.get(key)
        if score is None:
            missing[name] = "was not scored" if name not in scores else f"has no {key}"
        elif score.estimate.value is None:
            missing[name] = score.estimate.undefined or f"has no value for {key}"
        elif not math.isfinite(score.estimate.value):
            missing[name] = f"has {key} = {score.estimate.value}"
        else:
            size = max(other.size for other in found.values()) if by_largest else score.size
            members.append(Member(name, score, size))
    return Gathered(tuple(members), missing)


def weights_of(entry: AggMetricConfig, formula: Formula, group: Group, members: Sequence[Member]) -> Floats:
    """The weight of each member, as given, by size, or equal."""
    if entry.weights is not None:
        return np.array([entry.weights[member.name] for member in members], dtype=np.float64)
    if counts_by_size(entry, formula):
        return np.array([member.size for member in members], dtype=np.float64)
    return np.ones(len(members))


def counts_by_size(entry: AggMetricConfig, formula: Formula) -> bool:
    """A mean counts by size unless told not to; any other formula only where `weight_by_size: true` is written."""
    if entry.weights is not None or not formula.weighted or formula.name == "weighted_mean":
        return False
    asked = "weight_by_size" in entry.model_fields_set or formula.by_size
    return entry.weight_by_size and asked


def check_weights(entry: AggMetricConfig, formula: Formula, group: Group, names: Sequence[str]) -> None:
    """Weights name exactly the children, are not negative, and add up to 1."""
    where = f"group {group.name!r}, metric {entry.metric!r}"
    if formula.name == "weighted_mean" and entry.weights is None:
        raise ConfigError(f"{where}: weighted_mean has no weights", hint="Add weights: {child: 0.5, …}, or use mean.")
    if not formula.weighted and (entry.weights is not None or (entry.weight_by_size and "weight_by_size" in entry.model_fields_set)):  # fmt: skip
        raise ConfigError(f"{where}: {formula.name} takes no weights", hint="Drop weights and weight_by_size.")
    if entry.weights is None:
        return
    for name in entry.weights:
        if name not in names:
            raise ConfigError(
                f"{where}: weights name {name!r}, which is not among the {'children' if entry.over == 'subgroups' else 'tasks'}",
                hint=did_you_mean(name, names) or f"Known: {', '.join(names)}.",
            )
    if unweighted := [name for name in names if name not in entry.weights]:
        raise ConfigError(
            f"{where}: no weight for {', '.join(unweighted)}", hint="Give each child a weight; 0 leaves it out."
        )
    if negative := [name for name, weight in entry.weights.items() if not weight >= 0]:
        raise ConfigError(
            f"{where}: the weight of {', '.join(negative)} is below zero or no number", hint="Weights are 0 or more."
        )
    total = sum(entry.weights.values())
    if abs(total - 1) > 1e-6:
        scaled = f" For the same proportions: {', '.join(f'{n}: {w / total:.6g}' for n, w in list(entry.weights.items())[:8])}." if total > 0 else ""  # fmt: skip
        raise ConfigError(f"{where}: the weights add up to {total:g}", hint=f"They must add up to 1.{scaled}")
