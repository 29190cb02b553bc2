"""Scores of the tasks below a group → scores of the group, with their error bars."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from assay.config import AggMetricConfig
from assay.errors import AssayError, ConfigError, did_you_mean
from assay.groups.aggregators import ArrayAggregator
from assay.groups.functions import aggregator_of, run_scorer
from assay.groups.members import (
    Floats,
    Gathered,
    GroupLike,
    Keys,
    Member,
    Scores,
    Select,
    agreed_direction,
    count_docs,
    docs_below,
    documents_below,
    draw_table,
    selection,
)
from assay.results import GroupScore, JudgeCheck, MetricKey, Score, Share, read_numbers
from assay.stats import (
    ChildEvidence,
    Estimate,
    doc_keys,
    ends,
    estimate_from_children,
    extreme_end,
    extreme_replicates,
    pooled_stderr,
    share_docs,
    summary_estimate,
    summed_replicates,
    unweighted_stderr,
)

_log = logging.getLogger(__name__)


def score_group(
    group: GroupLike, scores: Scores, entries: Sequence[AggMetricConfig] | None = None
) -> dict[MetricKey, GroupScore]:
    """All numbers of one group. `scores` holds its tasks, and its subgroups where an entry runs over them."""
    numbers: dict[MetricKey, GroupScore] = {}
    for entry in (group.aggregate_metric_list or []) if entries is None else entries:
        for key, score in _score_entry(group, entry, scores).items():
            if entry.lm_eval_semantics and not score.children and not score.filtered_out and group.child_names:
                _log.warning("group %r: no number for %s: %s", group.name, key, score.estimate.undefined)
                continue  # that harness leaves out a number that no task has
            if key in numbers and not entry.lm_eval_semantics:
                raise ConfigError(
                    f"group {group.name!r} aggregates {key} twice", hint="Put the second one into a separate group."
                )
            numbers[key] = score
    if group.config.scorer is not None:
        numbers |= run_scorer(group, scores)
    return numbers


def _score_entry(group: GroupLike, entry: AggMetricConfig, scores: Scores) -> dict[MetricKey, GroupScore]:
    aggregator = aggregator_of(entry, group)
    names = group.task_names if entry.over == "tasks" else group.child_names
    check_weights(entry, aggregator, group.name, names)
    filters = aggregator.filters(entry, names, scores)
    if not filters:
        reason = f"no child has {entry.metric}" if names else _why_empty(group)
        return {MetricKey(entry.metric): _undefined(aggregator, reason, entry.higher_is_better, {})}
    numbers: dict[MetricKey, GroupScore] = {}
    for name in filters:
        key = MetricKey(entry.metric, name)
        gathered = aggregator.gather(entry, key, names, scores)
        if gathered.missing and gathered.members and entry.missing is None:
            _log.warning("group %r: %s has no number from %s", group.name, key, _some(list(gathered.missing)))
        numbers[key] = _score_key(group, entry, key, aggregator, gathered, scores)
    return numbers


def _score_key(
    group: GroupLike,
    entry: AggMetricConfig,
    key: MetricKey,
    aggregator: ArrayAggregator,
    gathered: Gathered,
    scores: Scores,
) -> GroupScore:
    members, missing = gathered.members, gathered.missing
    direction = agreed_direction(members) if entry.higher_is_better is None else entry.higher_is_better
    weights = weights_of(entry, aggregator, members)
    if reason := _why_undefined(group, entry, aggregator, gathered, weights):
        return _undefined(aggregator, reason, direction, missing)
    try:
        select = selection(group.config.group_filter or [], entry, key, members, scores)
        by_size, as_lm_eval = counts_by_size(entry, aggregator), entry.lm_eval_semantics and select is None
        lifted = lift(aggregator.bound_to(members, key), members, weights, by_size=by_size, select=select)
        limited = any(member.sent != member.size for member in members)
    except AssayError as error:
        raise type(error)(f"group {group.name!r}, {key}: {error.message}", hint=error.hint) from error
    enters = np.ones(len(members), dtype=bool) if select is None else select(False)
    parts = weights * enters / max(float((weights * enters).sum()), np.finfo(float).tiny)
    shares = [Share(m.name, float(part) if aggregator.weighted else None, m.value) for m, part in zip(members, parts)]
    return GroupScore(
        lifted.estimate,
        size=sum(member.size for member, inside in zip(members, enters) if inside),
        aggregation=aggregator.name,
        higher_is_better=direction,
        # Its groups know tasks alone, and nothing of the docs that were not sent.
        lm_eval_stderr=lifted.lm_eval_stderr if entry.over == "tasks" and (as_lm_eval or not limited) else None,
        replicates=lifted.draw,
        interval=lifted.interval,
        one_end=lifted.one_end,
        keys=lifted.keys,
        documents=lambda: documents_below([member.score for member in members]),
        children=tuple(share for share, inside in zip(shares, enters) if inside),
        judge=JudgeCheck.of_members([member.score.judge for member, inside in zip(members, enters) if inside]),
        missing=missing,
        filtered_out=tuple(member.name for member, inside in zip(members, enters) if not inside),
        asked=sum(member.sent for member in members) if limited and as_lm_eval else None,
        lm_eval_value=_by_docs_sent(aggregator, members) if limited and as_lm_eval and by_size else None,
    )


def _by_docs_sent(aggregator: ArrayAggregator, members: Sequence[Member]) -> float:
    """The number as lm-evaluation-harness makes it after `--limit`."""
    values, weights = (np.array(each, dtype=np.float64) for each in zip(*((m.value, m.sent) for m in members)))
    return float(aggregator.combine(values, weights, None))


def _why_undefined(
    group: GroupLike, entry: AggMetricConfig, aggregator: ArrayAggregator, gathered: Gathered, weights: Floats
) -> str | None:
    if gathered.missing and (not gathered.members or not entry.skips_missing):
        name, reason = next(iter(gathered.missing.items()))
        more = len(gathered.missing) - 1
        return f"{name} {reason}" + (
            f"; no number for {more} of the other {more + len(gathered.members)} members either" if more else ""
        )
    if not gathered.members:
        return _why_empty(group)
    if not weights.sum() > 0:
        return "all children that have a number have weight 0"
    return aggregator.why_undefined(gathered.values, gathered.names)


def _why_empty(group: GroupLike) -> str:
    return "this group has no tasks" if group.child_names else "the group has no members"


def _undefined(
    aggregator: ArrayAggregator, reason: str, direction: bool | None, missing: Mapping[str, str]
) -> GroupScore:
    return GroupScore(
        Estimate.missing(reason), size=0, aggregation=aggregator.name, higher_is_better=direction, missing=missing
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


# Error bars: what members know of themselves, given to the methods of `assay.stats`

Bounds = tuple[float, float] | None


@dataclass(frozen=True)
class Lifted:
    """A group's number with what it is worth."""

    estimate: Estimate
    draw: Callable[[], Floats]
    """Its replicates, computed at most once."""
    interval: Callable[[float], Bounds]
    lm_eval_stderr: float | None
    one_end: Callable[[int, float], float | None] | None = None
    keys: Callable[[], Keys | None] = lambda: None
    """The docs behind the number, each once."""


