"""A run's result as findings: the scores, their health, and the page that can be mailed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from assay.errors import ConfigError, did_you_mean
from assay.finished import FieldScore, open_run, own_fields, scores_by_field
from assay.registry import Registry
from assay.results import Health, MetricKey, RunResult, TableRow, assay_version, health_counters, rows_of
from assay.show.axes import Axis, Whisker
from assay.show.by_field import field_tables
from assay.show.facts import command_of, marks_of
from assay.show.failures import worst_failures
from assay.show.findings import Column, Findings, Table
from assay.show.html import Html, page_template
from assay.show.kinds import COUNT, INTERVAL, METHOD, NAME, STDERR, TEXT, WHISKER, Kind, Link, Name
from assay.show.plots import ForestPlot
from assay.stats import FEWEST_TO_SHRINK, Estimate, shrunken

FILTER = Kind(lambda name: "" if name == "none" else str(name))
DIRECTION = Kind(lambda up: "↑" if up else "↓")
RESULT_VALUE = Kind(lambda row: row.value_text, data=lambda row: (row.estimate.value,), right=True)

ESTIMATE = Kind(
    lambda e: "" if e.low is None else f"{e.value:.4f} [{e.low:.4f}, {e.high:.4f}]",
    ("", "low", "high"),
    lambda e: (e.value, e.low, e.high),
    right=True,
)
GOLD_COLUMN: Column[TableRow] = Column("gold checked", ESTIMATE, lambda row: row.gold_checked, rank=3)

RESULT_COLUMNS: Registry[Column[TableRow]] = Registry("results column", group="assay.result_columns")
"""Further columns of a run's table, which packages bring."""


def score_columns(rows: Sequence[TableRow], run: str = "") -> tuple[Column[TableRow], ...]:
    """The columns of a run's table. Each metric has an axis of its own."""
    metrics = {row.metric for row in rows}
    axes = {metric: Axis.around(row.estimate for row in rows if row.metric == metric) for metric in metrics}

    def name(row: TableRow) -> Name:
        return Name(row.alias, row.name, row.depth, not row.first, Link(run, row.name))

    def whisker(row: TableRow) -> Whisker | None:
        return Whisker.of(row.estimate, axes[row.metric], reference=row.chance, ticks=row.floors) if row.key else None

    return (
        Column("task", NAME, name, "name", shrinks=True),
        Column("kind", TEXT, lambda row: row.kind, for_people=False),
        Column("depth", COUNT, lambda row: row.depth, for_people=False),
        Column("shots", COUNT, lambda row: row.shots if row.first else None, rank=3, tone="quiet", for_machines=False),
        Column("shots", COUNT, lambda row: row.shots, for_people=False),
        Column("metric", TEXT, lambda row: row.metric or None, shrinks=True),
        Column("filter", FILTER, lambda row: row.filter or None, shrinks=True, tone="quiet"),
        Column("", DIRECTION, lambda row: row.higher_is_better, "higher_is_better", rank=4),
        Column("value", RESULT_VALUE, lambda row: row if row.key else None),
        Column("± stderr", STDERR, lambda row: row.estimate if row.key else None, "", rank=2, tone="quiet"),
        Column("95 % interval", INTERVAL, lambda row: row.estimate if row.key else None, "", rank=0, tone="quiet"),
        Column("", WHISKER, whisker),
        *([GOLD_COLUMN] if any(row.gold_checked for row in rows) else []),
        Column("n", COUNT, lambda row: row.estimate.n if row.key else None, rank=2, tone="quiet"),
        Column("method", METHOD, lambda row: row.estimate if row.key else None, for_people=False),
        *(RESULT_COLUMNS[each] for each in RESULT_COLUMNS),
    )


def _about_row(row: TableRow) -> dict[str, Any]:
    return {
        "note": "; ".join(part for part in (row.made_of, row.note, row.floor_mark) if part),
        "note_tone": "bad" if row.withheld else "warn" if row.note or row.missing else "quiet",
        "is_group": row.kind == "group",
        "tone": "bad" if row.withheld else "",
        "keeps": ("95 % interval",),
    }


def score_table(result: RunResult, shrink: bool = False) -> Table:
    """Names indented by depth, groups bold, a note where a score needs a second look; with `shrink`, tasks also drawn towards the
    mean of their group."""
    rows = list(rows_of(result))
    columns = score_columns(rows, str(result.path or ""))
    if shrink:
        drawn = shrunken_scores(result)
        columns += (Column("shrunken", ESTIMATE, lambda row: drawn.get((row.name, row.key)), "shrunken"),)
    return Table.of(columns, rows, row=_about_row, notes=(_SHRUNKEN_MEANS,) if shrink else ())


_SHRUNKEN_MEANS = (
    f"shrunken: tasks of a group drawn towards its mean, as far as they are alike, where {FEWEST_TO_SHRINK} or more have the "
    "metric; these intervals hold on average over the tasks. Gates and comparisons do not use them."
)


def shrunken_scores(result: RunResult) -> dict[tuple[str, MetricKey | None], Estimate]:
    """By task and metric, for the tasks of groups that have enough of them."""
    found: dict[tuple[str, MetricKey | None], Estimate] = {}
    for group in result.groups.values():
        tasks = [result.tasks[name] for name in group.children if name in result.tasks]
        for key in dict.fromkeys(key for task in tasks for key in task.scores):
            having = [task for task in tasks if key in task.scores and not task.scores[key].withheld]
            for task, drawn in zip(having, shrunken([task.scores[key].estimate for task in having]) or ()):
                found.setdefault((task.name, key), drawn)
    return found


