"""How large an evaluation must be, from earlier runs or from assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.comparison.runs import ComparedRun, SampleColumn
from assay.comparison.task_difference import align
from assay.errors import ConfigError
from assay.results import matching
from assay.stats import PairedNoise, detectable_effect, docs_needed, paired_difference, repeats_needed


@dataclass(frozen=True)
class SizePlan:
    """What one task needs and what it can show."""

    task: str
    metric: str
    noise: PairedNoise
    source: str
    """Where the variance comes from, in words."""
    n: int | None
    """Docs there are."""
    needed: int
    detectable: float | None
    repeats: int | None
    """Draws per doc at which the docs there are would do; None if no number would, or if draws do not vary."""


@dataclass(frozen=True)
class PowerAssumptions:
    """What to plan with where no run says better."""

    effect: float
    alpha: float = 0.05
    power: float = 0.8
    correlation: float = 0.5
    within: float = 0.0
    """Mean variance of one draw of a doc."""
    accuracy: float = 0.5
    draws: int = 1


def plan_from_runs(runs: Sequence[ComparedRun], task: str, metric: str | None, wish: PowerAssumptions) -> SizePlan:
    """Two runs give the paired variance itself; one gives the variance of its scores and needs a correlation."""
    columns = [run.columns(task) for run in runs]
    shared = [key for key in columns[0] if all(key in c and c[key].is_numeric for c in columns)]
    keys = shared if metric is None else matching(metric, shared)
    if not keys:
        known = ", ".join(map(str, columns[0]))
        raise ConfigError(f"{task} has no numeric metric {metric or ''} in all runs", hint=f"It has {known}.")
    chosen = [c[keys[0]].scored() for c in columns]
    repeats = max(int(run.result.tasks[task].config.get("repeats") or 1) for run in runs)
    if len(runs) == 1:
        noise, source = _from_one(chosen[0], repeats, wish)
        n = len(chosen[0])
    else:
        noise, source, n = _from_two(chosen[0], chosen[1], task, repeats)
    return _make_plan(task, str(keys[0]), noise, source, n, wish)


def _make_plan(
    task: str, metric: str, noise: PairedNoise, source: str, n: int | None, wish: PowerAssumptions
) -> SizePlan:
    draws = {"repeats_a": wish.draws, "repeats_b": wish.draws}
    varies = noise.within_a + noise.within_b > 0
    return SizePlan(
        task,
        metric,
        noise,
        source,
        n,
        docs_needed(wish.effect, noise, alpha=wish.alpha, power=wish.power, **draws),
        None if not n else detectable_effect(n, noise, alpha=wish.alpha, power=wish.power, **draws),
        repeats_needed(wish.effect, n, noise, alpha=wish.alpha, power=wish.power) if n and varies else None,
    )


def plan_without_runs(task: str, n: int | None, wish: PowerAssumptions) -> SizePlan:
    variance = wish.accuracy * (1 - wish.accuracy)
    between = max(0.0, 2 * (1 - wish.correlation) * variance - 2 * wish.within)
    source = f"assumed: accuracy {wish.accuracy:g}, correlation {wish.correlation:g}"
    return _make_plan(task, "accuracy", PairedNoise(between, wish.within, wish.within), source, n, wish)


def _from_one(column: SampleColumn, repeats: int, wish: PowerAssumptions) -> tuple[PairedNoise, str]:
    if len(column) < 2:
        raise ConfigError("one doc has no variance", hint="Plan with a run on more docs, or without --from.")
    within = _within(column, repeats) or wish.within
    single = float(column.values.var(ddof=1)) + within * (1 - 1 / repeats)
    between = max(0.0, 2 * (1 - wish.correlation) * single - 2 * within)
    return PairedNoise(between, within, within), f"one run, correlation {wish.correlation:g} assumed"


def _from_two(a: SampleColumn, b: SampleColumn, task: str, repeats: int) -> tuple[PairedNoise, str, int]:
    pairs = align(a, b)
    if len(pairs) < 2:
        raise ConfigError(f"{task}: the runs have {len(pairs)} docs in common", hint="Give runs on the same docs.")
    left, right = a.take(pairs.a), b.take(pairs.b)
    within_a, within_b = _within(left, repeats), _within(right, repeats)
    # Its variance of a doc counts clusters, and is above zero even where the runs never differed.
    total = paired_difference(left.values, right.values, left.clusters).doc_variance or 0.0
    between = max(0.0, total - (within_a + within_b) / repeats)
    return PairedNoise(between, within_a, within_b), "paired variance of two runs", len(pairs)


def _within(column: SampleColumn, repeats: int) -> float:
    """From shares of right draws: p(1−p) of each doc, with the correction for estimating p by the same draws."""
    values = column.values
    if (
        repeats < 2
        or values.min() < 0
        or values.max() > 1
        or not np.allclose(values * repeats, np.round(values * repeats))
    ):
        return 0.0
    return float((values * (1 - values)).mean()) * repeats / (repeats - 1)
