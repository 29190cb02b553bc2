"""Replays of one model on the same docs → how much each score moves, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.analyses.compare import repeatable_aggregation, reported_weights
from assay.analyses.noise_file import Deviation, NoiseFile, ScoreNoise
from assay.finished import DocColumn, Run, align
from assay.groups import AGGREGATORS, ArrayAggregator
from assay.request_types import REQUEST_TYPES
from assay.results import MetricKey
from assay.stats import (
    ENOUGH_REPLAYS,
    FEWEST_REPLAYS,
    bound_of_two,
    mean_estimate,
    replay_variance,
    unit_index,
    unit_keys,
    variance_interval,
)

Table = NDArray[np.float64]
"""Replays × docs."""


def measure_noise(runs: Sequence[Run], how: Sequence[Mapping[str, Any]], greedy: Sequence[Run] = ()) -> NoiseFile:
    """Every score that all replays have. `how` says of each to which server it was sent, among others.

    `greedy` are replays that took the likeliest token each time: they tell draws from serving.
    """
    servers = [str(each.get("server")) for each in how]
    index = [servers.index(server) for server in servers]
    rows, notes = [], []
    for task in runs[0].tasks:
        for key in [key for key in runs[0].result.tasks[task].scores if all(r.score(task, key) for r in runs)]:
            row = _of_task(task, key, runs, index, greedy)
            rows.append(row) if isinstance(row, ScoreNoise) else notes.append(row)
    by_name = {(row.name, row.metric): row for row in rows}
    for name, group in runs[0].result.groups.items():
        for key in group.scores:
            row = _of_group(name, key, runs, index, by_name)
            if isinstance(row, ScoreNoise):
                rows.append(row)
    if len(runs) < FEWEST_REPLAYS:
        notes.insert(0, f"{len(runs)} replays only bound the noise and do not estimate it; {FEWEST_REPLAYS} or more do")
    elif len(runs) < ENOUGH_REPLAYS:
        notes.insert(
            0,
            f"a server that is sometimes in another state may have been in the same one for all {len(runs)} replays, "
            f"and then its noise does not show; with {ENOUGH_REPLAYS} or more replays that is unlikely",
        )
    return NoiseFile(runs[0].result.model_name, tuple(dict(each) for each in how), tuple(rows), tuple(notes))


def _of_task(
    task: str, key: MetricKey, runs: Sequence[Run], servers: Sequence[int], greedy: Sequence[Run]
) -> ScoreNoise | str:
    column = runs[0].columns(task).get(key)
    if column is None or repeatable_aggregation(column, runs[0].score(task, key)) != "mean" or not column.is_numeric:
        return _as_reported(task, key, runs, servers, "task")
    table, docs = _table(task, key, runs)
    if table.shape[1] < 2:
        return f"{task} {key}: the replays have {table.shape[1]} scored docs in common"
    n, clusters = table.shape[1], unit_index(unit_keys(docs.docs, docs.clusters))
    scores = table.mean(axis=1)
    by_doc = mean_estimate(_by_doc(table), clusters)
    own = mean_estimate(table.mean(axis=0), clusters)
    doc_part = (by_doc.value or 0.0) / n
    sampling = max(0.0, (own.stderr or 0.0) ** 2 - doc_part / len(runs))
    bounded = len(runs) < FEWEST_REPLAYS
    variance, freedom = replay_variance(scores.tolist(), servers)
    return ScoreNoise(
        name=task,
        kind="task",
        metric=str(key),
        n=n,
        scores=tuple(scores.tolist()),
        run_variance=variance,
        freedom=freedom,
        doc_part=doc_part,
        most=bound_of_two(table[0], table[1]) if bounded else None,
        docs=_deviation(sampling, own.df or n - 1),
        by_doc=Deviation(*(math.sqrt(max(0.0, end or 0.0) / n) for end in (by_doc.value, by_doc.low, by_doc.high))),
        draws=_draws(task, key, runs, greedy),
        sampled=_is_sampled(task, runs[0]),
        **_flips(table, docs.doc_ids, clusters),
    )


def _table(task: str, key: MetricKey, runs: Sequence[Run]) -> tuple[Table, DocColumn]:
    """The values of the docs that every replay has scored, and the first replay's column of them."""
    columns = [run.columns(task)[key].scored() for run in runs]
    shared = align(*columns).shared
    shared = shared[:, np.argsort(columns[0].doc_ids[shared[0]], kind="stable")]
    values = [column.values[at] for column, at in zip(columns, shared, strict=True)]
    return np.stack(values), columns[0].take(shared[0])


