"""From collected values to task scores, and from those up the tree of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from assay.config import RunConfig, without_secrets
from assay.groups import GroupScore, MetricKey
from assay.results.directory import RunDirectory
from assay.run.accumulate import Accumulator
from assay.run.control import controlled
from assay.run.outcome import Health, TaskOutcome
from assay.run.plan import Plan, PlannedTask
from assay.run.until import Watch
from assay.scoring import estimate, higher_is_better_of, metric_configs
from assay.stats import Score
from assay.tasks import Task


def summarize(
    plan: Plan,
    accumulators: dict[str, Accumulator],
    config: RunConfig,
    directory: RunDirectory | None,
    watches: Mapping[str, Watch] | None = None,
) -> tuple[dict[str, TaskOutcome], dict[str, dict[MetricKey, GroupScore]], list[str]]:
    """Every task's outcome, every group's scores, and what is to be said about them."""
    tasks, notes = {}, []
    for name, planned in plan.tasks.items():
        scores, said = controlled(task_scores(accumulators[name], config.bootstrap_iters), accumulators[name], config)
        scores = anytime(scores, (watches or {}).get(name))
        tasks[name] = task_outcome(planned, accumulators[name], config, directory, scores)
        notes += said
    groups = plan.groups.score_groups({name: task.scores for name, task in tasks.items()})
    return tasks, groups, notes


def anytime(scores: dict[MetricKey, Score], watch: Watch | None) -> dict[MetricKey, Score]:
    """After `--until` the interval is the one that was watched: a fixed-n interval would not hold after peeking."""
    if watch is None or watch.key is None or watch.interval is None:
        return scores
    key = MetricKey(*watch.key)
    low, high = watch.interval
    return {**scores, key: replace(scores[key], estimate=replace(scores[key].estimate, low=low, high=high, method="confidence sequence"))}  # fmt: skip


def task_outcome(
    planned: PlannedTask,
    accumulator: Accumulator,
    config: RunConfig,
    directory: RunDirectory | None,
    scores: dict[MetricKey, Score],
) -> TaskOutcome:
    task = planned.task
    samples = None if directory is None else directory.sample_file(planned.name)
    return TaskOutcome(
        name=planned.name,
        alias=task.config.task_alias or planned.name,
        version=version_of(task),
        num_fewshot=planned.shots,
        output_type=task.config.output_type,
        config=dump_config(planned),
        higher_is_better=directions_of(accumulator),
        original=task.doc_count,
        sample_len=max(
            (len(column.doc_ids) for column in accumulator.columns.values()), default=accumulator.health["docs"]
        ),
        scores=scores,
        health=health_of(accumulator, config, scores),
        # A task that was asked nothing has none.
        sample_file=str(samples.relative_to(directory.path)) if directory and samples and samples.is_file() else None,
        task_hash=accumulator.task_hash,
        data=task.source.provenance(),
    )


def directions_of(accumulator: Accumulator) -> dict[str, bool | None]:
    """By metric alone, as results files have it; None where filters disagree. Each score also carries its own."""
    directions = {each.name: higher_is_better_of(each) for each in metric_configs(accumulator.task.config)}
    found: dict[str, set[bool]] = {}
    for (metric, _), higher in accumulator.higher_is_better.items():
        # A metric that gives a dict has one direction for all its keys, known only once it has been called.
        if higher is not None:
            found.setdefault(metric, set()).add(higher)
    return directions | {metric: said.pop() if len(said) == 1 else None for metric, said in found.items()}


def task_scores(accumulator: Accumulator, bootstrap_iters: int) -> dict[MetricKey, Score]:
    """An estimate for every metric under every filter."""
    ids = np.frombuffer(accumulator.doc_ids, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    keys = np.frombuffer(accumulator.keys, dtype=np.uint64)[order]
    clusters = None if accumulator.clusters is None else np.asarray(accumulator.clusters, dtype=object)[order]
    scores: dict[MetricKey, Score] = {}
    for key, column in accumulator.columns.items():
        doc_ids, values, draws = column.in_doc_order()
        # Metrics may skip docs: pick the keys of those that have a value.
        at = np.searchsorted(ids[order], doc_ids)
        score = estimate(values, accumulator.aggregations[key], keys[at], None if clusters is None else clusters[at], bootstrap_iters, counts=draws)  # fmt: skip
        scores[MetricKey(*key)] = replace(score, higher_is_better=accumulator.higher_is_better.get(key))
    return scores


def version_of(task: Task) -> Any:
    """What the task file says; a Python task may carry it itself. `"Yaml"` stands for none in results files."""
    stated = task.config.metadata.get("version")
    return stated if stated is not None else getattr(task, "VERSION", "Yaml")


def dump_config(planned: PlannedTask) -> dict[str, Any]:
    """The task's config as the results file shows it: what was set, functions by name, shots as asked."""
    config = planned.task.config
    shown = {name: getattr(config, name) for name in type(config).model_fields if name in config.model_fields_set}
    shown |= {"task": planned.name, "output_type": config.output_type, "num_fewshot": planned.shots}
    if config.generation_kwargs is not None:
        shown["generation_kwargs"] = {**config.generation_kwargs, **planned.options.gen_kwargs}
    if config.metadata:
        # The run's model arguments are among it, for custom datasets.
        shown["metadata"] = without_secrets(config.metadata)
    return {name: plain_config(value) for name, value in shown.items() if value is not None}


