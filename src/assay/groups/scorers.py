"""A group's own scorer: numbers of the group that are no aggregate of one metric.

    def gap(values):
        return {"gap": values["easy"]["acc,none"] - values["hard"]["acc,none"]}

It gets `{task: {"metric,filter": value}}` and returns `{metric: value}`; keys without a filter are under `none`. Like an
aggregator, it is applied to every replicate, which gives each of its numbers an error bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.config import FunctionRef
from assay.errors import ScoringError
from assay.groups.compute import GroupScore, Share
from assay.groups.formulas import Floats
from assay.groups.group import Group, node_name
from assay.groups.keys import MetricKey
from assay.groups.lift import docs_below
from assay.groups.members import Scores
from assay.stats import Estimate, Score, bootstrap_estimate

Values = dict[str, dict[str, float]]


def run_scorer(group: Group, scores: Scores) -> dict[MetricKey, GroupScore]:
    """The numbers a group's `scorer` gives, with the error bars of its replicates."""
    scorer = group.config.scorer
    fn = scorer.load() if isinstance(scorer, FunctionRef) else scorer
    name = getattr(fn, "__name__", "scorer")
    tasks = [node_name(task) for task in group.get_all_tasks()]
    inputs = {
        task: {k: s for k, s in scores[task].items() if s.estimate.value is not None}
        for task in tasks
        if task in scores
    }
    missing = {task: "was not scored" for task in tasks if task not in scores}
    point = {task: {str(key): float(score.estimate.value or 0.0) for key, score in found.items()} for task, found in inputs.items()}  # fmt: skip
    numbers = _called(group, name, fn, point)
    size = sum(max((score.size for score in found.values()), default=0) for found in inputs.values())
    below = [score for found in inputs.values() for score in found.values()]
    table = _replicates(group, name, fn, inputs, list(numbers))
    results: dict[MetricKey, GroupScore] = {}
    for text, value in numbers.items():
        key = MetricKey.parse(text) if MetricKey.is_key(text) else MetricKey(text)
        draws = table[text]
        estimate = Estimate.missing(f"{name} gives no value", size) if value is None else bootstrap_estimate(value, draws, size)  # fmt: skip
        shares = tuple(Share(task, None, found[str(key)]) for task, found in point.items() if str(key) in found)
        results[key] = GroupScore(estimate, size, lambda draws=draws: draws, higher_is_better=None, keys=lambda: docs_below(below), aggregator=name, children=shares, missing=missing)  # type: ignore[misc]  # fmt: skip
    return results


def _called(group: Group, name: str, fn: Any, values: Values) -> dict[str, float | None]:
    where = f"group {group.name!r}: the scorer {name!r}"
    try:
        result = fn(values)
    except Exception as error:
        raise ScoringError(f"{where} raised {type(error).__name__}: {error}") from error
    if not isinstance(result, Mapping):
        raise ScoringError(f"{where} returned {result!r:.80}", hint="A scorer returns {metric: value}.")
    for key, value in result.items():
        if value is not None and not isinstance(value, int | float | np.number):
            raise ScoringError(f"{where} gives {key} = {value!r:.80}", hint="Each value is a number, or None.")
    return {str(key): None if value is None else float(value) for key, value in result.items()}


def _replicates(
    group: Group, name: str, fn: Any, inputs: Mapping[str, Mapping[MetricKey, Score]], keys: list[str]
) -> dict[str, Floats]:
    draws = {task: {str(key): score.draws for key, score in found.items()} for task, found in inputs.items()}
    count = min((len(row) for found in draws.values() for row in found.values()), default=0)
    table = {key: np.full(count, np.nan) for key in keys}
    for b in range(count):
        values: Values = {task: {key: float(row[b]) for key, row in found.items()} for task, found in draws.items()}
        for key, value in _one(group, name, fn, values).items():
            if key in table and value is not None:
                table[key][b] = value
    return table


def _one(group: Group, name: str, fn: Any, values: Values) -> dict[str, float | None]:
    try:
        return _called(group, name, fn, values)
    except ScoringError as error:
        if isinstance(error.__cause__, ArithmeticError | ValueError):
            return {}  # a replicate in which the scorer has no value; beyond a few the error bar is withheld
        raise
