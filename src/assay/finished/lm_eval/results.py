"""Results files of lm-evaluation-harness as results of ours.

Values are taken as that harness wrote them, and a standard error becomes a normal interval; where there are samples, error bars
of ours replace it when the run is written as ours (`estimating`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from assay.config import RunConfig
from assay.errors import DataError
from assay.finished.estimating import as_reported
from assay.paths import parse_json, read_regular
from assay.results import (
    GroupResult,
    GroupScore,
    Health,
    MetricKey,
    RunResult,
    Score,
    Share,
    TaskResult,
    read_numbers,
    shown_settings,
    write_key,
)
from assay.stats import Estimate

ORIGIN = "lm-evaluation-harness"


MOST_BYTES = 256 << 20


def read_results(path: Path) -> dict[str, Any]:
    try:
        data = parse_json(read_regular(path, MOST_BYTES).decode("utf-8", "surrogatepass"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(data, dict) or "results" not in data:
        raise DataError(f"{path} has no `results`: it was not written by lm-evaluation-harness")
    return data


_BY_TASK = ["results", "groups", "group_subtasks", "configs", "versions", "n-shot", "higher_is_better", "n-samples"]
_BY_TASK += ["task_hashes"]


def with_bare_names(data: dict[str, Any]) -> dict[str, Any]:
    """The results with members of groups under their own names, as every other run has them.

    0.5 calls each `group::task`. A task that stands in two groups keeps those names: it was run for each of them.
    """
    names = {name for section in ("results", "configs") for name in data.get(section, {})}
    last = [name.rsplit("::", 1)[-1] for name in names]
    bare = {name: short for name in names if last.count(short := name.rsplit("::", 1)[-1]) == 1 and short != name}
    if not bare:
        return data
    renamed = {**data, WRITTEN_NAMES: {short: name for name, short in bare.items()}}
    for section in _BY_TASK:
        if isinstance(entries := data.get(section), dict):
            renamed[section] = {bare.get(name, name): value for name, value in entries.items()}
    for name, children in renamed.get("group_subtasks", {}).items():
        renamed["group_subtasks"][name] = [bare.get(child, child) for child in children]
    return renamed


WRITTEN_NAMES = "names as written"
"""Where `with_bare_names` puts the names that the files of samples have."""


def to_run_result(data: Mapping[str, Any]) -> RunResult:
    """A results file of that harness as a result of ours. It tells values and standard errors; the rest is unknown."""
    subtasks = data.get("group_subtasks", {})
    groups = [name for name in subtasks if name not in data.get("configs", {})]
    names = dict.fromkeys([*data["results"], *groups])
    config = data.get("config", {})
    return RunResult(
        tasks={name: _task_result(name, data) for name in names if name not in groups},
        groups={name: _group_result(name, data) for name in groups},
        roots=tuple(name for name in names if not any(name in children for children in subtasks.values())),
        model={"name": data.get("model_name") or config.get("model", ""), "args": {}, "fingerprint": ""},
        config=_config(data),
        date=data.get("date") or 0.0,
        seconds=float(data.get("total_evaluation_time_seconds") or 0.0),
        notes=(f"imported from {ORIGIN}",),
        origin=ORIGIN,
    )


def _task_result(name: str, data: Mapping[str, Any]) -> TaskResult:
    config = data.get("configs", {}).get(name, {})
    docs = int(data["results"][name].get("sample_len") or 0)
    return TaskResult(
        name=name,
        alias=_alias(name, data),
        scores=reported_scores(name, data),
        health=Health(docs=docs),
        version=data.get("versions", {}).get(name),
        num_fewshot=data.get("n-shot", {}).get(name),
        output_type=config.get("output_type"),
        config=dict(config),
        higher_is_better=data.get("higher_is_better", {}).get(name, {}),
        original=data.get("n-samples", {}).get(name, {}).get("original", 0),
        sample_len=docs,
        task_hash=data.get("task_hashes", {}).get(name, ""),
    )


def _group_result(name: str, data: Mapping[str, Any]) -> GroupResult:
    return GroupResult(
        name=name,
        alias=_alias(name, data),
        scores=reported_group_scores(name, data),
        children=tuple(data.get("group_subtasks", {}).get(name, ())),
        version=str(data.get("versions", {}).get(name, "N/A")),
        has_aggregation=name in data.get("groups", {}),
    )


def _alias(name: str, data: Mapping[str, Any]) -> str:
    return str(data["results"].get(name, {}).get("alias", name)).strip(" -")


def reported_scores(name: str, data: Mapping[str, Any]) -> dict[MetricKey, Score]:
    """Values with their standard errors; the interval is the normal one."""
    entry = data["results"].get(name, {})
    directions = data.get("higher_is_better", {}).get(name, {})
    scores = {}
    for key, (value, stderr) in read_numbers(entry).items():
        n = int(entry.get("sample_count", {}).get(write_key(key), entry.get("sample_len", 0)) or 0)
        if isinstance(value, int | float):
            estimate = as_reported(float(value), stderr, n, ORIGIN)
        else:
            estimate = replace(Estimate.missing("not available", n), method=f"as reported by {ORIGIN}")
        scores[key] = Score(estimate, n, aggregation=None, higher_is_better=_direction(key.metric, directions))
    return scores


def _direction(metric: str, directions: Mapping[str, bool | None]) -> bool | None:
    """`pass@1(exact_match)` goes where `exact_match` goes."""
    _, _, parent = metric.removesuffix(")").partition("(")
    return directions.get(metric, directions.get(parent))


def reported_group_scores(name: str, data: Mapping[str, Any]) -> dict[MetricKey, GroupScore]:
    """The file does not say how a group was averaged: by size, evenly, or neither; its number tells."""
    leaves = _leaves(name, data)
    return {
        key: GroupScore(
            score.estimate,
            score.size,
            higher_is_better=score.higher_is_better,
            **_how(score.estimate.value, key, leaves, data["results"]),
        )
        for key, score in reported_scores(name, data).items()
    }


def _leaves(name: str, data: Mapping[str, Any]) -> list[str]:
    found: dict[str, bool] = {}
    """By name, whether it is a leaf. Each is looked at once: groups may share members, and contain each other by mistake."""

    def visit(name: str) -> None:
        if name not in found:
            children = data.get("group_subtasks", {}).get(name, [])
            found[name] = not children or name in data.get("configs", {})
            for child in () if found[name] else children:
                visit(child)

    visit(name)
    return [name for name, is_leaf in found.items() if is_leaf]


def _how(value: float | None, key: MetricKey, leaves: list[str], results: Mapping[str, Any]) -> dict[str, Any]:
    """The weights with which a mean of the members gives the group's number; `unknown` where none does."""
    text = write_key(key)
    members = [leaf for leaf in leaves if isinstance(results.get(leaf, {}).get(text), int | float)]
    values = np.array([results[leaf][text] for leaf in members], dtype=np.float64)
    sizes = np.array([results[leaf].get("sample_len") or 1 for leaf in members], dtype=np.float64)
    for weights in (sizes, np.ones(len(members))):
        shares = weights / weights.sum() if members else weights
        if members and value is not None and np.isclose(values @ shares, value, rtol=1e-6, atol=1e-9):
            children = tuple(map(Share, members, shares.tolist(), values.tolist()))
            return {"aggregation": "mean", "children": children}
    return {"aggregation": "unknown", "children": tuple(Share(m, None, v) for m, v in zip(members, values.tolist()))}


def _config(data: Mapping[str, Any]) -> dict[str, Any]:
    """As much of the run's config as the results tell."""
    config = data.get("config", {})
    subtasks = data.get("group_subtasks", {}).values()
    return shown_settings(
        RunConfig(
            model=str(config.get("model", "unknown")),
            tasks=[name for name in data["results"] if not any(name in children for children in subtasks)],
            limit=config.get("limit"),
            apply_chat_template=bool(data.get("chat_template")),
            fewshot_as_multiturn=bool(data.get("fewshot_as_multiturn")) if data.get("chat_template") else None,
            system_instruction=data.get("system_instruction"),
        )
    )
