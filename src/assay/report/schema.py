"""A finished evaluation as the results file: the schema of lm-evaluation-harness, plus an `assay` block.

`"N/A"` exists here and nowhere else: it is how that schema writes what we keep as undefined with a reason.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict
from typing import Any

from assay.groups import Group, MetricKey, details, group_subtasks, higher_is_better, n_shot, tree_rows
from assay.report.withheld import Withheld, withheld_in
from assay.results.version import assay_version
from assay.run import Health, Outcome, TaskOutcome, sanitize
from assay.stats import Estimate, Score

NOT_AVAILABLE = "N/A"


def results_dict(outcome: Outcome) -> dict[str, Any]:
    """The content of `results.json`. Only `date` and `total_evaluation_time_seconds` depend on when it ran."""
    block = assay_block(outcome)
    withheld = withheld_in(block)
    for (name, key), reason in withheld.items():
        block["estimates"][name][key]["withheld"] = reason
    tasks = {name: task_entry(task) for name, task in outcome.tasks.items()}
    groups = outcome.groups.results_entries(outcome.group_scores, {n: t.scores for n, t in outcome.tasks.items()})
    shots = {name: task.num_fewshot for name, task in outcome.tasks.items()}
    directions = {name: task.higher_is_better for name, task in outcome.tasks.items()}
    with_numbers = {
        name: without(withheld, name, entry)
        for name, entry in groups.items()
        if outcome.groups.groups[name].has_aggregation
    }
    return {
        "results": {name: without(withheld, name, entry) for name, entry in {**tasks, **groups}.items()},
        **({"groups": with_numbers} if with_numbers else {}),
        "group_subtasks": group_subtasks(outcome.groups),
        "configs": {name: outcome.tasks[name].config for name in sorted(outcome.tasks)},
        "versions": versions(outcome),
        "n-shot": dict(sorted(n_shot(outcome.groups, shots).items())),
        "higher_is_better": dict(sorted(higher_is_better(outcome.groups, directions).items())),
        "n-samples": {name: {"original": t.original, "effective": t.sample_len} for name, t in outcome.tasks.items()},
        "config": config_entry(outcome),
        "date": outcome.date,
        "pretty_env_info": "\n".join(f"{key}: {value}" for key, value in outcome.environment.items()),
        "transformers_version": outcome.environment["packages"].get("transformers"),
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
        "assay": block,
    }


def task_entry(task: TaskOutcome) -> dict[str, Any]:
    return {"name": task.name, "alias": task.alias, "sample_len": task.sample_len, **numbers(task.scores)}


def numbers(scores: dict[MetricKey, Score]) -> dict[str, Any]:
    """`metric,filter` and `metric_stderr,filter`, as that schema names them."""
    entry: dict[str, Any] = {}
    for key, score in scores.items():
        value, stderr = score.estimate.value, score.estimate.stderr
        entry[str(key)] = NOT_AVAILABLE if value is None else value
        entry[str(key.stderr)] = NOT_AVAILABLE if stderr is None else stderr
    return entry


def without(withheld: Withheld, name: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Scripts read this schema and look no further, so a withheld score is not there for them. Ours keeps the number."""
    hidden = {key for key in entry if MetricKey.is_key(key) and (name, str(MetricKey.parse(key).value)) in withheld}
    return {key: NOT_AVAILABLE if key in hidden else value for key, value in entry.items()}


def versions(outcome: Outcome) -> dict[str, Any]:
    found = {name: task.version for name, task in outcome.tasks.items()}
    found |= {name: group.version for name, group in outcome.groups.groups.items()}
    return dict(sorted(found.items()))


def config_entry(outcome: Outcome) -> dict[str, Any]:
    config, seed = outcome.config, outcome.config.seed
    return {
        "model": config.model,
        "model_args": outcome.model["args"],
        **{
            key: outcome.model[key]
            for key in ("model_num_parameters", "model_dtype", "model_revision", "model_sha")
            if key in outcome.model
        },
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
        made_of = details(scores)
        estimates[name] = {str(k): {**estimate_entry(s), **made_of[str(k)]} for k, s in scores.items()}
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
        "stop_reasons": outcome.stop_reasons,
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
