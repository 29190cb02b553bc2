"""A comparison as one HTML file: a forest plot, the table, and what was not compared. No script, no network.

Its template, and those of the other pages of this folder, escape everything and know how numbers and strange text are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from assay.analyses.compare.model import Comparison, ComparisonRow
from assay.analyses.compare.render import comparison_legend, p_text, signed
from assay.results import format_number
from assay.show import palette_css
from assay.terminal_text import with_signs

if TYPE_CHECKING:
    from jinja2 import Template


@cache
def page_template(name: str, **filters: Callable[..., Any]) -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("assay.show", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["palette"] = palette_css()
    environment.filters |= {"number": format_number, "signs": with_signs, **filters}
    return environment.get_template(name)


@dataclass(frozen=True)
class DifferenceAxis:
    """Symmetric around no difference, so that left and right are A and B."""

    reach: float

    @classmethod
    def around(cls, rows: Iterable[ComparisonRow]) -> DifferenceAxis:
        estimates = [row.difference.estimate for row in rows]
        ends = [x for e in estimates for x in (e.low, e.value, e.high) if x is not None]
        finite = [abs(x) for x in ends if math.isfinite(x)]
        return cls(max(finite, default=0.0) * 1.05 or 1.0)

    def percent(self, value: float) -> float:
        return min(100.0, max(0.0, 50.0 + 50.0 * value / self.reach))


@dataclass(frozen=True)
class Whisker:
    """One row of the plot; places are percent of the width."""

    row: ComparisonRow
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
    rows = comparison.rows
    metrics = {row.metric for row in rows}
    axes = {metric: DifferenceAxis.around(row for row in rows if row.metric == metric) for metric in metrics}
    plot = []
    for row in rows:
        axis, e = axes[row.metric], row.difference.estimate
        plot.append(
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
    return plot


def comparison_page(comparisons: Sequence[Comparison]) -> str:
    sections = [(c, whiskers(c), list(comparison_legend(c))) for c in comparisons]
    return page_template("compare.html", signed=signed).render(sections=sections)
