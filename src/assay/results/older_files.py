"""Results files that earlier versions wrote, brought to the present format as JSON, so that one reader reads all.

Format 1 kept numbers under the text `metric,filter`, and did not say how a task's number was aggregated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.results.keys import read_key


def upgraded(data: Mapping[str, Any]) -> dict[str, Any]:
    """The `assay` block of a format 1 file in format 2."""
    block = data["assay"]
    kinds = {node["name"]: node["kind"] for node in block["tree"]}
    groups = [name for name, kind in kinds.items() if kind == "group"]
    tasks = [name for name in block["estimates"] if name not in groups]
    return {
        "origin": "assay",
        "roots": list(dict.fromkeys(node["name"] for node in block["tree"] if node["depth"] == 0)),
        "tasks": {name: _task(name, data) for name in tasks},
        "groups": {name: _group(name, data) for name in groups},
        "model": block["model"],
        "config": _config(data),
        "environment": {},
        "notes": block.get("notes", []),
    }


def _task(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    block = data["assay"]
    lengths = data.get("n-samples", {}).get(name, {})
    return {
        "alias": _alias(name, data),
        "scores": [_score(text, entry) for text, entry in block["estimates"][name].items()],
        "health": _health(block.get("health", {}).get(name, {})),
        "version": data.get("versions", {}).get(name),
        "num_fewshot": data.get("n-shot", {}).get(name),
        "output_type": block.get("output_types", {}).get(name),
        "higher_is_better": data.get("higher_is_better", {}).get(name, {}),
        "original": lengths.get("original", 0),
        "sample_len": lengths.get("effective", data["results"].get(name, {}).get("sample_len", 0)),
        "sample_file": block.get("samples", {}).get(name),
        "task_hash": data.get("task_hashes", {}).get(name, ""),
        "data": block.get("data", {}).get(name, {}),
        "stop_reason": block.get("stop_reasons", {}).get(name),
    }


def _group(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    entries = data["assay"]["estimates"].get(name, {})
    return {
        "alias": _alias(name, data),
        "scores": [
            {
                **_score(text, entry),
                "aggregation": entry.get("aggregator", "mean"),
                "children": entry.get("children", []),
                "missing": entry.get("missing", {}),
                "filtered_out": entry.get("filtered_out", []),
            }
            for text, entry in entries.items()
        ],
        "children": data.get("group_subtasks", {}).get(name, []),
        "version": str(data.get("versions", {}).get(name, "N/A")),
        "has_aggregation": name in data.get("groups", {}) or bool(entries),
    }


def _alias(name: str, data: Mapping[str, Any]) -> str:
    return next((n["alias"] for n in data["assay"]["tree"] if n["name"] == name and n.get("alias")), name)


def _score(text: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    key = read_key(text)
    estimate = ("value", "stderr", "low", "high", "n", "method")
    return {
        "metric": key.metric,
        "filter": key.filter,
        **{name: entry[name] for name in estimate},
        "undefined": entry.get("undefined"),
        "level": entry.get("level", 0.95),
        "size": entry["n"],
        "aggregation": None,
        "higher_is_better": entry.get("higher_is_better"),
    }


def _health(entry: Mapping[str, Any]) -> dict[str, Any]:
    bounds = [
        {**read_key(text)._asdict(), "low": low, "high": high} for text, (low, high) in entry.get("bounds", {}).items()
    ]
    return {**entry, "bounds": bounds, "filters_disagree": {}}


def _config(data: Mapping[str, Any]) -> dict[str, Any]:
    """As much of the run's config as the file tells; `run.json` beside it has the whole."""
    config = data.get("config", {})
    names = {"python": "random_seed", "numpy": "numpy_seed", "torch": "torch_seed", "fewshot": "fewshot_seed"}
    same = ("batch_size", "device", "limit", "bootstrap_iters", "gen_kwargs")
    return {
        "model": data.get("model_source", config.get("model")),
        **{name: config.get(name) for name in same},
        "seed": {ours: config.get(theirs) for ours, theirs in names.items()},
        "system_instruction": data.get("system_instruction"),
        "apply_chat_template": bool(data.get("chat_template")),
        "fewshot_as_multiturn": data.get("fewshot_as_multiturn"),
    }
