"""Scores of the tasks below a group → scores of the group."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.config import AggMetricConfig, GroupFilter
from assay.errors import AssayError, ConfigError
from assay.groups.aggregators import formula_for
from assay.groups.formulas import Floats, Formula, Mask
from assay.groups.group import Group
from assay.groups.keys import MetricKey
from assay.groups.lift import Select, docs_below, draw_table, lift
from assay.groups.members import (  # fmt: skip
    Gathered,
    Member,
    Scores,
    candidates,
    check_weights,
    counts_by_size,
    filters_of,
    gather,
    weights_of,
)
from assay.groups.passk import gather_counts
from assay.groups.selection import entering
from assay.stats import Estimate, Score

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Share:
    """A child that entered, its part of the whole, and its number. Formulas without weights give no part."""

    name: str
    weight: float | None
    value: float


@dataclass(frozen=True)
class GroupScore(Score):
    """A score that says what it was made of."""

    aggregator: str = "mean"
    children: tuple[Share, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """Children without the number, and why."""
    filtered_out: tuple[str, ...] = ()


def score_group(
    group: Group, scores: Scores, entries: Sequence[AggMetricConfig] | None = None
) -> dict[MetricKey, GroupScore]:
    """All numbers of one group. `scores` holds its tasks, and its subgroups where an entry runs over them."""
    found: dict[MetricKey, GroupScore] = {}
    for entry in (group.aggregate_metric_list or []) if entries is None else entries:
        for key, score in _score_entry(group, entry, scores).items():
            if entry.speaks_lm_eval and not score.children and not score.filtered_out and len(group):
                _log.warning("group %r: no number for %s: %s", group.name, key, score.estimate.undefined)
                continue  # that harness leaves out a number that no task has
            if key in found and not entry.speaks_lm_eval:
                raise ConfigError(
                    f"group {group.name!r} aggregates {key} twice", hint="Put the second into a group of its own."
                )
            found[key] = score
    if group.config.scorer is not None:
        from assay.groups.scorers import run_scorer

        found.update(run_scorer(group, scores))
    return found


def _score_entry(group: Group, entry: AggMetricConfig, scores: Scores) -> dict[MetricKey, GroupScore]:
    formula = formula_for(entry, group)
    names = candidates(group, entry)
    check_weights(entry, formula, group, names)
    filters = filters_of(entry, names, scores)
    if not filters and formula.name == "pass@k":
        filters = sorted({key.filter for name in names for key, score in scores.get(name, {}).items() if score.counts})
    if not filters:
        return {MetricKey(entry.metric): _undefined(formula, _why_nothing(group, entry, names), {})}
    collect = gather_counts if formula.name == "pass@k" else gather
    found: dict[MetricKey, GroupScore] = {}
    for name in filters:
        key = MetricKey(entry.metric, name)
        # An aggregator that reads dictionaries finds its numbers there under the filter whose turn it is.
        formula = formula_for(entry.model_copy(update={"filter_list": [name]}), group)
        found[key] = _score_key(group, entry, key, formula, collect(entry, key, names, scores), scores)
    return found


def _score_key(
    group: Group, entry: AggMetricConfig, key: MetricKey, formula: Formula, gathered: Gathered, scores: Scores
) -> GroupScore:
    if gathered.missing and gathered.members and entry.missing is None:
        _log.warning("group %r: %s has no number from %s", group.name, key, _some(list(gathered.missing)))
    if not gathered.members or (gathered.missing and not entry.skips_missing):
        why = _why_missing(group, gathered) if gathered.missing else _why_nothing(group, entry, gathered.names)
        return _undefined(formula, why, gathered.missing)
    members = gathered.members
    weights = weights_of(entry, formula, group, members)
    if not weights.sum() > 0:
        return _undefined(formula, "the children that have a number weigh nothing", gathered.missing)
    if reason := formula.why_undefined(gathered.values, gathered.names):
        return _undefined(formula, reason, gathered.missing)
    try:
        return _lifted(group, entry, key, formula.bound_to(members), members, weights, gathered, scores)
    except AssayError as error:
        raise type(error)(f"group {group.name!r}, {key}: {error.message}", hint=error.hint) from error


def _lifted(
    group: Group,
    entry: AggMetricConfig,
    key: MetricKey,
    formula: Formula,
    members: Sequence[Member],
    weights: Floats,
    gathered: Gathered,
    scores: Scores,
) -> GroupScore:
    select = _selector(group.config.group_filter or [], key, members, scores, entry)
    by_size = counts_by_size(entry, formula)
    estimate, draws = lift(formula, members, weights, by_size=by_size, select=select)
    mask = None if select is None else select(False)
    enters = np.ones(len(members), dtype=bool) if mask is None else mask
    parts = weights * enters / max(float((weights * enters).sum()), np.finfo(float).tiny)
    inside = [i for i in range(len(members)) if enters[i]]
    return GroupScore(
        estimate,
        sum(members[i].size for i in inside),
        draws,
        higher_is_better=_direction(entry, members),
        keys=lambda: docs_below([member.score for member in members]),
        aggregator=formula.name,
        children=tuple(
            Share(members[i].name, float(parts[i]) if formula.weighted else None, members[i].value) for i in inside
        ),
        missing=gathered.missing,
        filtered_out=tuple(member.name for i, member in enumerate(members) if not enters[i]),
    )


def _selector(
    filters: Sequence[GroupFilter], key: MetricKey, members: Sequence[Member], scores: Scores, entry: AggMetricConfig
) -> Select | None:
    if not filters:
        return None
    looked_at = [members if rule.metric is None else _other(rule.metric, key, members, scores) for rule in filters]
    high = [
        _direction(entry if rule.metric is None else None, group) is not False
        for rule, group in zip(filters, looked_at)
    ]

    def select(in_replicates: bool) -> Mask | None:
        ranks = [draw_table(m) if in_replicates else np.array([x.value for x in m]) for m in looked_at]
        return entering(filters, ranks, high)

    return select


def _other(metric: str, key: MetricKey, members: Sequence[Member], scores: Scores) -> list[Member]:
    """The same children by another metric, under the same filter or else under the only one it has."""
    chosen: list[Member] = []
    for member in members:
        found = scores.get(member.name, {})
        options = [score for other, score in found.items() if other.metric == metric]
        score = found.get(MetricKey(metric, key.filter)) or (options[0] if len(options) == 1 else None)
        if score is None or score.estimate.value is None:
            raise ConfigError(f"group_filter looks at {metric!r}, which {member.name!r} does not have")
        chosen.append(Member(member.name, score, member.size))
    return chosen


def _direction(entry: AggMetricConfig | None, members: Sequence[Member]) -> bool | None:
    """Whether higher is better: as the entry says, else as the children agree, else unknown."""
    if entry is not None and entry.higher_is_better is not None:
        return entry.higher_is_better
    said = {member.score.higher_is_better for member in members}
    return said.pop() if len(said) == 1 else None


def _undefined(formula: Formula, reason: str, missing: Mapping[str, str]) -> GroupScore:
    estimate = Estimate.missing(reason)
    return GroupScore(estimate, 0, lambda: np.empty(0), aggregator=formula.name, missing=missing)


def _why_missing(group: Group, gathered: Gathered) -> str:
    name, reason = next(iter(gathered.missing.items()))
    more = len(gathered.missing) - 1
    return f"{name} {reason}" + (f", and {more} more of {more + 1 + len(gathered.members)} lack it" if more else "")


def _why_nothing(group: Group, entry: AggMetricConfig, names: Sequence[str]) -> str:
    if not len(group):
        return "the group has no members"
    return f"no child has {entry.metric}" if names else "no task is below this group"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
