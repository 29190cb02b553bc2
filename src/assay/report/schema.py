"""A finished evaluation as the results file: the schema of lm-evaluation-harness, plus an `assay` block.

`"N/A"` exists here and nowhere else: it is how that schema writes what we keep as undefined with a reason.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict
from typing import Any

from assay.groups import Group, MetricKey, tree_rows
from assay.report.version import assay_version
from assay.run import Health, Outcome, TaskOutcome, sanitize
from assay.stats import Estimate, Score

NOT_AVAILABLE = "N/A"


def results_dict(outcome: Outcome) -> dict[str, Any]:
    """The content of `results.json`. Only `date` and `total_evaluation_time_seconds` depend on when it ran."""
    tasks = {name: task_entry(task) for name, task in outcome.tasks.items()}
    groups = {name: group_entry(outcome, name) for name in bottom_up(outcome)}
    with_numbers = {name: entry for name, entry in groups.items() if outcome.groups.groups[name].has_aggregation}
    return {
        "results": {**tasks, **groups},
        **({"groups": with_numbers} if with_numbers else {}),
        "group_subtasks": {name: group.child_names for name, group in outcome.groups.groups.items()},
        "configs": {name: outcome.tasks[name].config for name in sorted(outcome.tasks)},
        "versions": versions(outcome),
        "n-shot": shots(outcome),
        "higher_is_better": directions(outcome),
        "n-samples": {name: {"original": t.original, "effective": t.sample_len} for name, t in outcome.tasks.items()},
        "config": config_entry(outcome),
        "date": outcome.date,
        "model_source": outcome.config.model,
        "model_name": outcome.model["name"],
        "model_name_sanitized": sanitize(str(outcome.model["name"])),
        "system_instruction": outcome.config.system_instruction,
        "system_instruction_sha": sha(outcome.config.system_instruction),
        "fewshot_as_multiturn": outcome.config.multiturn,
        "chat_template": outcome.model.get("chat_template"),
        "chat_template_sha": sha(outcome.model.get("chat_template")),
        "max_length": outcome.model.get("max_length"),
        "task_hashes": {name: task.task_hash for name, task in outcome.tasks.items()},
        "total_evaluation_time_seconds": str(outcome.seconds.get("total", 0.0)),
        "assay": assay_block(outcome),
    }


def task_entry(task: TaskOutcome) -> dict[str, Any]:
    return {"name": task.name, "alias": task.alias, "sample_len": task.sample_len, **numbers(task.scores)}


def group_entry(outcome: Outcome, name: str) -> dict[str, Any]:
    """`alias`, `name`, and where the group aggregates, its numbers and the docs behind them."""
    group = outcome.groups.groups[name]
    entry: dict[str, Any] = {"alias": group.alias or group.name, "name": group.name}
    if not group.has_aggregation:
        return entry
    sizes = [outcome.tasks[task.task_name].sample_len for task in group.get_all_tasks() if task.task_name in outcome.tasks]  # fmt: skip
    scores = outcome.group_scores[name]
    entry |= {"sample_len": sum(sizes), **numbers(scores)}
    counts = {str(key): score.size for key, score in scores.items() if score.estimate.value is not None}
    return {**entry, "sample_count": counts} if counts else entry


def numbers(scores: dict[MetricKey, Score]) -> dict[str, Any]:
    """`metric,filter` and `metric_stderr,filter`, as that schema names them."""
    entry: dict[str, Any] = {}
    for key, score in scores.items():
        value, stderr = score.estimate.value, score.estimate.stderr
        entry[str(key)] = NOT_AVAILABLE if value is None else value
        entry[str(key.stderr)] = NOT_AVAILABLE if stderr is None else stderr
    return entry


def bottom_up(outcome: Outcome) -> list[str]:
    """Groups, children before parents."""
    ordered: dict[str, None] = {}

    def visit(group: Group) -> None:
        if group.name not in ordered:
            for child in group:
                if isinstance(child, Group):
                    visit(child)
            ordered.setdefault(group.name)

    for group in outcome.groups.groups.values():
        if not group.parents:
            visit(group)
    return list(ordered)


def versions(outcome: Outcome) -> dict[str, Any]:
    found = {name: task.version for name, task in outcome.tasks.items()}
    found |= {name: group.version for name, group in outcome.groups.groups.items()}
    return dict(sorted(found.items()))


def shots(outcome: Outcome) -> dict[str, int]:
    """A group has a number of shots where all its direct children agree on one."""
    found = {name: task.num_fewshot for name, task in outcome.tasks.items()}
    for name, group in outcome.groups.groups.items():
        own = {found[child] for child in group.child_names if child in found}
        if len(own) == 1:
            found[name] = own.pop()
    return dict(sorted(found.items()))


def directions(outcome: Outcome) -> dict[str, dict[str, bool | None]]:
    """A group's metric has a direction where its direct children agree on one."""
    found: dict[str, dict[str, bool | None]] = {name: dict(t.higher_is_better) for name, t in outcome.tasks.items()}
    for name, group in outcome.groups.groups.items():
        merged: dict[str, bool | None] = {}
        for child in group.child_names:
            for metric, higher in found.get(child, {}).items():
                merged[metric] = higher if merged.get(metric, higher) == higher else None
        if merged:
            found[name] = merged
    return dict(sorted(found.items()))


