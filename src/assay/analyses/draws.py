"""What more draws of the same docs would say: pass^k for any k, and how to split a budget between docs and draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from assay.analyses.power import PowerOptions
from assay.errors import ConfigError
from assay.finished import Run, open_run, shared_keys
from assay.results import MetricKey
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Name
from assay.stats import (
    BetaModel,
    Estimate,
    Split,
    beta_model,
    cluster_key,
    doc_keys,
    forecast,
    mean_estimate,
    power_bounds,
    right_in_all,
    splits,
    unit_index,
    unit_keys,
)

FARTHEST = 2
"""A model is asked for at most so many times the draws: further out, spreads that no test tells from a beta differ too much."""


@dataclass(frozen=True)
class PassPower:
    """pass^k of one task."""

    task: str
    metric: str
    k: int
    estimate: Estimate | None
    """From the draws themselves, where there are k."""
    bounds: tuple[float, float] | None
    """What any spread of chances over docs that agrees with the draws allows, for larger k."""
    forecast: Estimate | None
    """By the beta-binomial model, where it fits."""
    note: str = ""


@dataclass(frozen=True)
class DrawPlan:
    """One task: its pass^k, and what a budget of draws would give."""

    task: str
    metric: str
    docs: int
    draws: int
    """That every doc has."""
    powers: tuple[PassPower, ...]
    splits: tuple[Split, ...]
    k: int
    """Of the errors in `splits`."""


class DrawPlans(tuple[DrawPlan, ...]):
    """One for each task."""

    def to_dict(self) -> list[dict[str, Any]]:
        return [asdict(plan) for plan in self]


def plan_draws(path: str, options: PowerOptions) -> DrawPlans:
    """Tasks of a run whose docs were drawn more than once and are right or wrong."""
    run = open_run(path)
    run.require("samples", "scores")
    tasks = options.tasks or run.tasks
    plans = [plan for task in tasks if (plan := plan_task(run, task, options)) is not None]
    if not plans:
        raise ConfigError(
            f"{path} has no task whose docs were drawn more than once, right or wrong each time",
            hint="Draw docs several times: epochs of inspect, attempts of Harbor, `repeats` of a task file.",
        )
    return DrawPlans(plans)


def plan_task(run: Run, task: str, options: PowerOptions) -> DrawPlan | None:
    key = next(iter(shared_keys([run.columns(task)], options.metric)), None)
    if key is None:
        raise ConfigError(f"{task} has no numeric metric {options.metric or ''}", hint="Name another with --metric.")
    counted = _counts(run, task, key)
    if counted is None:
        return None
    n, c, keys, units = counted
    least = int(n.min())
    model = beta_model(n, c)
    ks = options.k or tuple(sorted({1, least, *(2**i for i in range(1, 6) if 2**i <= 4 * least)}))
    rows = tuple(_power(task, str(key), k, n, c, keys, units, model) for k in ks)
    k = max((each for each in ks if each <= least), default=1)
    usable = None if model is None or model.is_rejected else model
    split = tuple(splits(n, c, options.budget or int(n.sum()), k, usable, options.docs))
    return DrawPlan(task, str(key), len(n), least, rows, split, k)


def _counts(run: Run, task: str, key: MetricKey) -> tuple[Any, Any, Any, Any] | None:
    """Draws and right draws of each doc, and its keys; None where docs were drawn once, or draws are not right or wrong."""
    drawn: list[int] = []
    right: list[int] = []
    hashes: list[str] = []
    clusters: list[Any] = []
    for doc in run.docs(task, key.filter):
        value = doc.metrics.get(key.metric)
        if not isinstance(value, int | float) or value != value:
            continue
        draws = doc.draws - len(doc.broken_off) if doc.draws > 1 else len(doc.responses[0]) if doc.responses else 1
        if abs(value * draws - round(value * draws)) > 1e-6 or not 0 <= value <= 1:
            return None
        drawn.append(draws)
        right.append(round(value * draws))
        hashes.append(doc.doc_hash)
        clusters.append(doc.cluster)
    if not drawn or min(drawn) < 2:
        return None
    keys = doc_keys(hashes)
    groups = np.array([k if c is None else cluster_key("cluster", c) for k, c in zip(keys, clusters)], dtype=np.uint64)
    units = unit_keys(keys, groups)
    return np.array(drawn), np.array(right), units, unit_index(units)


def _power(task: str, metric: str, k: int, n: Any, c: Any, keys: Any, units: Any, model: BetaModel | None) -> PassPower:
    if k <= int(n.min()):
        return PassPower(task, metric, k, mean_estimate(right_in_all(n, c, k), units), None, None)
    bounds = power_bounds(n, c, k, units)
    if model is None:
        return PassPower(task, metric, k, None, bounds, None, "no model: fewer than three draws")
    if k > FARTHEST * int(n.min()):
        return PassPower(task, metric, k, None, bounds, None, f"no forecast beyond {FARTHEST} times the draws")
    found = forecast(n, c, k, model, keys)
    if found.value is None:
        return PassPower(task, metric, k, None, bounds, None, found.undefined or "")
    if not bounds[0] <= found.value <= bounds[1]:
        return PassPower(task, metric, k, None, bounds, None, "the model contradicts the bounds")
    return PassPower(task, metric, k, None, bounds, found)


def findings(plans: DrawPlans) -> Findings:
    powers: tuple[Column[PassPower], ...] = (
        Column("task", kinds.NAME, lambda row: Name(row.task), shrinks=True),
        Column("metric", kinds.TEXT, lambda row: row.metric, shrinks=True),
        Column("k", kinds.COUNT, lambda row: row.k),
        Column("pass^k", kinds.WITH_ERROR, lambda row: row.estimate),
        Column("95 % interval", kinds.INTERVAL, lambda row: row.estimate),
        Column("lies between", kinds.TEXT, lambda row: row.bounds and f"{row.bounds[0]:.3f} and {row.bounds[1]:.3f}"),
        Column("beta-binomial model", kinds.WITH_ERROR, lambda row: row.forecast, rank=1, moves=True),
        Column("its 95 %", kinds.INTERVAL, lambda row: row.forecast, rank=1, moves=True),
    )
    rows: Sequence[PassPower] = [row for plan in plans for row in plan.powers]
    tables = [Table.of(powers, rows, row=lambda row: {"note": row.note} if row.note else {}, notes_name="note")]
    for plan in plans:
        columns: tuple[Column[Split], ...] = (
            Column("draws a doc", kinds.COUNT, lambda row: row.draws),
            Column("docs", kinds.COUNT, lambda row: row.docs),
            Column(f"± {plan.metric}", kinds.NUMBER, lambda row: row.mean),
            Column(f"± pass^{plan.k}", kinds.NUMBER, lambda row: row.power),
        )
        tables.append(
            Table.of(
                columns,
                plan.splits,
                title=f"{plan.task}: the same number of draws, as more docs or as more draws of each",
            )
        )
    notes = (
        "lies between: bounds at 95 % that hold however hard each doc is. The model assumes that the docs' chances of being solved are beta-distributed; its interval does not cover other assumptions.",
        "±: standard errors to expect. More docs are better for a mean; pass^k needs k draws of each.",
    )
    return Findings("More draws", tables=tuple(tables), notes=notes, result=plans)
