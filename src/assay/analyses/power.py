"""How large an evaluation must be, from earlier runs or from assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from pydantic import model_validator

from assay.analyses.compare import Noise
from assay.analyses.noise_file import NoiseFile
from assay.config import CommandFlag, Names, Options, Texts, WholeNumbers, option
from assay.errors import ConfigError
from assay.finished import DocColumn, Run, align, open_run, shared_keys
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Kind, Name
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


class SizePlans(tuple[SizePlan, ...]):
    """One for each task."""

    def to_dict(self) -> list[dict[str, Any]]:
        return [asdict(plan) for plan in self]


class PowerOptions(Options):
    """The difference to be seen, and what to assume where there is no run."""

    tasks: Names = option((), "Tasks to plan for.", flag=CommandFlag("-t", "NAMES", default="all in --from"))
    effect: float = option(
        0.0, "The difference to detect: 0.02 is two points.", gt=0, flag=CommandFlag(default="needed, without --draws")
    )
    runs: Texts = option(
        (), "An earlier run; with two, their paired variance is used.", flag=CommandFlag(metavar="RUN", name="from")
    )
    metric: str | None = option(None, "Metric to plan for.", flag=CommandFlag("-m", "NAME", default="the first"))
    power: float = option(0.8, "Probability of detecting the difference if it exists.", ge=0.01, le=0.999)
    alpha: float = option(0.05, "Error rate of the two-sided test.", gt=0, le=0.5)
    correlation: float = option(
        0.5, "Correlation of the two models' scores over docs, if there are no two runs.", ge=-1, le=1
    )
    accuracy: float = option(0.5, "Expected accuracy, if there is no run.", ge=0, le=1)
    within: float = option(0.0, "Variance of one draw of a doc, if no run has several; 0 without sampling.", ge=0)
    repeats: int = option(1, "Planned draws per doc.", ge=1)
    tests: int = option(1, "Comparisons corrected together (Holm): tasks and groups of one `assay compare`.", ge=1)
    draws: bool = option(
        False, "With RUN: pass^k for more draws than it has, and whether a budget is better spent on docs or on draws."
    )
    k: WholeNumbers = option(
        (), "With --draws: k of pass^k.", flag=CommandFlag(metavar="K,…", default="up to 4 × the draws")
    )
    budget: int | None = option(
        None, "With --draws: draws in all that are to be split.", ge=2, flag=CommandFlag(default="those of the run")
    )
    docs: int | None = option(
        None, "With --draws: the most docs there can be.", ge=1, flag=CommandFlag(default="no limit")
    )
    noise: Noise = option(
        None,
        "noise.json from `assay noise`: differences that no number of docs can show.",
        flag=CommandFlag(metavar="FILE"),
    )

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if not self.draws and self.effect == 0:
            raise ConfigError("--effect is missing", hint="The difference to detect: 0.02 is two points.")
        return self


def plan_runs(options: PowerOptions, notify: Callable[[str], None]) -> SizePlans:
    """What tasks need by earlier runs. A task that cannot be planned is left out, unless it was named."""
    if len(options.runs) > 2:
        raise ConfigError(
            "--from takes one run or two", hint="Choose the two whose difference is most like the planned one."
        )
    opened = [open_run(path) for path in options.runs]
    for run in opened:
        run.require("samples", "scores")
    chosen = options.tasks or [task for task in opened[0].tasks if all(task in run.tasks for run in opened)]
    if not chosen:
        raise ConfigError("the runs have no task in common")
    plans = []
    for task in chosen:
        try:
            plans.append(plan_from_runs(opened, task, options.metric, options))
        except ConfigError as error:
            if options.tasks:
                raise
            notify(error.message if error.message.startswith(task) else f"{task}: {error.message}")
    return SizePlans(plans)


def plan_from_runs(runs: Sequence[Run], task: str, metric: str | None, wish: PowerOptions) -> SizePlan:
    """Two runs give the paired variance itself; one gives the variance of its scores and needs a correlation."""
    columns = [run.columns(task) for run in runs]
    keys = shared_keys(columns, metric)
    if not keys:
        known = ", ".join(map(str, columns[0]))
        raise ConfigError(
            f"{task} has no numeric metric {f'{metric} ' if metric else ''}in all runs", hint=f"It has {known}."
        )
    chosen = [c[keys[0]].scored() for c in columns]
    repeats = max(int(run.result.tasks[task].config.get("repeats") or 1) for run in runs)
    if len(runs) == 1:
        noise, source = _from_one(chosen[0], repeats, wish)
        n = len(chosen[0])
    else:
        noise, source, n = _from_two(chosen[0], chosen[1], task, repeats)
    return _make_plan(task, str(keys[0]), noise, source, n, wish)


def _make_plan(task: str, metric: str, noise: PairedNoise, source: str, n: int | None, wish: PowerOptions) -> SizePlan:
    draws = {"repeats_a": wish.repeats, "repeats_b": wish.repeats}
    wish = wish.model_copy(update={"alpha": wish.alpha / wish.tests})
    # Runs that differ by δ on average differ by 1 on a share δ of the docs, at least: their variance is δ − δ² or more.
    least = wish.effect - wish.effect**2 if wish.effect < 1 else 0.0
    if noise.per_doc() < least:
        noise = replace(noise, between=noise.between + least - noise.per_doc())
    if wish.noise is not None:
        noise, source = _with_serving(noise, source, task, metric, wish.noise)
    varies = noise.within_a + noise.within_b > 0
    if varies:
        share = (noise.within_a + noise.within_b) / noise.per_doc()
        source += f"; with one draw per doc, {1 - share:.0%} of it comes from docs and {share:.0%} from draws"
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
    return replace(noise, floor=row.serving.floor), f"{source}; {row.note(row.n)}"


def plan_without_runs(task: str, n: int | None, wish: PowerOptions) -> SizePlan:
    _require_possible(wish)
    variance = wish.accuracy * (1 - wish.accuracy)
    between = max(0.0, _of_difference(variance, wish.accuracy, wish) - 2 * wish.within)
    source = f"assumed: accuracy {wish.accuracy:g}, correlation {wish.correlation:g}"
    return _make_plan(task, "accuracy", PairedNoise(between, wish.within, wish.within), source, n, wish)


def _of_difference(variance: float, accuracy: float | None, wish: PowerOptions) -> float:
    """The variance of a doc's difference, from that of one run's scores. Of 0/1 scores the other run has the accuracy plus or
    minus the effect, and the worst of the three counts for it."""
    if accuracy is None or not 0 < accuracy < 1:
        return 2 * (1 - wish.correlation) * variance
    others = [q for q in (accuracy - wish.effect, accuracy + wish.effect) if 0 <= q <= 1]
    of_others = [variance, *(variance * q * (1 - q) / (accuracy * (1 - accuracy)) for q in others)]
    return max(variance + other - 2 * wish.correlation * math.sqrt(variance * other) for other in of_others)


def _require_possible(wish: PowerOptions) -> None:
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


def _from_one(column: DocColumn, repeats: int, wish: PowerOptions) -> tuple[PairedNoise, str]:
    if len(column) < 2:
        raise ConfigError("one doc has no variance", hint="Plan with a run on more docs, or without --from.")
    within = _within(column, repeats) or wish.within
    index = unit_index(unit_keys(column.docs, column.clusters))
    own = mean_estimate(column.values, index)
    single = (own.stderr or 0.0) ** 2 * len(column) + within * (1 - 1 / repeats)
    is_binary = bool(np.isin(column.values, (0.0, 1.0)).all())
    accuracy = float(column.values.mean()) if is_binary else None
    between = max(0.0, _of_difference(single, accuracy, wish) - 2 * within)
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


def findings(plans: SizePlans, options: PowerOptions) -> Findings:
    draws = "" if options.repeats == 1 else f", {options.repeats} draws per doc"
    many = "" if options.tests == 1 else f", corrected for {options.tests} tests"
    said = f"Power {options.power:.0%} at a two-sided error rate of {options.alpha:g}{draws}{many}; paired, doc by doc."

    def repeats(plan: SizePlan) -> str | None:
        if plan.noise.within_a + plan.noise.within_b == 0:
            return None
        return "no number is enough" if plan.repeats is None else str(plan.repeats)

    columns: tuple[Column[SizePlan], ...] = (
        Column("task", kinds.NAME, lambda plan: Name(plan.task), shrinks=True),
        Column("metric", kinds.TEXT, lambda plan: plan.metric, shrinks=True),
        Column("docs now", kinds.COUNT, lambda plan: plan.n, rank=1, moves=True),
        Column(f"docs for {options.effect:g}", NEEDED, lambda plan: plan, "docs_needed"),
        Column("draws with docs now", RIGHT_TEXT, repeats, rank=2, moves=True),
        Column("visible now", kinds.NUMBER, lambda plan: plan.detectable),
    )
    table = Table.of(columns, plans, row=lambda plan: {"note": plan.source}, notes_name="variance from")
    return Findings(f"Docs to see a difference of {options.effect:g}", tables=(table,), notes=(said,), result=plans)


NEEDED = Kind(
    lambda plan: "no number" if plan.needed is None else f"{plan.needed:,}",
    data=lambda plan: (plan.needed,),
    right=True,
)
RIGHT_TEXT = Kind(str, right=True)
