"""A comparison as one HTML file: a forest plot, the table, and what was not compared. No script, no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from assay.comparison.model import Comparison, Row
from assay.comparison.render import legend, p_text, signed
from assay.report.rows import format_number

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Axis:
    """Symmetric around no difference, so that left and right are A and B."""

    reach: float

    @classmethod
    def around(cls, rows: Sequence[Row]) -> Axis:
        ends = [abs(x) for row in rows for x in (row.difference.estimate.low, row.difference.estimate.high) if x is not None]  # fmt: skip
        points = [abs(row.difference.estimate.value) for row in rows if row.difference.estimate.value is not None]
        finite = [x for x in (*ends, *points) if math.isfinite(x)]
        return cls(max(finite, default=0.0) * 1.05 or 1.0)

    def percent(self, value: float) -> float:
        return min(100.0, max(0.0, 50.0 + 50.0 * value / self.reach))


@dataclass(frozen=True)
class Whisker:
    """One row of the plot; places are percent of the width."""

    row: Row
    dot: float | None
    left: float | None
    right: float | None
    margin_left: float
    margin_right: float
    verdict: str
    p: str
    scale: str


def whiskers(comparison: Comparison) -> list[Whisker]:
    """All rows of a metric share an axis: accuracy and perplexity do not fit on one."""
    axes = {m: Axis.around([r for r in comparison.rows if r.metric == m]) for m in {r.metric for r in comparison.rows}}
    found = []
    for row in comparison.rows:
        axis, e = axes[row.metric], row.difference.estimate
        found.append(
            Whisker(
                row=row,
                dot=None if e.value is None else axis.percent(e.value),
                left=None if e.low is None else axis.percent(e.low),
                right=None if e.high is None else axis.percent(e.high),
                margin_left=axis.percent(-row.margin),
                margin_right=axis.percent(row.margin),
                verdict="" if row.verdict is None else str(row.verdict),
                p=p_text(row),
                scale=f"−{format_number(axis.reach)} … +{format_number(axis.reach)}",
            )
        )
    return found


def comparison_page(comparisons: Sequence[Comparison]) -> str:
    sections = [(c, whiskers(c), list(legend(c))) for c in comparisons]
    return _template().render(sections=sections)


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("assay.report", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    environment.filters["number"] = format_number
    environment.filters["signed"] = signed
    return environment.get_template("compare.html")
