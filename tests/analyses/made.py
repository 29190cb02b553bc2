"""Run directories made by hand: real sample files and results, invented scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from assay.results import (
    GroupResult,
    GroupScore,
    Health,
    MetricKey,
    RunDirectory,
    RunResult,
    SampleRow,
    SampleWriter,
    Score,
    Share,
    TaskResult,
    read_key,
)
from assay.results.directory import LAYOUT
from assay.stats import Estimate, mean_estimate


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
    methods: Mapping[tuple[str, str], str] | None = None,
    aggregations: Mapping[tuple[str, str], str] | None = None,
    directions: Mapping[tuple[str, str], bool] | None = None,
) -> Path:
    """`scores`: task → `metric,filter` → a value per doc. Docs are numbered unless `docs` names their contents.

    `groups`: name → {"aggregator", "key", "children": {name: weight}, "value"}. `reported`, `methods`, `aggregations` and
    `directions` are by task and `metric,filter`. Scores without an entry in `aggregations` do not say how they were
    made, as in older files.
    """
    directory = RunDirectory(path)
    directory.samples.mkdir(parents=True)
    tasks: dict[str, TaskResult] = {}
    for task, metrics in scores.items():
        columns = {read_key(text): values for text, values in metrics.items()}
        contents = (docs or {}).get(task) or [f"{task}-{i}" for i in range(len(next(iter(columns.values()))))]
        asked = (prompts or {}).get(task) or contents
        write_samples(directory.sample_file(task), columns, contents, asked, (clusters or {}).get(task))
        tasks[task] = TaskResult(
            name=task,
            alias=task,
            scores={
                key: made_score(
                    values,
                    value=(reported or {}).get((task, str(key))),
                    method=(methods or {}).get((task, str(key))),
                    aggregation=(aggregations or {}).get((task, str(key))),
                    higher_is_better=(directions or {}).get((task, str(key)), direction_of(key)),
                )
                for key, values in columns.items()
            },
            health=Health(withheld=(withheld or {}).get(task)),
            config={"task": task, **(configs or {}).get(task, {})},
            sample_file=str(directory.sample_file(task).relative_to(path)),
            stop_reason=(stopped or {}).get(task),
        )
    made_groups = {
        name: GroupResult(name, name, {read_key(g["key"]): made_group_score(g)}, tuple(g["children"]))
        for name, g in (groups or {}).items()
    }
    below = {child for group in made_groups.values() for child in group.children}
    roots = tuple(name for name in (*made_groups, *tasks) if name not in below)
    result = RunResult(tasks, made_groups, roots, model={"name": model})
    directory.write_json("run.json", {"format": LAYOUT, "status": "finished"})
    result.with_withheld().save(path)
    return path


def write_samples(
    path: Path,
    columns: Mapping[MetricKey, Sequence[Any]],
    contents: Sequence[object],
    asked: Sequence[object],
    clusters: Sequence[str] | None,
) -> None:
    writer = SampleWriter(path)
    for name in dict.fromkeys(key.filter for key in columns):
        for i, content in enumerate(contents[: len(next(iter(columns.values())))]):
            values = {key.metric: of_docs[i] for key, of_docs in columns.items() if key.filter == name}
            numbers = {k: float(v) for k, v in values.items() if isinstance(v, int | float | np.floating)}
            writer.add(
                SampleRow(
                    doc_id=i,
                    doc_hash=digest(content),
                    request_hash=digest("asked", asked[i]),
                    filter=name,
                    doc=f'{{"question": "{content}"}}',
                    target='"yes"',
                    arguments="[]",
                    resps="[]",
                    filtered_resps='["no"]' if name == "none" else f'["by {name}"]',
                    metrics=numbers,
                    other={k: v for k, v in values.items() if k not in numbers and v is not None},
                    cluster=None if clusters is None else clusters[i],
                )
            )
    writer.close()


def direction_of(key: MetricKey) -> bool:
    return not any(word in key.metric for word in ("perplexity", "bits", "error"))


def made_score(
    values: Sequence[Any],
    *,
    value: float | None,
    method: str | None,
    aggregation: str | None,
    higher_is_better: bool,
) -> Score:
    numbers = [float(v) for v in values if isinstance(v, int | float | np.floating) and v == v]
    mean = mean_estimate(numbers or [0.0])
    estimate = replace(mean, n=len(values), method=method or mean.method, value=mean.value if value is None else value)
    return Score(estimate, len(values), aggregation, higher_is_better)


def made_group_score(group: Mapping[str, Any]) -> GroupScore:
    estimate = Estimate(group.get("value", 0.5), 0.01, 0.48, 0.52, 800, "made", group.get("undefined"))
    children = tuple(Share(name, weight, 0.5) for name, weight in group["children"].items())
    return GroupScore(estimate, 800, group.get("aggregator", "mean"), True, children=children)


def right(rng: np.random.Generator, n: int, share: float = 0.6) -> list[float]:
    return (rng.random(n) < share).astype(float).tolist()


def flipped(rng: np.random.Generator, scores: Sequence[float], up: float, down: float) -> list[float]:
    """The same scores with some wrong ones right and some right ones wrong."""
    chance = rng.random(len(scores))
    return [1.0 - s if c < (up if s == 0 else down) else s for s, c in zip(scores, chance.tolist(), strict=True)]
