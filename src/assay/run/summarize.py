"""From collected values to task scores, and from those up the tree of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.config import RunConfig
from assay.results import (
    GroupResult,
    MetricKey,
    RunDirectory,
    Score,
    TaskResult,
    count_disagreements,
    health_counters,
)
from assay.run.collect import Collector, RoleAnswers
from assay.run.floors import measure_floors
from assay.run.gold_means import with_gold
from assay.run.plan import MAY_HOLD_KEYS, Plan, PlannedTask
from assay.run.task_scores import task_scores
from assay.run.until import Watch, controlled
from assay.scoring import (
    chance_test,
    higher_is_better_of,
    metric_configs,
    quietly,
)
from assay.secret_texts import without_secrets
from assay.stats import Basis, Estimate, docs_or_draws, over_draws
from assay.tasks import Task, generation_settings, shuffle_of


def summarize(
    plan: Plan,
    collectors: Mapping[str, Collector],
    config: RunConfig,
    directory: RunDirectory | None,
    watches: Mapping[str, Watch],
    answer_roles: RoleAnswers | None = None,
) -> tuple[dict[str, TaskResult], dict[str, GroupResult], list[str]]:
    """Every task's result, every group's, and what is to be said about them."""
    tasks, notes = {}, []
    for name, planned in plan.tasks.items():
        if name in plan.floor_tasks:
            continue
        scores, remarks = controlled(task_scores(collectors[name], config.bootstrap_iters), collectors[name], config)
        scores = {key: with_own_size(score, planned, collectors[name], config) for key, score in scores.items()}
        watch = watches.get(name)
        tasks[name] = task_result(planned, collectors[name], config, directory, anytime(scores, watch), watch)
        notes += [*remarks, *draw_notes(name, scores, collectors[name], config)]
        notes += [note for note in [tasks[name].data.get("note")] if note and note not in notes]
    notes += first_docs_notes(plan, collectors, config)
    mark_chance(tasks, collectors)
    if config.predict_only:
        notes.append("nothing is scored with --predict_only; `assay score` scores the answers of a run that is stored")
    of_tasks = {name: task.scores for name, task in tasks.items()}
    scores_of_groups = {} if config.predict_only else plan.groups.score_groups(of_tasks)
    groups = {name: group.result(scores_of_groups.get(name, {})) for name, group in plan.groups.groups.items()}
    if config.floors and not config.predict_only:
        measured = measure_floors(plan, collectors, tasks, config, answer_roles)
        tasks = {name: measured.of_task(task) for name, task in tasks.items()}
        groups = {name: measured.of_group(group, plan) for name, group in groups.items()}
        notes += measured.missing(config.floors)
    tasks, groups = with_gold(tasks, groups, collectors, config)
    return tasks, groups, notes + [note for group in groups.values() for note in other_numbers(group)]


def first_docs_notes(plan: Plan, collectors: Mapping[str, Collector], config: RunConfig) -> list[str]:
    """`--limit` takes the first docs, as lm-evaluation-harness does; an interval treats them as if they had been drawn."""
    if config.limit is None or config.sample or config.until or config.control:
        return []
    tasks = {name: planned for name, planned in plan.tasks.items() if name not in plan.floor_tasks}
    sizes = {name: (collectors[name].health.docs, planned.size or 0) for name, planned in tasks.items()}
    first = [f"{name}: first {sent:,} of {size:,}" for name, (sent, size) in sizes.items() if sent < size]
    more = f" (and of {len(first) - _FEW:,} more tasks)" if len(first) > _FEW else ""
    return [
        f"{each}: not a sample{more if each == first[:_FEW][-1] else ''}; --sample random draws one"
        for each in first[:_FEW]
    ]


_FEW = 3
"""Tasks of which a note that concerns many names as many."""


def draw_notes(name: str, scores: Mapping[MetricKey, Score], collector: Collector, config: RunConfig) -> list[str]:
    """Of every repeated score: how much of its error is docs and how much draws. With `--population docs`: how far the mean of
    exactly these docs may be off, which draws alone decide."""
    notes = []
    for key, score in scores.items():
        estimate, column = score.estimate, collector.columns.get(key)
        if (
            estimate.value is None
            or not estimate.is_recomputable
            or column is None
            or column.aggregation.name != "mean"
        ):
            continue
        of_docs = column.draw_variances
        if of_docs is not None and (found := docs_or_draws(of_docs, estimate.stderr)) is not None:
            notes.append(f"{name} {key}: {found}")
        if config.population == "docs":
            notes.append(f"{name} {key}, these docs' own mean: {_of_these_docs(estimate, of_docs)}")
    return notes


def _of_these_docs(estimate: Estimate, of_docs: Sequence[tuple[int, float]] | None) -> str:
    assert estimate.value is not None
    if of_docs is None:
        return f"{estimate.value:.4f}; no interval: with one draw a doc, nothing is known of how draws vary"
    found = over_draws(estimate.value, of_docs, bounded=estimate.bounded)
    if found.low is None or found.high is None:
        return f"{estimate.value:.4f}; {found.method}"
    return f"{estimate.value:.4f} [{found.low:.4f}, {found.high:.4f}], only draws vary"


def with_own_size(score: Score, planned: PlannedTask, collector: Collector, config: RunConfig) -> Score:
    """What a group's mean weighs a task by is the task itself, not the docs that were sent to measure it."""
    sent = collector.health.docs
    if planned.size is None or not sent:
        return score
    # A metric that only some docs have is about as many of the others.
    size = round(planned.size * score.size / sent)
    first_docs = config.until is None and config.control is None
    return replace(score, size=size, asked=score.size if first_docs and size > score.size else None)