def lift(
    aggregator: ArrayAggregator,
    members: Sequence[Member],
    weights: Floats,
    *,
    by_size: bool,
    select: Select | None = None,
) -> Lifted:
    scores = [member.score for member in members]

    @cache
    def draw() -> Floats:
        if aggregator.linear and select is None and weights.sum() > 0:
            return summed_replicates([score.draws for score in scores], weights / weights.sum())
        if aggregator.extreme is not None and select is None:
            return extreme_replicates(aggregator.extreme, [score.draws for score in scores])
        table = draw_table(members)
        if not len(table):
            return np.empty(0)  # a child has no replicates
        return aggregator.combine(table, weights, None if select is None else select(True))

    known: list[Keys] = []

    @cache
    def shared() -> bool | None:
        if len(scores) < 2:
            return False
        parts = [keys for score in scores if (keys := score.doc_keys) is not None]
        return None if len(parts) < len(scores) else share_docs(parts, known)

    evidence = ChildEvidence(
        aggregator,
        [member.name for member in members],
        scores,
        weights,
        count_docs(scores),
        shared,
        draw,
        None if select is None else select(False),
        None if select is None else select.by_rank,
        None if select is None else select.threshold,
    )
    is_linear = aggregator.linear and select is None
    return Lifted(
        estimate_from_children(evidence),
        draw,
        lambda level: ends(estimate_from_children(evidence, level)),
        _lm_eval_stderr(members, weights, by_size=by_size) if is_linear else None,
        cache(partial(extreme_end, aggregator.extreme, scores)) if evidence.is_extreme and aggregator.extreme else None,
        lambda: known[0] if known else docs_below(scores),
    )


