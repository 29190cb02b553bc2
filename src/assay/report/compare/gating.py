"""May this run pass? Non-inferiority to a baseline, or a bound against fixed thresholds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import ConfigError, did_you_mean
from assay.report.compare.engine import compare_runs
from assay.report.compare.model import Options
from assay.report.compare.readers import open_run
from assay.report.compare.views import RunView
from assay.report.importing import reported_estimates
from assay.stats import (
    Estimate,
    GateResult,
    above_threshold,
    non_inferiority,
    summary_above_threshold,
    unpaired_difference,
)


@dataclass(frozen=True)
class Check:
    """One number that must hold."""

    name: str
    key: str
    result: GateResult
    kind: str
    """`paired`, `unpaired`, `threshold`, or why there is nothing to check."""
    value: float | None
    against: float | None
    n: int

    def line(self) -> str:
        """For the log of a build."""
        word = "PASS" if self.result.passed else "FAIL"
        if not self.key:
            return f"{word}  {self.name}: {self.kind}"
        confidence = f"{1 - self.result.alpha:.0%}"
        bound = "no error bar" if self.result.bound is None else f"{self.result.bound:+.4f}"
        value = "undefined" if self.value is None else f"{self.value:.4f}"
        if self.kind == "threshold":
            low = "no error bar" if self.result.bound is None else f"{self.result.bound:.4f}"
            return f"{word}  {self.name} {self.key}: {value} (n = {self.n:,}), {confidence} bound {low}, threshold {self.result.limit:g}"  # fmt: skip
        return f"{word}  {self.name} {self.key}: {value} vs {self.against:.4f} (n = {self.n:,}, {self.kind}), {confidence} bound on the difference {bound}, margin {self.result.limit:+g}"  # fmt: skip


@dataclass(frozen=True)
class Gate:
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(check.result.passed for check in self.checks)


def gate_against(run: str | Path, baseline: str | Path, options: Options) -> Gate:
    """Against a baseline: a run (paired), a results file (unpaired), or a JSON file of thresholds."""
    where = Path(baseline)
    if not where.exists():
        raise ConfigError(f"the baseline {baseline} does not exist", hint="Give a run directory, a results file, or a JSON file of thresholds.")  # fmt: skip
    if where.is_file() and where.suffix == ".json":
        data = _read(where)
        if "results" in data:
            return _against_results(open_run(run), data, where, options)
        return gate_thresholds(run, thresholds_of(data, where), options)
    return _against_run(open_run(run), open_run(where), options)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path} does not hold an object", hint='Expected {"task": {"acc,none": 0.5}} or a results file.')  # fmt: skip
    return data


def _against_run(new: RunView, base: RunView, options: Options) -> Gate:
    (comparison,) = compare_runs([base, new], options)
    asked = set(options.tasks)
    rows = [row for row in comparison.rows if not asked or row.name in asked]
    checks = [
        Check(
            row.name,
            row.key,
            non_inferiority(row.difference, row.margin, alpha=options.alpha, higher_is_better=row.higher_is_better),
            "paired" if row.paired else "unpaired",
            row.difference.b,
            row.difference.a,
            row.difference.estimate.n,
        )
        for row in rows
    ]
    # What cannot be compared has not been shown to be no worse; a number that is new, or that nobody has, is no loss.
    refusals = [r for r in comparison.refusals if not asked or r.name in asked]
    lost = GateResult(False, None, -options.margin, options.alpha)
    checks += [Check(r.name, "", lost, r.reason, None, None, 0) for r in refusals if r.kind in ("differs", "only_a")]
    return Gate(tuple(checks), tuple(f"{r.name}: {r.reason}" for r in refusals if r.kind in ("only_b", "undefined")))


def _against_results(new: RunView, data: dict[str, Any], path: Path, options: Options) -> Gate:
    """Only scores and standard errors are known: the errors add up."""
    base = {name: _estimates(name, entry, data) for name, entry in data["results"].items()}
    checks = list(_summary_checks(new, base, options))
    if not checks:
        raise ConfigError(f"{path} and {new.path} have no score in common")
    return Gate(
        tuple(checks), (f"{path} has scores only; with its samples the comparison would be paired and sharper",)
    )


def _estimates(name: str, entry: dict[str, Any], data: dict[str, Any]) -> dict[str, Estimate]:
    found = reported_estimates(name, entry, data)
    return {key: Estimate(**{k: v for k, v in e.items() if k != "higher_is_better"}) for key, e in found.items()}


def _summary_checks(new: RunView, base: Mapping[str, Mapping[str, Estimate]], options: Options) -> Iterator[Check]:
    _known(options.tasks, new)
    for name in new.reported:
        if options.tasks and name not in options.tasks:
            continue
        for key, estimate in new.reported[name].items():
            before = base.get(name, {}).get(key)
            if before is None or not options.wants(key) or estimate.value is None or before.value is None:
                continue
            difference = unpaired_difference(before, estimate)
            margin = options.margin_for(difference.a, difference.b)
            up = new.higher_is_better(name, key.partition(",")[0])
            result = non_inferiority(difference, margin, alpha=options.alpha, higher_is_better=up)
            yield Check(name, key, result, "unpaired", estimate.value, before.value, estimate.n)


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
    """One-sided bounds against fixed numbers: Wilson for 0/1 scores."""
    view = open_run(run)
    _known([task for task, _ in thresholds], view)
    checks = []
    for (task, asked), limit in thresholds.items():
        keys = [k for k in view.reported[task] if (k == asked or k.rpartition(",")[0] == asked or not asked) and options.wants(k)]  # fmt: skip
        if not keys:
            raise ConfigError(f"{task} has no metric {asked!r}", hint=f"It has {', '.join(view.reported[task])}.")
        checks.append(_threshold(view, task, keys[0], limit, options))
    return Gate(tuple(checks))


def _threshold(view: RunView, task: str, key: str, limit: float, options: Options) -> Check:
    estimate = view.reported[task][key]
    up = view.higher_is_better(task, key.partition(",")[0])
    column = view.columns(task).get(key) if task in view.tasks else None
    values = None if column is None or not column.numeric else column.values[~np.isnan(column.values)]
    average = key.partition(",")[0] not in view.aggregations.get(task, {})
    if values is not None and average and column is not None and column.clusters is None:
        result = above_threshold(values, limit, alpha=options.alpha, higher_is_better=up)
        return Check(task, key, result, "threshold", float(values.mean()) if len(values) else None, None, len(values))
    value = float("nan") if estimate.value is None else estimate.value
    result = summary_above_threshold(
        value, estimate.stderr, estimate.n, limit, alpha=options.alpha, higher_is_better=up
    )
    return Check(task, key, result, "threshold", estimate.value, None, estimate.n)


def _known(names: Any, view: RunView) -> None:
    for name in names:
        if name not in view.reported:
            raise ConfigError(f"{view.path} has no task or group {name!r}", hint=did_you_mean(name, view.reported))
