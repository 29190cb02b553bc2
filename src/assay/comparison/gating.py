"""May this run pass? Non-inferiority to a baseline, number by number of the baseline. What cannot be shown fails."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.comparison.checks import Check, Gate, is_number, require_names
from assay.comparison.engine import compare_runs
from assay.comparison.model import Options, Row
from assay.comparison.readers import open_run
from assay.comparison.thresholds import gate_thresholds, thresholds_of
from assay.comparison.views import Column, RunView
from assay.errors import ConfigError, did_you_mean
from assay.report.importing import reported_estimates
from assay.report.withheld import withheld_in
from assay.stats import Estimate, non_inferiority, unpaired_difference


def gate_against(run: str | Path, baseline: str | Path, options: Options) -> Gate:
    """Against a baseline: a run (paired), a results file (unpaired), or a JSON file of thresholds."""
    where = Path(baseline)
    if not where.exists():
        raise ConfigError(f"the baseline {baseline} does not exist", hint="Give a run directory, a results file, or a JSON file of thresholds.")  # fmt: skip
    if where.is_file() and where.suffix == ".json":
        data = _read(where)
        if "results" in data:
            return _against_results(open_run(run), _scores_only(data, where), options)
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
    wanted = list(_wanted(base, options))
    (comparison,) = compare_runs([base, new], options)
    asked = set(options.tasks)
    checks = [_paired(row, new, base, options) for row in comparison.rows if not asked or row.name in asked]
    # What cannot be compared has not been shown to be no worse; a number that is new, or that nobody has, is no loss.
    refusals = [r for r in comparison.refusals if not asked or r.name in asked]
    checks += [Check.failed(r.name, "", r.reason, options) for r in refusals if r.kind in ("differs", "only_a")]
    seen = {(check.name, check.key) for check in checks}
    refused = {r.name for r in refusals}
    rest = [(name, key) for name, key in wanted if name not in refused and (name, key) not in seen]
    unpaired = _as_reported(rest, new, base, options)
    notes = [f"{r.name}: {r.reason}" for r in refusals if r.kind in ("only_b", "undefined")]
    return Gate((*checks, *unpaired.checks), (*notes, *unpaired.notes))


def _paired(row: Row, new: RunView, base: RunView, options: Options) -> Check:
    if reason := _unusable(row.name, row.key, new, base):
        return Check.failed(row.name, row.key, reason, options)
    result = non_inferiority(row.difference, row.margin, alpha=options.alpha, higher_is_better=row.higher_is_better)
    kind = "paired" if row.paired else "unpaired"
    return Check(row.name, row.key, result, kind, row.difference.b, row.difference.a, row.difference.estimate.n)


def _unusable(name: str, key: str, new: RunView, base: RunView) -> str | None:
    """Why a number cannot decide anything: it is withheld, here or in the baseline."""
    if reason := new.withheld.get((name, key)):
        return f"withheld: {reason}"
    if reason := base.withheld.get((name, key)):
        return f"withheld in the baseline: {reason}"
    return None


def _wanted(base: RunView, options: Options) -> Iterator[tuple[str, str]]:
    """Every number of the baseline that must hold. A name or metric that was asked for must be among them."""
    require_names(options.tasks, base)
    found = [
        (name, key) for name in options.tasks or base.reported for key in base.reported[name] if options.wants(key)
    ]
    for name in options.tasks:
        if not any(each == name for each, _ in found):
            raise ConfigError(f"{base.path} has no {' or '.join(options.metrics) or 'number'} of {name}", hint=f"It has {', '.join(base.reported[name]) or 'none'}.")  # fmt: skip
    for metric in options.metrics:
        if not any(metric in (key, key.rpartition(",")[0]) for _, key in found):
            known = dict.fromkeys(key.rpartition(",")[0] for entries in base.reported.values() for key in entries)
            raise ConfigError(f"{base.path} has no metric {metric!r}", hint=did_you_mean(metric, known) or f"It has {', '.join(known)}.")  # fmt: skip
    yield from found


def _scores_only(data: dict[str, Any], path: Path) -> RunView:
    """A results file by itself: scores and standard errors, no docs."""

    def nothing(task: str) -> dict[str, Column]:
        raise ConfigError(f"{path} has no samples")

    reported = {name: _estimates(name, entry, data) for name, entry in data["results"].items()}
    withheld = withheld_in(data["assay"]) if "assay" in data else {}
    return RunView(path, str(data.get("model_name", "")), "results", (), nothing, reported, withheld=withheld)


def _against_results(new: RunView, base: RunView, options: Options) -> Gate:
    """Only scores and standard errors are known: the errors add up."""
    wanted = list(_wanted(base, options))
    if not any(key in new.reported.get(name, {}) for name, key in wanted):
        raise ConfigError(f"{base.path} and {new.path} have no score in common")
    gate = _as_reported(wanted, new, base, options)
    only = f"{base.path} has scores only; with its samples the comparison would be paired and sharper"
    return Gate(gate.checks, (only, *gate.notes))


def _as_reported(wanted: Sequence[tuple[str, str]], new: RunView, base: RunView, options: Options) -> Gate:
    """Numbers without docs to pair. What the baseline itself does not have is no loss."""
    held = [(n, k) for n, k in wanted if (n, k) in base.withheld or is_number(base.reported[n][k])]
    checks = tuple(_unpaired(name, key, new, base, options) for name, key in held)
    return Gate(checks, tuple(f"{n} {k}: undefined in the baseline" for n, k in wanted if (n, k) not in held))


def _unpaired(name: str, key: str, new: RunView, base: RunView, options: Options) -> Check:
    before, now = base.reported[name][key], new.reported.get(name, {}).get(key)
    if reason := _unusable(name, key, new, base):
        return Check.failed(name, key, reason, options)
    if now is None:
        return Check.failed(name, key, "only in the baseline", options)
    if not is_number(now):
        return Check.failed(name, key, f"undefined: {now.undefined or 'not a number'}", options)
    difference = unpaired_difference(before, now)
    margin = options.margin_for(difference.a, difference.b)
    up = new.higher_is_better(name, key.partition(",")[0])
    result = non_inferiority(difference, margin, alpha=options.alpha, higher_is_better=up)
    return Check(name, key, result, "unpaired", now.value, before.value, now.n)


def _estimates(name: str, entry: dict[str, Any], data: dict[str, Any]) -> dict[str, Estimate]:
    found = reported_estimates(name, entry, data)
    return {key: Estimate(**{k: v for k, v in e.items() if k != "higher_is_better"}) for key, e in found.items()}
