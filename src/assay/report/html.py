"""One self-contained HTML file: the table, a dot-and-whisker plot of every score by group, health and provenance.

No script and no network: the plots are SVG, so the file can be mailed, archived and printed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from assay.report.rows import TableRow, format_number, rows_of
from assay.report.table import title_of
from assay.results import RunResult, assay_version

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Axis:
    """The range one metric is drawn on: 0 to 1 for shares, else what the intervals span."""

    low: float
    high: float

    @classmethod
    def around(cls, rows: Iterable[TableRow]) -> Axis:
        ends = [n for row in rows for n in (row.estimate.value, row.estimate.low, row.estimate.high)]
        numbers = [n for n in ends if n is not None and n == n]
        if not numbers or (min(numbers) >= 0 and max(numbers) <= 1):
            return cls(0.0, 1.0)
        margin = (max(numbers) - min(numbers)) * 0.08 or abs(numbers[0]) * 0.1 or 1.0
        return cls(min(numbers) - margin, max(numbers) + margin)

    def percent(self, value: float) -> float:
        return min(100.0, max(0.0, 100.0 * (value - self.low) / (self.high - self.low)))


@dataclass(frozen=True)
class Bar:
    """One row of the page: its texts, and where its dot and whisker stand on the axis (percent of the width)."""

    row: TableRow
    dot: float | None
    left: float | None
    right: float | None
    chance: float | None
    scale: str


def bars_of(result: RunResult) -> list[Bar]:
    rows = list(rows_of(result))
    axes = {metric: Axis.around(row for row in rows if row.metric == metric) for metric in {row.metric for row in rows}}
    bars = []
    for row in rows:
        axis, e = axes[row.metric], row.estimate
        health = result.tasks[row.name].health if row.name in result.tasks else None
        chance = health.chance if health is not None and row.metric.startswith("acc") else None
        bars.append(
            Bar(
                row=row,
                dot=None if e.value is None or e.value != e.value else axis.percent(e.value),
                left=None if e.low is None or e.low != e.low else axis.percent(e.low),
                right=None if e.high is None or e.high != e.high else axis.percent(e.high),
                chance=axis.percent(chance.accuracy) if chance is not None else None,
                scale=f"{format_number(axis.low)} … {format_number(axis.high)}",
            )
        )
    return bars


def html_report(result: RunResult, run: dict[str, Any] | None = None) -> str:
    """The page for a result and, where at hand, the run file with timings and environment."""
    run = run or {}
    return _template().render(
        title=title_of(result),
        tasks=len(result.tasks),
        docs=sum(task.sample_len for task in result.tasks.values()),
        version=assay_version(),
        bars=bars_of(result),
        date=time.strftime("%Y-%m-%d %H:%M", time.localtime(result.date)) if result.date else None,
        counts=run.get("counts", {}),
        seconds=run.get("seconds", {}),
        config=json.dumps(run.get("config", result.config), indent=2, ensure_ascii=False, default=str),
        environment=json.dumps(run.get("environment", {}), indent=2, ensure_ascii=False, default=str),
        health={name: task.health for name, task in result.tasks.items()},
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("assay.report", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["number"] = format_number
    return environment.get_template("report.html")