HealthRow = tuple[str, Health]


def health_table(health: Mapping[str, Health]) -> Table:
    """Problems with the answers of each task: a column for each kind that occurs."""
    there = [row for row in health_counters() if any(each.count(row.name) for each in health.values())]
    columns: list[Column[HealthRow]] = [
        Column("task", NAME, lambda item: Name(item[0]), shrinks=True),
        Column("docs", COUNT, lambda item: item[1].docs),
        *(Column(row.words, COUNT, _counter(row.name), row.name) for row in there),
    ]
    return Table.of(columns, health.items(), row=lambda item: {"note": "; ".join(all_marks(item[1]))}, title="Health")


def own_field_tables(result: RunResult) -> tuple[Table, ...]:
    """Scores by the fields that tasks name, where the run has its docs and they have the fields."""
    named = {name: fields for name, task in result.tasks.items() if (fields := own_fields(task))}
    if result.place is None or not named:
        return ()
    run = open_run(result.place)
    scores: list[FieldScore] = []
    for task in (name for name in run.tasks if name in named):
        with suppress(ConfigError):
            scores += scores_by_field(run, task, named[task])
    return field_tables(scores)


def _counter(name: str) -> Callable[[HealthRow], int]:
    return lambda item: item[1].count(name)


def all_marks(health: Health) -> list[str]:
    """The marks of the task, and of each filter under its name."""
    by_filter = [f"{mark} ({name})" for name in health.unparsed for mark in health.filter_marks(name)]
    return [*health.marks(), *by_filter]


def title_of(result: RunResult) -> str:
    words = [result.model_name or str(result.config.get("model"))]
    if gguf := result.model.get("gguf"):
        words.append(f"GGUF, {gguf}")  # dequantised, or by whose kernels
    if result.config.get("limit"):
        words.append(f"limit {result.config['limit']}")
    return " · ".join(words)


def run_findings(result: RunResult, run: Mapping[str, Any] | None = None, *, shrink: bool = False) -> Findings:
    """A result and, if available, the run file with timings and environment, which its page shows."""
    health = {name: task.health for name, task in result.tasks.items()}
    reasons = [
        f"{name}: {count:,} failed: {why}" for name, each in health.items() for why, count in each.reasons.items()
    ]
    return Findings(
        title=title_of(result),
        tables=(score_table(result, shrink),),
        details=lambda: ((health_table(health),) if health else ()) + own_field_tables(result),
        notes=(*result.remarks, *reasons, *((f"Answers: {result.answers_from}",) if result.answers_from else ())),
        result=result,
        page=lambda findings: _page(findings, result, run or {}),
    )


def _page(findings: Findings, result: RunResult, run: Mapping[str, Any]) -> str:
    """The findings, with how the run was made and the docs to look at first."""
    failures = worst_failures(result)
    anchors = {name: f"#worst-{number}" for number, name in enumerate(failures, 1)}
    write = Html(address=lambda link: anchors.get(link.task))
    config, model = run.get("config", result.config), run.get("model", result.model)
    return page_template("report.html").render(
        title=findings.title,
        tasks=len(result.tasks),
        docs=sum(task.sample_len for task in result.tasks.values()),
        version=assay_version(),
        scores=write.table(findings.tables[0]),
        details="".join(map(write.folded, findings.details())),
        notes=write.said(findings.notes),
        date=time.strftime("%Y-%m-%d %H:%M", time.localtime(result.date)) if result.date else None,
        counts=run.get("counts", {}),
        seconds=run.get("seconds", {}),
        marks=marks_of(config, tuple(task.num_fewshot or 0 for task in result.tasks.values())),
        command=command_of(config, model),
        place=str(result.path) if result.path is not None else None,
        failures=failures,
        sizes={name: task.health.docs for name, task in result.tasks.items()},
        config=json.dumps(config, indent=2, ensure_ascii=False, default=str),
        environment=json.dumps(run.get("environment", {}), indent=2, ensure_ascii=False, default=str),
    )


def result_text(result: RunResult, width: int | None = None) -> str:
    """The table as plain text."""
    return Findings("", tables=(score_table(result),)).to_text(width or 140)


def result_html(result: RunResult) -> str:
    """What a notebook shows for a result."""
    return Findings(title_of(result), tables=(score_table(result),), notes=tuple(result.remarks)).to("notebook")


def health_html(health: Mapping[str, Health]) -> str:
    """What a notebook shows for the health of a run's tasks."""
    return Findings("Health", tables=(health_table(health),)).to("notebook")


def forest_plot(result: RunResult, metric: str | None = None) -> ForestPlot:
    """Every task and group under one metric; the first metric of the table if none is named."""
    rows = [row for row in rows_of(result) if row.key is not None]
    metrics = list(dict.fromkeys(row.metric for row in rows))
    chosen = metric or next(iter(metrics), "")
    if chosen not in metrics:
        hint = did_you_mean(chosen, metrics) or f"There are: {', '.join(metrics) or 'none'}."
        raise ConfigError(f"no metric {chosen!r} in these results", hint=hint)
    drawn = [row for row in rows if row.metric == chosen and row.estimate.value is not None]
    several = len({row.filter for row in drawn}) > 1
    axis = Axis.around(row.estimate for row in drawn)
    lines = [
        Whisker.of(
            row.estimate,
            axis,
            label=f"{'    ' * row.depth}{row.alias}{f' ({row.filter})' if several else ''}",
            text=str(row.estimate),
            is_bold=row.kind == "group",
        )
        for row in drawn
    ]
    return ForestPlot(f"{title_of(result)} · {chosen}", tuple(lines), axis)