def other_numbers(group: GroupResult) -> list[str]:
    """Where tools of lm-evaluation-harness read another number than ours, and why."""
    return [
        f"{group.name} {key}: {score.estimate.value:.4f} weights tasks by their full sizes; with --limit, lm-evaluation-harness weights them by the docs asked, which gives {score.lm_eval_value:.4f}, the value in its part of results.json"
        for key, score in group.scores.items()
        if score.lm_eval_value is not None and f"{score.lm_eval_value:.4f}" != f"{score.estimate.value:.4f}"
    ]


def anytime(scores: dict[MetricKey, Score], watch: Watch | None) -> dict[MetricKey, Score]:
    """After `--until` the interval is the one that was watched: a fixed-n interval would not hold after peeking."""
    if watch is None or watch.key is None or watch.interval is None:
        return scores
    low, high = watch.interval
    watched = scores[watch.key]
    # Where all docs were asked, the part of the error rate that was kept for this look adds an interval for their number.
    last = watched.bounds(1 - watch.rule.last_look) if watch.asked_all and watch.rule.last_look else None
    if last is not None:
        low, high = max(low, last[0]), min(high, last[1])
    held = replace(
        watched.estimate,
        low=low,
        high=high,
        method=Basis.LOOKS.value,
        basis=Basis.LOOKS,
        caution=None,
        withheld_reason=None,
    )
    return {**scores, watch.key: replace(watched, estimate=held, interval=None, lm_eval_stderr=None)}


def task_result(
    planned: PlannedTask,
    collector: Collector,
    config: RunConfig,
    directory: RunDirectory | None,
    scores: dict[MetricKey, Score],
    watch: Watch | None,
) -> TaskResult:
    task = planned.task
    samples = None if directory is None else directory.sample_file(planned.name)
    # A task without docs has none.
    has_samples = directory is not None and samples is not None and samples.is_file()
    finish_health(collector, config)
    return TaskResult(
        name=planned.name,
        alias=task.config.task_alias or planned.name,
        scores=scores,
        health=collector.health,
        version=version_of(task),
        num_fewshot=planned.shots,
        output_type=task.config.output_type,
        config=dump_config(planned),
        higher_is_better=directions_of(collector),
        original=task.doc_count,
        sample_len=max(map(len, collector.columns.values()), default=collector.health.docs),
        sample_file=str(samples.relative_to(directory.path)) if directory and samples and has_samples else None,
        task_hash=collector.task_hash,
        data=task.source.provenance()
        | ({"overlays": [{**vars(each)} for each in planned.overlays]} if planned.overlays else {}),
        stop_reason=None if watch is None else watch.reason,
    )


def directions_of(collector: Collector) -> dict[str, bool | None]:
    """By metric alone, as results files have it; None where filters disagree. Each score also carries its own."""
    directions = {each.name: higher_is_better_of(each) for each in metric_configs(collector.task.config)}
    by_metric: dict[str, set[bool]] = {}
    for key, column in collector.columns.items():
        # A metric that gives a dict has one direction for all its keys, known only once it has been called.
        if column.higher_is_better is not None:
            by_metric.setdefault(key.metric, set()).add(column.higher_is_better)
    return directions | {metric: given.pop() if len(given) == 1 else None for metric, given in by_metric.items()}


def version_of(task: Task) -> Any:
    """What the task file says; a Python task may carry it itself. `"Yaml"` stands for none in results files."""
    stated = task.config.metadata.get("version")
    return stated if stated is not None else getattr(task, "VERSION", "Yaml")


