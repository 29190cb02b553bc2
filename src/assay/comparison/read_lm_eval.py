"""Output directories of lm-evaluation-harness: `results_*.json` and `samples_*.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.comparison.collect import Collector
from assay.comparison.read_assay import aggregations_of
from assay.comparison.views import GroupView, RunView
from assay.data import doc_hash
from assay.errors import ConfigError, DataError
from assay.groups import MetricKey
from assay.report.importing import (
    newest_results,
    read_results,
    reported_estimates,
    sample_files,
    sample_instances,
    tree_of,
)
from assay.run import request_hash
from assay.stats import Estimate


def find_results(path: Path) -> Path | None:
    """The newest results file at or below a path."""
    if path.is_file():
        return path if path.name.startswith("results") and path.suffix == ".json" else None
    return newest_results(path)


def read_lm_eval(results: Path, path: Path) -> RunView:
    """The run of one results file, with the newest samples of each task beside it."""
    data = read_results(results)
    files = dict(sample_files(results, data))
    kinds = {task: config.get("output_type", "generate_until") for task, config in data.get("configs", {}).items()}
    tree = tree_of(data)
    return RunView(
        path=path,
        model=str(data.get("model_name") or data.get("config", {}).get("model", "")),
        format="lm-evaluation-harness",
        tasks=tuple(task for task in data.get("configs", {}) if task in files),
        read=lambda task: _collect(files[task], task, kinds[task]).columns(),
        reported=_reported(data),
        directions=data.get("higher_is_better", {}),
        aggregations=aggregations_of(data.get("configs", {})),
        groups=_groups(data),
        tree=tuple((node["depth"], node["name"]) for node in tree),
        aliases={node["name"]: node["alias"] for node in tree},
        repeats={task: int(config.get("repeats") or 1) for task, config in data.get("configs", {}).items()},
        show_docs=lambda task, ids: _docs(files[task], ids),
    )


def _reported(data: dict[str, Any]) -> dict[str, dict[str, Estimate]]:
    return {
        name: {
            key: Estimate(**{k: v for k, v in entry.items() if k != "higher_is_better"})
            for key, entry in reported_estimates(name, found, data).items()
        }
        for name, found in data["results"].items()
    }


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8", errors="surrogatepass") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                sample = json.loads(line)
                if not isinstance(sample, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                raise DataError(
                    f"{path}, line {number}: {error}", hint="The file is cut off or damaged; take an earlier one or run again."
                ) from error  # fmt: skip
            yield sample


def _collect(path: Path, task: str, kind: str) -> Collector:
    found = Collector()
    for sample in _lines(path):
        try:
            prompt = request_hash(sample_instances(sample, kind, task))
            row = found.row(doc_hash(sample["doc"]), prompt, int(sample["doc_id"]), sample.get("filter", "none"))
            for metric in sample.get("metrics", ()):
                row[metric] = sample[metric]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{path}: doc {sample.get('doc_id')} is not a sample of lm-evaluation-harness ({type(error).__name__}: {error})"
            ) from error  # fmt: skip
    return found


def _docs(path: Path, doc_ids: NDArray[np.int64]) -> list[dict[str, Any]]:
    wanted = set(doc_ids.tolist())
    rows: dict[int, dict[str, Any]] = {}
    for sample in _lines(path):
        if sample["doc_id"] in wanted:
            shown = {
                k: json.dumps(sample.get(k), ensure_ascii=False) for k in ("doc", "target", "resps", "filtered_resps")
            }
            rows.setdefault(sample["doc_id"], {"doc_id": sample["doc_id"], "filter": sample.get("filter"), **shown})
    return [rows.get(int(i), {}) for i in doc_ids]


def _groups(data: dict[str, Any]) -> dict[str, dict[str, GroupView]]:
    """The file does not say how a group was averaged: by size, evenly, or neither; its number tells."""
    found: dict[str, dict[str, GroupView]] = {}
    for name, entry in data.get("groups", {}).items():
        leaves = _leaves(name, data)
        for text, value in entry.items():
            if MetricKey.is_key(text) and not MetricKey.parse(text).is_stderr and isinstance(value, int | float):
                found.setdefault(name, {})[text] = _how(float(value), text, leaves, data["results"])
    return found


def _leaves(name: str, data: Mapping[str, Any]) -> list[str]:
    children = data.get("group_subtasks", {}).get(name, [])
    if not children or name in data.get("configs", {}):
        return [name]
    return list(dict.fromkeys(leaf for child in children for leaf in _leaves(child, data)))


def _how(value: float, key: str, leaves: list[str], results: Mapping[str, Any]) -> GroupView:
    members = [leaf for leaf in leaves if isinstance(results.get(leaf, {}).get(key), int | float)]
    values = np.array([results[leaf][key] for leaf in members], dtype=np.float64)
    sizes = np.array([results[leaf].get("sample_len") or 1 for leaf in members], dtype=np.float64)
    for weights in (sizes, np.ones(len(members))):
        if members and np.isclose(values @ weights / weights.sum(), value, rtol=1e-6, atol=1e-9):
            return GroupView("mean", dict(zip(members, (weights / weights.sum()).tolist(), strict=True)))
    return GroupView("unknown", dict.fromkeys(members))


def require_samples(view: RunView) -> RunView:
    if not view.tasks:
        raise ConfigError(
            f"{view.path} has results but no samples", hint="Run lm-evaluation-harness with --log_samples, which writes them."
        )  # fmt: skip
    return view
