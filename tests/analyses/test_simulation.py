"""Whole comparisons over and over: false verdicts, false passes, and power as predicted."""

import math
from pathlib import Path

import numpy as np
import pytest

from assay.analyses.compare import CompareOptions, compare_runs
from assay.analyses.power import PowerOptions, plan_from_runs
from assay.finished import DocColumn, Run
from assay.results import GroupResult, GroupScore, MetricKey, RunResult, Score, Share, TaskResult
from assay.stats import Estimate, mean_estimate, non_inferiority

KEY = MetricKey("acc")
REPETITIONS = 400
ALARM = 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / REPETITIONS)


def made(name: str, scores: dict[str, np.ndarray], docs: dict[str, np.ndarray]) -> Run:
    """A run in memory; two groups over its tasks, one of them no mean."""
    columns = {
        task: {KEY: DocColumn(KEY, docs[task], docs[task], values, np.arange(len(values)))}
        for task, values in scores.items()
    }
    tasks = {
        task: TaskResult(task, task, {KEY: Score(mean_estimate(values), len(values))})
        for task, values in scores.items()
    }
    groups = {}
    for group, aggregator, weight in (("all", "mean", 1 / len(scores)), ("worst", "min", None)):
        children = tuple(Share(task, weight, 0.5) for task in scores)
        score = GroupScore(Estimate.bare(0.5, 1, "made"), 1, aggregator, children=children)
        groups[group] = GroupResult(group, group, {KEY: score}, tuple(scores))
    result = RunResult(tasks, groups, ("all", "worst"), model={"name": name})
    return Run(result, Path(name), tuple(scores), read_columns=lambda task: columns[task])


def pair(rng: np.random.Generator, sizes: dict[str, int], shift: float = 0.0) -> tuple[Run, Run]:
    docs = {task: rng.integers(0, 2**64, n, dtype=np.uint64) for task, n in sizes.items()}
    a, b = {}, {}
    for task, n in sizes.items():
        hardness = rng.beta(2, 2, n) * (1 - abs(shift)) + max(0.0, -shift)
        a[task] = (rng.random(n) < hardness).astype(float)
        b[task] = (rng.random(n) < hardness + shift).astype(float)
    return made("a", a, docs), made("b", b, docs)


@pytest.mark.slow
def test_reports_without_a_difference_hold_a_false_verdict_one_time_in_twenty() -> None:
    rng = np.random.default_rng(0)
    tasks = groups = 0
    for _ in range(REPETITIONS):
        (found,) = compare_runs(pair(rng, {"x": 60, "y": 150, "z": 300}), CompareOptions(bootstrap_iters=200))
        wrong = {row.kind for row in found.rows if row.verdict.kind in ("better", "worse")}
        tasks += "task" in wrong
        groups += "group" in wrong
    assert tasks / REPETITIONS <= ALARM
    assert groups / REPETITIONS <= ALARM


def test_gates_of_tasks_and_groups_pass_a_loss_of_the_margin_one_time_in_twenty() -> None:
    rng = np.random.default_rng(1)
    passed = dict.fromkeys(("x", "y", "all"), 0)
    for _ in range(REPETITIONS):
        (found,) = compare_runs(pair(rng, {"x": 150, "y": 300}, shift=-0.08), CompareOptions(bootstrap_iters=100))
        for name in passed:
            passed[name] += non_inferiority(found.row(name, "acc,none").difference, 0.08).passed
    assert max(passed.values()) / REPETITIONS <= ALARM


def test_the_docs_that_power_asks_for_show_the_effect_as_often_as_promised() -> None:
    rng = np.random.default_rng(2)
    plan = plan_from_runs(pair(rng, {"x": 4000}, shift=0.06), "x", None, PowerOptions(effect=0.06))
    seen = 0
    for _ in range(REPETITIONS):
        (found,) = compare_runs(
            pair(rng, {"x": plan.needed}, shift=0.06), CompareOptions(tasks=("x",), bootstrap_iters=100)
        )
        seen += found.row("x", "acc,none").verdict.kind == "better"
    assert seen / REPETITIONS == pytest.approx(0.8, abs=0.05)
