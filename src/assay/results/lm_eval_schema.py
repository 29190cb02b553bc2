"""The part of `results.json` that tools of lm-evaluation-harness read. It is written here and never read back.

`"N/A"` exists here and nowhere else: it is how that schema writes what we keep as undefined with a reason.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from assay.results.keys import MetricKey, write_key
from assay.results.nodes import GroupResult, TaskResult
from assay.results.scores import GroupScore, Score

NOT_AVAILABLE = "N/A"


def task_entry(task: TaskResult) -> dict[str, Any]:
    return {"name": task.name, "alias": task.alias, "sample_len": task.sample_len, **numbers(task.scores)}


def group_entry(group: GroupResult, lengths: Mapping[str, int], leaves: list[str]) -> dict[str, Any]:
    """`alias`, `name`, `sample_len`, the numbers with their standard errors, `sample_count`, in that order."""
    entry: dict[str, Any] = {"alias": group.alias, "name": group.name}
    if not group.has_aggregation and not group.scores:
        return entry
    entry["sample_len"] = sum(lengths.get(name, 0) for name in leaves)
    entry |= numbers(group.scores)
    counts = {
        write_key(k): s.size if s.asked is None else s.asked
        for k, s in group.scores.items()
        if s.estimate.value is not None
    }
    if counts:
        entry["sample_count"] = counts
    return entry


def numbers(scores: Mapping[MetricKey, Score]) -> dict[str, Any]:
    """Scripts read this schema and look no further, so a withheld score is not there for them. Ours keeps the number."""
    entry: dict[str, Any] = {}
    for key, score in scores.items():
        hidden = score.withheld is not None
        value, stderr = score.estimate.value, score.lm_eval_stderr
        if isinstance(score, GroupScore) and score.lm_eval_value is not None:
            value = score.lm_eval_value
        stderr = score.estimate.stderr if stderr is None else stderr
        entry[write_key(key)] = NOT_AVAILABLE if hidden or value is None else value
        entry[write_key(key, stderr=True)] = NOT_AVAILABLE if hidden or stderr is None else stderr
    return entry


def parents_first(groups: Mapping[str, GroupResult]) -> list[GroupResult]:
    """The order in which lm-evaluation-harness looks at groups: the reverse of children before parents."""
    ordered: dict[str, GroupResult] = {}

    def visit(group: GroupResult) -> None:
        for child in group.children:
            if child in groups and child not in ordered:
                visit(groups[child])
        ordered[group.name] = group

    below = {child for group in groups.values() for child in group.children}
    for group in groups.values():
        if group.name not in below:
            visit(group)
    return list(ordered.values())[::-1]


def shots(tasks: Mapping[str, TaskResult], groups: Mapping[str, GroupResult]) -> dict[str, int]:
    """The tasks' shots, and those of groups whose children agree.

    lm-evaluation-harness looks at parents before children, so a group of groups gets none. So do we: the file is
    compared with its.
    """
    known = {name: task.num_fewshot for name, task in tasks.items() if task.num_fewshot is not None}
    for group in parents_first(groups):
        agreed = {known[child] for child in group.children if child in known}
        if len(agreed) == 1:
            known[group.name] = agreed.pop()
    return dict(sorted(known.items()))


def directions(tasks: Mapping[str, TaskResult], groups: Mapping[str, GroupResult]) -> dict[str, dict[str, bool | None]]:
    """The tasks' directions by metric, and those of groups; None where children disagree. The order is that of `shots`."""
    known: dict[str, dict[str, bool | None]] = {name: dict(task.higher_is_better) for name, task in tasks.items()}
    for group in parents_first(groups):
        merged: dict[str, bool | None] = {}
        for child in group.children:
            for metric, direction in known.get(child, {}).items():
                merged[metric] = direction if merged.setdefault(metric, direction) == direction else None
        if merged:
            known[group.name] = merged
    return dict(sorted(known.items()))


def config_entry(config: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, Any]:
    """The run's config under the names of that schema."""
    seed = config.get("seed") or {}
    facts = ("model_num_parameters", "model_dtype", "model_revision", "model_sha")
    return {
        "model": config.get("model"),
        "model_args": model.get("args"),
        **{name: model[name] for name in facts if name in model},
        "batch_size": config.get("batch_size"),
        "batch_sizes": [],
        "device": config.get("device"),
        "use_cache": None,
        "limit": config.get("limit"),
        "bootstrap_iters": config.get("bootstrap_iters"),
        "gen_kwargs": config.get("gen_kwargs") or None,
        "random_seed": seed.get("python"),
        "numpy_seed": seed.get("numpy"),
        "torch_seed": seed.get("torch"),
        "fewshot_seed": seed.get("fewshot"),
    }


def sha(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
