"""One self-contained HTML file: the table, a dot-and-whisker plot of every score by group, health and provenance.

No script and no network: the plots are SVG, so the file can be mailed, archived and printed.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from assay.results import RunResult, TableRow, assay_version, format_number, rows_of
from assay.show.facts import command_of, marks_of
from assay.show.failures import worst_failures
from assay.show.palette import palette_css
from assay.show.run_tables import title_of
from assay.terminal_text import with_signs

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Axis:
    """The range one metric is drawn on: 0 to 1 for shares, else what the intervals span."""

    low: float
    high: float

    @classmethod
    def around(cls, rows: Iterable[TableRow]) -> Axis:
        return cls.over(n for row in rows for n in (row.estimate.value, row.estimate.low, row.estimate.high))

    @classmethod
    def over(cls, ends: Iterable[float | None]) -> Axis:
        numbers = [n for n in ends if n is not None and math.isfinite(n)]
        if not numbers or (min(numbers) >= 0 and max(numbers) <= 1):
            return cls(0.0, 1.0)
        low, high = min(numbers), max(numbers)
        margin = (high - low) * 0.08 or abs(low) * 0.1 or 1.0
        # A perplexity has nothing below zero to show.
        return cls(max(0.0, low - margin) if low >= 0 else low - margin, high + margin)

    @property
    def ends(self) -> tuple[str, str] | None:
        """What is written at its ends; nothing where they are 0 and 1."""
        return None if (self.low, self.high) == (0, 1) else (short_number(self.low), short_number(self.high))

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
    ends: tuple[str, str] | None = None
    """What the axis begins and ends with, unless that is 0 and 1."""


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
                ends=axis.ends,
            )
        )
    return bars


def short_number(value: float) -> str:
    """Three figures, for the end of an axis.

    >>> short_number(140.1112), short_number(-0.00512), short_number(12345.0)
    ('140', '-0.00512', '1.23e+04')
    """
    return f"{value:.3g}"


def html_report(result: RunResult, run: dict[str, Any] | None = None) -> str:
    """The page for a result and, if available, the run file with timings and environment."""
    run = run or {}
    failures = worst_failures(result)
    return _template().render(
        title=title_of(result),
        tasks=len(result.tasks),
        docs=sum(task.sample_len for task in result.tasks.values()),
        version=assay_version(),
        bars=bars_of(result),
        date=time.strftime("%Y-%m-%d %H:%M", time.localtime(result.date)) if result.date else None,
        counts=run.get("counts", {}),
        seconds=run.get("seconds", {}),
        palette=palette_css(),
        marks=marks_of(
            run.get("config", result.config), tuple(task.num_fewshot or 0 for task in result.tasks.values())
        ),
        command=command_of(run.get("config", result.config), run.get("model", result.model)),
        place=str(result.path) if result.path is not None else None,
        failures=failures,
        anchors={name: number for number, name in enumerate(failures, 1)},
        config=json.dumps(run.get("config", result.config), indent=2, ensure_ascii=False, default=str),
        environment=json.dumps(run.get("environment", {}), indent=2, ensure_ascii=False, default=str),
        health={name: task.health for name, task in result.tasks.items()},
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("assay.show", "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"number": format_number, "signs": with_signs}
    return environment.get_template("report.html")
