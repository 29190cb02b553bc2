"""Error bars of other harnesses' runs, made from their samples by our methods, and marked as ours.

A results file tells a value and a normal standard error: 0 of 6 right would be [0, 0], 1 of 2 [−0.48, 1.48]. Where the
samples give the very number that was reported, its interval is computed anew; where they do not (samples of another run,
an aggregation that is code of the task) the reported error stands, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from assay.finished.run import Columns, Run
from assay.groups import Group
from assay.metrics import AGGREGATIONS
from assay.results import GroupResult, MetricKey, RunResult, Score, TaskResult
from assay.scoring import estimate, quietly
from assay.stats import Estimate, normal_quantile

OURS = "assay, from samples"


def as_reported(value: float, stderr: Any, n: int, origin: str) -> Estimate:
    """A number of another harness; its interval is the normal one, where there is a standard error."""
    method = f"as reported by {origin}"
    if not isinstance(stderr, int | float):
        return Estimate.bare(value, n, method)
    half = normal_quantile(0.975) * stderr
    return Estimate(value, float(stderr), value - half, value + half, n, method)


def with_our_estimates(run: Run) -> RunResult:
    """The run's values, with intervals from its samples where they give them; a run of ours has them already."""
    result = run.result
    if run.is_ours:
        return result
    columns = {task: run.columns(task) for task in run.tasks}
    ours = {name: _estimated(task, columns.get(name, {})) for name, task in result.tasks.items()}
    scores: dict[str, dict[MetricKey, Score]] = {
        name: {**task.scores, **ours[name]} for name, task in result.tasks.items()
    }
    groups = {name: _group(group, ours) for name, group in result.groups.items()}
    tasks = {
        name: replace(task, scores={key: _marked(score, key in ours[name]) for key, score in scores[name].items()})
        for name, task in result.tasks.items()
    }
    made = sum(map(len, ours.values()))
    total = sum(score.estimate.value is not None for of_task in scores.values() for score in of_task.values())
    note = "error bars were computed by Assay from the samples"
    if made < total:
        note = f"error bars of {made} of {total} task scores were computed by Assay from the samples; the others are as reported"
    return replace(result, tasks=tasks, groups=groups, notes=(*result.notes, note))


def _estimated(task: TaskResult, columns: Columns) -> dict[MetricKey, Score]:
    """Scores that can be made from the samples; without those whose samples give another number."""
    scores = {}
    for key, reported in task.scores.items():
        if key not in columns or reported.estimate.value is None:
            continue
        column = columns[key].scored()
        aggregation = AGGREGATIONS[column.aggregation if column.aggregation in AGGREGATIONS else "mean"]
        values = column.values.tolist()
        if not math.isclose(quietly(aggregation, values), reported.estimate.value, rel_tol=1e-6, abs_tol=1e-9):
            continue
        made = estimate(values, aggregation, column.docs, column.clusters, higher_is_better=reported.higher_is_better)
        scores[key] = replace(made, lm_eval_stderr=reported.estimate.stderr)
    return scores


def _group(group: GroupResult, ours: Mapping[str, Mapping[MetricKey, Score]]) -> GroupResult:
    """The group's means over tasks all of whose error bars are ours."""
    scores = dict(group.scores)
    for key, reported in group.scores.items():
        names = [share.name for share in reported.children]
        if reported.aggregation != "mean" or not all(key in ours.get(name, {}) for name in names):
            continue
        shares = {share.weight for share in reported.children}
        entry = {"metric": key.metric, "filter_list": [key.filter], "weight_by_size": len(shares) > 1}
        again: Group[Any] = Group(group.name, aggregate_metric_list=[entry])
        for name in names:
            again.add(SimpleNamespace(task_name=name))  # type: ignore[arg-type]
        made = again.score({name: dict(ours[name]) for name in names}).get(key)
        if made is not None:
            scores[key] = replace(reported, estimate=_marked(made, True).estimate)
    return replace(group, scores=scores)


def _marked(score: Score, is_ours: bool) -> Score:
    method = score.estimate.method
    return replace(score, estimate=replace(score.estimate, method=f"{method} ({OURS})")) if is_ours else score
