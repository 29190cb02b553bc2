"""Run directories made by hand: real sample files and results, invented scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from assay.run import LAYOUT, RunDirectory, SampleRow, SampleWriter
from assay.stats import mean_estimate


def digest(*parts: object) -> str:
    return sha256("/".join(map(str, parts)).encode()).hexdigest()


def write_run(
    path: Path,
    scores: Mapping[str, Mapping[str, Sequence[Any]]],
    *,
    groups: Mapping[str, Mapping[str, Any]] | None = None,
    docs: Mapping[str, Sequence[object]] | None = None,
    prompts: Mapping[str, Sequence[object]] | None = None,
    clusters: Mapping[str, Sequence[str]] | None = None,
    reported: Mapping[tuple[str, str], float] | None = None,
    model: str = "made",
    configs: Mapping[str, Mapping[str, Any]] | None = None,
    stopped: Mapping[str, str] | None = None,
    withheld: Mapping[str, str] | None = None,
) -> Path:
    """`scores`: task → `metric,filter` → a value per doc. Docs are numbered unless `docs` names their contents.

    `groups`: name → {"aggregator", "key", "children": {name: weight}, "value"}.
    """
    directory = RunDirectory(path)
    directory.samples.mkdir(parents=True)
    estimates: dict[str, dict[str, Any]] = {}
    for task, metrics in scores.items():
        writer = SampleWriter(directory.sample_file(task))
        n = len(next(iter(metrics.values())))
        contents = (docs or {}).get(task) or [f"{task}-{i}" for i in range(n)]
        asked = (prompts or {}).get(task) or contents
        for name in dict.fromkeys(key.partition(",")[2] for key in metrics):
            for i in range(n):
                found = {k.partition(",")[0]: v[i] for k, v in metrics.items() if k.partition(",")[2] == name}
                numbers = {k: float(v) for k, v in found.items() if isinstance(v, int | float | np.floating)}
                writer.add(
                    SampleRow(
                        doc_id=i,
                        doc_hash=digest(contents[i]),
                        request_hash=digest("asked", asked[i]),
                        filter=name,
                        doc=f'{{"question": "{contents[i]}"}}',
                        target='"yes"',
                        arguments="[]",
                        resps="[]",
                        filtered_resps='["no"]',
                        metrics=numbers,
                        other={k: v for k, v in found.items() if k not in numbers and v is not None},
                        cluster=None if clusters is None or task not in clusters else clusters[task][i],
                    )
                )
        writer.close()
        estimates[task] = {key: _entry(v, (reported or {}).get((task, key))) for key, v in metrics.items()}
    tree = []
    below = {child for g in (groups or {}).values() for child in g["children"]}
    for name, group in (groups or {}).items():
        estimates[name] = {group["key"]: _group_entry(group)}
    order = {name: tuple(g["children"]) for name, g in (groups or {}).items()}

    def visit(name: str, depth: int) -> None:
        tree.append({"depth": depth, "name": name, "alias": name, "kind": "group" if name in order else "task"})
        for child in order.get(name, ()):
            visit(child, depth + 1)

    for name in [*order, *scores]:
        if name not in below:
            visit(name, 0)
    data = {
        "results": {},
        "configs": {task: {"task": task, **(configs or {}).get(task, {})} for task in scores},
        "higher_is_better": {t: {k.partition(",")[0]: _direction(k) for k in m} for t, m in estimates.items()},
        "n-shot": {},
        "model_name": model,
        "config": {"model": model},
        "assay": {
            "estimates": estimates,
            "tree": tree,
            "health": {task: {"withheld": reason, "marks": []} for task, reason in (withheld or {}).items()},
            "samples": {task: str(directory.sample_file(task).relative_to(path)) for task in scores},
            "model": {"name": model},
            "stop_reasons": dict(stopped or {}),
        },
    }
    directory.write_json("run.json", {"format": LAYOUT, "status": "finished"})
    directory.write_json("results.json", data)
    return path


def _direction(key: str) -> bool:
    return not any(word in key for word in ("perplexity", "bits", "error"))


def _entry(values: Sequence[Any], reported: float | None) -> dict[str, Any]:
    numbers = [float(v) for v in values if isinstance(v, int | float | np.floating) and v == v]
    e = mean_estimate(numbers) if len(numbers) == len(values) else mean_estimate(numbers or [0.0])
    return {
        "value": e.value if reported is None else reported,
        "stderr": e.stderr,
        "low": e.low,
        "high": e.high,
        "n": len(values),
        "method": e.method,
        "undefined": None,
    }


def _group_entry(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "value": group.get("value", 0.5),
        "stderr": 0.01,
        "low": 0.0,
        "high": 1.0,
        "n": 800,
        "method": "made",
        "undefined": group.get("undefined"),
        "aggregator": group.get("aggregator", "mean"),
        "children": [{"name": n, "weight": w, "value": 0.5} for n, w in group["children"].items()],
    }


def right(rng: np.random.Generator, n: int, share: float = 0.6) -> list[float]:
    return (rng.random(n) < share).astype(float).tolist()


def flipped(rng: np.random.Generator, scores: Sequence[float], up: float, down: float) -> list[float]:
    """The same scores with some wrong ones right and some right ones wrong."""
    chance = rng.random(len(scores))
    return [1.0 - s if c < (up if s == 0 else down) else s for s, c in zip(scores, chance.tolist(), strict=True)]
