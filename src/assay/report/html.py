"""One self-contained HTML file: the table, a dot-and-whisker plot of every score by group, health and provenance.

No script and no network: the plots are SVG, so the file can be mailed, archived and printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from assay.report.rows import Row, format_number, rows_of
from assay.report.schema import date_text
from assay.report.table import title_of

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Axis:
    """The range one metric is drawn on: 0 to 1 for shares, else what the intervals span."""

    low: float
    high: float

    @classmethod
    def around(cls, rows: Iterable[Row]) -> Axis:
        numbers = [n for row in rows for n in (row.estimate.value, row.estimate.low, row.estimate.high) if n is not None and n == n]  # fmt: skip
        if not numbers or (min(numbers) >= 0 and max(numbers) <= 1):
            return cls(0.0, 1.0)
        margin = (max(numbers) - min(numbers)) * 0.08 or abs(numbers[0]) * 0.1 or 1.0
        return cls(min(numbers) - margin, max(numbers) + margin)

    def percent(self, value: float) -> float:
        return min(100.0, max(0.0, 100.0 * (value - self.low) / (self.high - self.low)))


@dataclass(frozen=True)
class Bar:
    """One row of the page: its texts, and where its dot and whisker stand on the axis (percent of the width)."""

    row: Row
    dot: float | None
    left: float | None
    right: float | None
    chance: float | None
    scale: str


def bars_of(data: dict[str, Any]) -> list[Bar]:
    rows = list(rows_of(data))
    axes = {metric: Axis.around(row for row in rows if row.metric == metric) for metric in {row.metric for row in rows}}
    bars = []
    for row in rows:
        axis, e = axes[row.metric], row.estimate
        chance = (data["assay"]["health"].get(row.name, {}).get("chance") or {}).get("accuracy")
        bars.append(
            Bar(
                row=row,
                dot=None if e.value is None or e.value != e.value else axis.percent(e.value),
                left=None if e.low is None or e.low != e.low else axis.percent(e.low),
                right=None if e.high is None or e.high != e.high else axis.percent(e.high),
                chance=axis.percent(chance) if chance is not None and row.metric.startswith("acc") else None,
                scale=f"{format_number(axis.low)} … {format_number(axis.high)}",
            )
        )
    return bars


def html_report(data: dict[str, Any], run: dict[str, Any] | None = None) -> str:
    """The page for a results file and, where at hand, the run file with timings and environment."""
    run = run or {}
    return _template().render(
        title=title_of(data),
        data=data,
        bars=bars_of(data),
        date=date_text(data["date"]) if data.get("date") else None,
        counts=run.get("counts", {}),
        seconds=run.get("seconds", {}),
        config=json.dumps(run.get("config", data["config"]), indent=2, ensure_ascii=False, default=str),
        environment=json.dumps(run.get("environment", {}), indent=2, ensure_ascii=False, default=str),
        health=data["assay"]["health"],
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("assay.report", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    environment.filters["number"] = format_number
    return environment.get_template("report.html")