def plain_config(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain_config(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_config(item) for item in value]
    if hasattr(value, "model_fields_set"):
        return {name: plain_config(getattr(value, name)) for name in sorted(value.model_fields_set)}
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def health_of(accumulator: Accumulator, config: RunConfig, scores: dict[MetricKey, Score]) -> Health:
    counts = accumulator.health
    health = Health(
        docs=counts["docs"],
        failed=counts["failed"],
        truncated=counts["truncated"],
        empty=counts["empty"],
        unparsed={name: len(docs) for name, docs in accumulator.unparsed_docs.items()},
        tied=counts["tied"],
        duplicate_prompts=len(accumulator.prompts) - len(np.unique(accumulator.prompts)),
        fewshot_leaks_avoided=accumulator.task.fewshot_replaced,
        bounds=bounds_of(accumulator),
        chance=chance_of(accumulator, scores),
    )
    return replace(health, withheld=withheld(health, config))


def withheld(health: Health, config: RunConfig) -> str | None:
    """Which threshold of the run this task is above."""
    unparsed = max(health.unparsed.values(), default=0)
    for name, count, most in (
        ("failed", health.failed, config.max_failed),
        ("truncated", health.truncated, config.max_truncated),
        ("unparsed", unparsed, config.max_unparsed),
    ):
        if most is not None and health.share(count) > most:
            return f"{health.share(count):.1%} {name}, more than the {most:.1%} allowed"
    return None


def bounds_of(accumulator: Accumulator) -> dict[str, tuple[float, float]]:
    """For means of 0/1 metrics: the score if every unparsed answer were wrong, and if every one were right."""
    bounds = {}
    for (metric, filter_name), column in accumulator.columns.items():
        lost = set(accumulator.unparsed_docs.get(filter_name, ()))
        if not lost or column.mean is None or not set(column.values) <= {0.0, 1.0}:
            continue
        n = len(column.values)
        parsed = sum(value for doc_id, value in zip(column.doc_ids, column.values) if doc_id not in lost)
        bounds[f"{metric},{filter_name}"] = (parsed / n, (parsed + sum(1 for d in column.doc_ids if d in lost)) / n)
    return bounds


def chance_of(accumulator: Accumulator, scores: dict[MetricKey, Score]) -> dict[str, float] | None:
    """For choice tasks: the accuracy of guessing, and how likely guessing gives at least the accuracy that was seen."""
    if accumulator.task.config.output_type != "multiple_choice" or not accumulator.choice_counts:
        return None
    column = next((c for (metric, _), c in accumulator.columns.items() if metric == "acc" and c.mean is not None), None)
    if column is None or not column.values:
        return None
    from assay.scoring import chance_test

    found = chance_test(round(sum(column.values)), accumulator.choice_counts)
    return {"accuracy": found.accuracy, "p_value": found.p_value}