def _deviation(variance: float, freedom: float) -> Deviation:
    if variance <= 0:
        return Deviation(0.0)
    low, high = variance_interval(variance, freedom)
    return Deviation(math.sqrt(variance), math.sqrt(low), math.sqrt(high))


def _draws(task: str, key: MetricKey, runs: Sequence[Run], greedy: Sequence[Run]) -> Deviation | None:
    """What is left of each doc's noise when that of its greedy answers is taken away."""
    if not greedy or not all(run.score(task, key) for run in greedy):
        return None
    table, docs = _table(task, key, [*runs, *greedy])
    n = table.shape[1]
    if n < 2:
        return None
    drawn, served = (_by_doc(part) for part in (table[: len(runs)], table[len(runs) :]))
    left = mean_estimate(drawn - served, unit_index(unit_keys(docs.docs, docs.clusters)))
    return Deviation(*(math.sqrt(max(0.0, end or 0.0) / n) for end in (left.value, left.low, left.high)))


def _by_doc(table: Table) -> NDArray[np.float64]:
    """The variance of each doc between replays, without what a whole replay shares."""
    variances: NDArray[np.float64] = (table - table.mean(axis=1)[:, None]).var(axis=0, ddof=1)
    return variances


def _is_sampled(task: str, run: Run) -> bool:
    config = run.result.tasks[task].config
    settings = {**(config.get("generation_kwargs") or {}), **(run.result.config.get("gen_kwargs") or {})}
    return config.get("output_type") == "generate_until" and REQUEST_TYPES["generate_until"].is_sampled(("", settings))


def _flips(table: Table, doc_ids: NDArray[np.int64], clusters: NDArray[np.int64] | None) -> dict[str, Any]:
    if not ((table == 0) | (table == 1)).all():
        return {}
    times, count = table.sum(axis=0), len(table)
    between_two = 2 * times * (count - times) / (count * (count - 1))
    share = mean_estimate(between_two, clusters)
    moved = np.flatnonzero((times > 0) & (times < count))
    ends = (share.value or 0.0, share.low or 0.0, share.high if share.high is not None else 1.0)
    return {"flip_share": ends, "flips": tuple((int(doc_ids[i]), int(times[i])) for i in moved)}


def _as_reported(
    name: str, key: MetricKey, runs: Sequence[Run], servers: Sequence[int], kind: Any, doc_part: float = 0.0
) -> ScoreNoise | str:
    """A number whose docs do not tell their part in it: nothing is taken away from what replays differ by."""
    found = [score.estimate.value for run in runs if (score := run.score(name, key)) is not None]
    values = [value for value in found if value is not None and math.isfinite(value)]
    if len(values) < len(runs):
        return f"{name} {key}: undefined in some replays"
    variance, freedom = replay_variance(values, servers)
    score = runs[0].score(name, key)
    assert score is not None
    most = None
    if len(runs) < FEWEST_REPLAYS:
        # Two numbers without docs: Student's t with one degree of freedom, at 95 %.
        most = 12.7 * abs(values[1] - values[0]) + (score.estimate.stderr or 0.0)
    return ScoreNoise(
        name, kind, str(key), score.estimate.n, tuple(values), variance, freedom, min(doc_part, variance), most
    )


def _of_group(
    name: str,
    key: MetricKey,
    runs: Sequence[Run],
    servers: Sequence[int],
    tasks: Mapping[tuple[str, str], ScoreNoise],
) -> ScoreNoise | str:
    """A shift that a run shares moves all members at once, so a group's noise is measured on its own score."""
    score = runs[0].result.groups[name].scores[key]
    rule = AGGREGATORS.get(score.aggregation) if score.aggregation is not None else None
    members = [tasks.get((share.name, str(key))) for share in score.children]
    weights = reported_weights(score)
    weights = weights / weights.sum() if len(weights) else weights
    doc_part = 0.0
    if isinstance(rule, ArrayAggregator) and rule.linear and all(members):
        doc_part = float(sum(w**2 * m.doc_part for w, m in zip(weights, members, strict=True) if m is not None))
    found = _as_reported(name, key, runs, servers, "group", doc_part)
    if isinstance(found, ScoreNoise) and found.most is not None and all(members):
        most = float(sum(w * (m.most or 0.0) for w, m in zip(weights, members, strict=True) if m is not None))
        return replace(found, most=most)
    return found