def config_entry(outcome: Outcome) -> dict[str, Any]:
    config, seed = outcome.config, outcome.config.seed
    return {
        "model": config.model,
        "model_args": outcome.model["args"],
        **{key: outcome.model[key] for key in ("model_num_parameters", "model_dtype", "model_revision", "model_sha") if key in outcome.model},  # fmt: skip
        "batch_size": config.batch_size,
        "batch_sizes": [],
        "device": config.device,
        "use_cache": None,
        "limit": config.limit,
        "bootstrap_iters": config.bootstrap_iters,
        "gen_kwargs": config.gen_kwargs or None,
        "random_seed": seed.python,
        "numpy_seed": seed.numpy,
        "torch_seed": seed.torch,
        "fewshot_seed": seed.fewshot,
    }


def assay_block(outcome: Outcome) -> dict[str, Any]:
    """What the other schema has no place for: intervals, how each number was made, health, provenance."""
    estimates = {name: {str(k): estimate_entry(s) for k, s in task.scores.items()} for name, task in outcome.tasks.items()}  # fmt: skip
    for name, scores in outcome.group_scores.items():
        details = outcome.group_details.get(name, {})
        estimates[name] = {str(k): {**estimate_entry(s), **details.get(str(k), {})} for k, s in scores.items()}
    return {
        "format": 1,
        "version": assay_version(),
        "estimates": estimates,
        "tree": [node_entry(outcome, depth, node) for depth, node in tree_rows(outcome.groups)],
        "health": {name: health_entry(task.health) for name, task in outcome.tasks.items()},
        "samples": {name: task.sample_file for name, task in outcome.tasks.items() if task.sample_file},
        "model": outcome.model,
        "data": {name: task.data for name, task in outcome.tasks.items()},
        "output_types": {name: task.output_type for name, task in outcome.tasks.items()},
        "stop_reason": outcome.stop_reason,
        "notes": outcome.notes,
    }


def node_entry(outcome: Outcome, depth: int, node: Any) -> dict[str, Any]:
    if isinstance(node, Group):
        return {"depth": depth, "name": node.name, "alias": node.alias or node.name, "kind": "group"}
    return {"depth": depth, "name": node.task_name, "alias": outcome.tasks[node.task_name].alias, "kind": "task"}


def estimate_entry(score: Score) -> dict[str, Any]:
    e: Estimate = score.estimate
    return {**asdict(e), "higher_is_better": score.higher_is_better}


def health_entry(health: Health) -> dict[str, Any]:
    return {**asdict(health), "marks": health.marks}


def sha(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def date_text(stamp: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(stamp))