def dump_config(planned: PlannedTask) -> dict[str, Any]:
    """The task's config as the results file shows it: what was set, functions by name, shots as sent."""
    config = planned.task.config
    said = config.model_fields_set - {"form_stops", "is_own"}
    shown = {name: getattr(config, name) for name in type(config).model_fields if name in said}
    if (shuffle := shuffle_of(config)) is not None and shuffle.is_on:
        shown["shuffle_choices"] = True
    shown |= {"task": planned.name, "output_type": config.output_type, "num_fewshot": planned.shots}
    if config.generation_kwargs is not None:
        shown["generation_kwargs"] = generation_settings(config, planned.options)
    # The run's model arguments are among the metadata, for custom datasets.
    plain = {name: plain_config(value) for name, value in shown.items() if value is not None}
    return {name: without_secrets(value) if name in MAY_HOLD_KEYS else value for name, value in plain.items()}


def plain_config(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain_config(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_config(item) for item in value]
    if hasattr(value, "model_fields_set"):
        return {name: plain_config(getattr(value, name)) for name in sorted(value.model_fields_set)}
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def finish_health(collector: Collector, config: RunConfig) -> None:
    """What is known of a task's health only when all its docs are there."""
    health = collector.health
    health.fewshot_leaks_avoided = collector.task.fewshot_replaced
    health.filters_disagree = count_disagreements(collector.columns)
    health.bounds = bounds_of(collector)
    shuffle = shuffle_of(collector.task.config)
    health.shuffled = shuffle is not None and shuffle.is_on
    health.without_no_gold = without_no_gold(collector)
    health.stripped = without_white_space(collector)
    for row in health_counters():
        most = None if row.limit is None else getattr(config, row.limit)
        share = health.share(health.count(row.name))
        if most is not None and share > most and health.withheld is None:
            health.withheld = f"{share:.1%} {row.words}, more than the {most:.1%} allowed"


def bounds_of(collector: Collector) -> dict[MetricKey, tuple[float, float]]:
    """For means of values from 0 to 1: the score if every answer that is truncated, unparsed or unjudged were wrong, and if
    every one were right. What is unjudged has no score, the others have one. So it is with the trajectories of agents that a
    limit ended, and with those that failed."""
    bounds = {}
    for key, column in collector.columns.items():
        lost = collector.truncated_docs.union(collector.unparsed_docs.get(key.filter, ()))
        unjudged = collector.health.count("unjudged", key.filter) if column.labels is not None else 0
        unjudged += collector.health.failed if collector.task.config.agent is not None else 0
        is_mean = column.aggregation.name == "mean" and column.is_numeric and column.higher_is_better is not False
        is_share = len(column) > 0 and is_mean and all(0 <= value <= 1 for value in column.values)
        if not (lost or unjudged) or not is_share:
            continue
        known = sum(value for doc_id, value in zip(column.doc_ids, column.values) if doc_id not in lost)
        open_ = unjudged + sum(1 for doc_id in column.doc_ids if doc_id in lost)
        docs = len(column) + unjudged
        bounds[key] = (known / docs, (known + open_) / docs)
    return bounds


def without_no_gold(collector: Collector) -> dict[MetricKey, float]:
    """What each score would be without the docs whose right answer is none of their choices, where they count."""
    scores: dict[MetricKey, float] = {}
    goldless = collector.no_gold_docs
    if not goldless:
        return scores
    for key, column in collector.columns.items():
        others = [value for doc_id, value in zip(column.doc_ids, column.values) if doc_id not in goldless]
        if others and len(others) < len(column) and column.aggregation.name != "bypass":
            scores[key] = quietly(column.aggregation, others)
    return {key: value for key, value in scores.items() if value == value}


def without_white_space(collector: Collector) -> dict[MetricKey, float]:
    """What each score would be if white space around answers did not count, where it would be another."""
    scores: dict[MetricKey, float] = {}
    for key, others in collector.stripped.items():
        column = collector.columns[key]
        stripped = [others.get(doc_id, value) for doc_id, value in zip(column.doc_ids, column.values)]
        score = quietly(column.aggregation, stripped)
        if score == score and score != quietly(column.aggregation, list(column.values)):
            scores[key] = score
    return scores


def mark_chance(tasks: Mapping[str, TaskResult], collectors: Mapping[str, Collector]) -> None:
    """For choice tasks: whether their accuracy differs from that of guessing, corrected for all of them together."""
    found: dict[str, Score] = {}
    for name, task in tasks.items():
        if task.output_type == "multiple_choice" and collectors[name].choice_counts:
            accuracies = (s for k, s in task.scores.items() if k.metric == "acc" and s.aggregation == "mean")
            score = next((each for each in accuracies if each.estimate.value is not None), None)
            found |= {} if score is None else {name: score}
    for name, score in found.items():
        tasks[name].health.chance = chance_test(score, collectors[name].choice_counts, tests=len(found))
