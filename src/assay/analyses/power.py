"""How large an evaluation must be, from earlier runs or from assumptions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.analyses.noise_file import NoiseFile
from assay.errors import ConfigError
from assay.finished import DocColumn, Run, align, shared_keys
from assay.stats import (
    PairedNoise,
    detectable_effect,
    docs_needed,
    mean_estimate,
    paired_difference,
    repeats_needed,
    unit_index,
    unit_keys,
)


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
    needed: int | None
    """None: no number of docs would do, for serving noise alone hides it."""
    detectable: float | None
    repeats: int | None
    """Draws per doc at which the docs there are would do; None if no number would, or if draws do not vary."""


@dataclass(frozen=True)
class PowerAssumptions:
    """What to assume if there is no run."""

    effect: float
    alpha: float = 0.05
    power: float = 0.8
    correlation: float = 0.5
    within: float = 0.0
    """Mean variance of one draw of a doc."""
    accuracy: float = 0.5
    draws: int = 1
    tests: int = 1
    """Comparisons that the correction counts: Holm's first step, which the smallest p-value must pass."""
    serving: NoiseFile | None = None


def plan_from_runs(runs: Sequence[Run], task: str, metric: str | None, wish: PowerAssumptions) -> SizePlan:
    """Two runs give the paired variance itself; one gives the variance of its scores and needs a correlation."""
    columns = [run.columns(task) for run in runs]
    keys = shared_keys(columns, metric)
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
    wish = replace(wish, alpha=wish.alpha / wish.tests)
    # Runs that differ by δ on average differ by 1 on a share δ of the docs, at least: their variance is δ − δ² or more.
    least = wish.effect - wish.effect**2 if wish.effect < 1 else 0.0
    if noise.per_doc() < least:
        noise = replace(noise, between=noise.between + least - noise.per_doc())
    if wish.serving is not None:
        noise, source = _with_serving(noise, source, task, metric, wish.serving)
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


def _with_serving(
    noise: PairedNoise, source: str, task: str, metric: str, serving: NoiseFile
) -> tuple[PairedNoise, str]:
    """What servers add. A plan without runs names no metric: it takes the task's first."""
    rows = [row for row in serving.rows if row.name == task]
    row = next((row for row in rows if row.metric == metric), rows[0] if rows and metric == "accuracy" else None)
    if row is None:
        return noise, f"{source}; {serving.path or 'noise file'} does not have it"
    return replace(noise, floor=row.serving.floor), f"{source}; {row.note()}"


def plan_without_runs(task: str, n: int | None, wish: PowerAssumptions) -> SizePlan:
    _require_possible(wish)
    variance = wish.accuracy * (1 - wish.accuracy)
    between = max(0.0, 2 * (1 - wish.correlation) * variance - 2 * wish.within)
    source = f"assumed: accuracy {wish.accuracy:g}, correlation {wish.correlation:g}"
    return _make_plan(task, "accuracy", PairedNoise(between, wish.within, wish.within), source, n, wish)


def _require_possible(wish: PowerAssumptions) -> None:
    """Two 0/1 scores of different means cannot agree on every doc, nor disagree on all."""
    p = wish.accuracy
    q = p + wish.effect if p + wish.effect <= 1 else p - wish.effect
    if not 0 <= q <= 1:
        raise ConfigError(
            f"a difference of {wish.effect:g} is not possible at an accuracy of {p:g}",
            hint="Plan for a smaller difference.",
        )
    scale = math.sqrt(p * (1 - p) * q * (1 - q))
    if scale == 0:
        return
    low, high = (max(0.0, p + q - 1) - p * q) / scale, (min(p, q) - p * q) / scale
    if not low - 1e-9 <= wish.correlation <= high + 1e-9:
        raise ConfigError(
            f"accuracies of {p:g} and {q:g} cannot have a correlation of {wish.correlation:g}: {low:.2f} to {high:.2f} is possible",
            hint="Use another --correlation, or two earlier runs with --from.",
        )


def _from_one(column: DocColumn, repeats: int, wish: PowerAssumptions) -> tuple[PairedNoise, str]:
    if len(column) < 2:
        raise ConfigError("one doc has no variance", hint="Plan with a run on more docs, or without --from.")
    within = _within(column, repeats) or wish.within
    index = unit_index(unit_keys(column.docs, column.clusters))
    own = mean_estimate(column.values, index)
    single = (own.stderr or 0.0) ** 2 * len(column) + within * (1 - 1 / repeats)
    between = max(0.0, 2 * (1 - wish.correlation) * single - 2 * within)
    return PairedNoise(between, within, within), f"one run, correlation {wish.correlation:g} assumed"


def _from_two(a: DocColumn, b: DocColumn, task: str, repeats: int) -> tuple[PairedNoise, str, int]:
    pairs = align(a, b)
    if len(pairs) < 2:
        raise ConfigError(f"{task}: the runs have {len(pairs)} docs in common", hint="Use runs on the same docs.")
    left, right = a.take(pairs.shared[0]), b.take(pairs.shared[1])
    within_a, within_b = _within(left, repeats), _within(right, repeats)
    # Its variance of a doc counts clusters, and is above zero even where the runs never differed.
    total = (
        paired_difference(left.values, right.values, unit_index(unit_keys(left.docs, left.clusters))).doc_variance
        or 0.0
    )
    between = max(0.0, total - (within_a + within_b) / repeats)
    return PairedNoise(between, within_a, within_b), "paired variance of two runs", len(pairs)


def _within(column: DocColumn, repeats: int) -> float:
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