def _lm_eval_stderr(members: Sequence[Member], weights: Floats, *, by_size: bool) -> float | None:
    """lm-evaluation-harness takes members for independent, and pools variances where they count by size."""
    theirs = [member.score.estimate.stderr for member in members]
    known = [s if m.score.lm_eval_stderr is None else m.score.lm_eval_stderr for m, s in zip(members, theirs)]
    errors = [error for error in known if error is not None]
    if len(errors) < len(members) or any(m.score.estimate.n < (m.score.asked or m.score.size) for m in members):
        return None
    if by_size:
        return pooled_stderr(errors, [m.sent for m in members])
    return unweighted_stderr(errors) if np.ptp(weights) == 0 else None


# Weights


def weights_of(entry: AggMetricConfig, aggregator: ArrayAggregator, members: Sequence[Member]) -> Floats:
    """The weight of each member, as given, by size, or equal."""
    if entry.weights is not None:
        return np.array([entry.weights[member.name] for member in members], dtype=np.float64)
    if counts_by_size(entry, aggregator):
        return np.array([member.size for member in members], dtype=np.float64)
    return np.ones(len(members))


def counts_by_size(entry: AggMetricConfig, aggregator: ArrayAggregator) -> bool:
    """A mean counts by size unless told not to; any other aggregator only where `weight_by_size: true` is written."""
    wanted = "weight_by_size" in entry.model_fields_set or aggregator.by_size
    return entry.weights is None and aggregator.weighted and entry.weight_by_size and wanted


def check_weights(entry: AggMetricConfig, aggregator: ArrayAggregator, group: str, names: Sequence[str]) -> None:
    """Weights name exactly the children, are not negative, and add up to 1."""
    where = f"group {group!r}, metric {entry.metric!r}"
    by_size = entry.weight_by_size and "weight_by_size" in entry.model_fields_set
    if aggregator.needs_weights and entry.weights is None:
        raise ConfigError(
            f"{where}: {aggregator.name} has no weights", hint="Add weights: {child: 0.5, …}, or use mean."
        )
    if not aggregator.weighted and (entry.weights is not None or by_size):
        raise ConfigError(f"{where}: {aggregator.name} does not use weights", hint="Remove weights and weight_by_size.")
    if entry.weights is not None:
        kind = "children" if entry.over == "subgroups" else "tasks"
        for name in entry.weights:
            if name not in names:
                raise ConfigError(
                    f"{where}: weights name {name!r}, which is not among the {kind}",
                    hint=did_you_mean(name, names) or f"Known: {', '.join(names)}.",
                )
        _check_values(entry.weights, names, where)


def _check_values(weights: Mapping[str, float], names: Sequence[str], where: str) -> None:
    if unweighted := [name for name in names if name not in weights]:
        raise ConfigError(
            f"{where}: no weight for {', '.join(unweighted)}", hint="Give each child a weight; 0 leaves it out."
        )
    if negative := [name for name, weight in weights.items() if not weight >= 0]:
        raise ConfigError(
            f"{where}: the weight of {', '.join(negative)} is negative or not a number",
            hint="Weights must be 0 or more.",
        )
    total = sum(weights.values())
    if abs(total - 1) > 1e-6:
        hint = "They must add up to 1."
        if total > 0:
            scaled = [f"{name}: {weight / total:.6g}" for name, weight in list(weights.items())[:8]]
            hint += f" For the same proportions: {', '.join(scaled)}."
        raise ConfigError(f"{where}: the weights add up to {total:g}", hint=hint)


# Plain dictionaries


def scores_in(name: str, metrics: Mapping[str, Any]) -> dict[MetricKey, Score]:
    """One entry of a results file as scores; "N/A" is no standard error, or no value.

    The file does not tell the docs of a task: one key stands for all of them, so that groups which share it are known.
    """
    n = sample_len(metrics)
    scores: dict[MetricKey, Score] = {}
    for key, (value, stderr) in read_numbers(metrics).items():
        if not isinstance(value, int | float):
            estimate = Estimate.missing(f"the results say {value!r}", n)
        elif not isinstance(stderr, int | float):
            estimate = Estimate.bare(float(value), n, "no standard error in the results")
        else:
            estimate = summary_estimate(float(value), float(stderr), n)
        scores[key] = Score(estimate, n, aggregation=None, keys=lambda: doc_keys([name]))
    return scores


def sample_len(metrics: Mapping[str, Any]) -> int:
    for name in ("sample_len", "samples"):
        if isinstance(metrics.get(name), int):
            return int(metrics[name])
    return 1
