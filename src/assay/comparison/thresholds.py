"""Fixed numbers that a run must reach: one-sided bounds, Wilson for 0/1 scores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.comparison.checks import Check, Gate, is_number, require_names
from assay.comparison.model import Options
from assay.comparison.readers import open_run
from assay.comparison.views import RunView
from assay.errors import ConfigError
from assay.stats import above_threshold, summary_above_threshold


def thresholds_of(data: Mapping[str, Any], path: Path) -> dict[tuple[str, str], float]:
    """`{"task": 0.5}` or `{"task": {"acc,none": 0.5}}`."""
    found: dict[tuple[str, str], float] = {}
    for task, entry in data.items():
        for key, value in entry.items() if isinstance(entry, Mapping) else [("", entry)]:
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise ConfigError(f"{path}: the threshold of {task} {key} is {value!r}, not a number")
            found[task, str(key)] = float(value)
    if not found:
        raise ConfigError(f"{path} holds no thresholds", hint='Expected {"task": {"acc,none": 0.5}}.')
    return found


def gate_thresholds(run: str | Path, thresholds: Mapping[tuple[str, str], float], options: Options) -> Gate:
    """One check a metric that is named, under each filter; where none is named, the task's first."""
    view = open_run(run)
    require_names((task for task, _ in thresholds), view)
    checks, notes = [], []
    for (task, asked), limit in thresholds.items():
        keys = [k for k in view.reported[task] if (k == asked or k.rpartition(",")[0] == asked or not asked) and options.wants(k)]  # fmt: skip
        if not keys:
            raise ConfigError(f"{task} has no metric {asked!r}", hint=f"It has {', '.join(view.reported[task])}.")
        if not asked and len(keys) > 1:
            notes.append(f"{task}: {keys[0]} was checked, and not {', '.join(keys[1:])}; --metric names others")
            keys = keys[:1]
        checks += [_check(view, task, key, limit, options) for key in keys]
    return Gate(tuple(checks), tuple(notes))


def _check(view: RunView, task: str, key: str, limit: float, options: Options) -> Check:
    estimate = view.reported[task][key]
    if reason := view.withheld.get((task, key)):
        return Check.failed(task, key, f"withheld: {reason}", options)
    if not is_number(estimate):
        return Check.failed(task, key, f"undefined: {estimate.undefined or 'not a number'}", options)
    up = view.higher_is_better(task, key.partition(",")[0])
    values = _averaged(view, task, key)
    if values is not None:
        result = above_threshold(values, limit, alpha=options.alpha, higher_is_better=up)
        return Check(task, key, result, "threshold", float(values.mean()), None, len(values))
    assert estimate.value is not None
    result = summary_above_threshold(
        estimate.value, estimate.stderr, estimate.n, limit, alpha=options.alpha, higher_is_better=up
    )
    return Check(task, key, result, "threshold", estimate.value, None, estimate.n)


def _averaged(view: RunView, task: str, key: str) -> NDArray[np.float64] | None:
    """The docs' values, where the score is their mean and each stands by itself."""
    column = view.columns(task).get(key) if task in view.tasks else None
    if column is None or not column.numeric or column.clusters is not None:
        return None
    if key.partition(",")[0] in view.aggregations.get(task, {}):
        return None
    values: NDArray[np.float64] = column.values[~np.isnan(column.values)]
    return values if len(values) else None
