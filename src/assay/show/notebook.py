"""Results in a notebook: a table with interval bars, a forest plot, and progress while a run goes on.

Plain HTML and SVG without script, so that a notebook shows them wherever it is read, also without Assay.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from assay.errors import ConfigError, did_you_mean
from assay.registry import load_object
from assay.results import Health, RunResult, format_number, rows_of
from assay.run import Counts
from assay.show.palette import INK, SOFT
from assay.show.progress import progress_line, running_scores
from assay.show.run_page import Axis, bars_of
from assay.show.run_tables import title_of
from assay.terminal_text import one_line

CELL = "text-align:left;padding:.15em .8em .15em 0;white-space:nowrap"
NUMBER = "text-align:right;padding:.15em .8em .15em 0;white-space:nowrap;font-variant-numeric:tabular-nums"
NOTE = "text-align:left;padding:.15em .8em .15em 0;white-space:normal;min-width:18em"
QUIET = ";opacity:.65"


def interval_bar(dot: float | None, left: float | None, right: float | None, zero: float | None = None) -> str:
    """A dot with its whisker; places are percent of the width."""
    if dot is None:
        return ""
    parts = [f'<line x1="0" x2="100%" y1="7" y2="7" stroke="{SOFT}" stroke-opacity=".4"/>']
    if zero is not None:
        parts.append(f'<line x1="{zero:.2f}%" x2="{zero:.2f}%" y1="1" y2="13" stroke="{SOFT}"/>')
    if left is not None and right is not None:
        parts.append(f'<line x1="{left:.2f}%" x2="{right:.2f}%" y1="7" y2="7" stroke="{INK}" stroke-width="3"/>')
    parts.append(f'<circle cx="{dot:.2f}%" cy="7" r="4" fill="{INK}"/>')
    return f'<svg width="140" height="14" role="img" style="overflow:visible">{"".join(parts)}</svg>'


def html_rows(
    title: str, header: Sequence[str], rows: Iterable[Sequence[tuple[str, str]]], below: Iterable[str]
) -> str:
    """A table of (style, HTML) cells, with a title and lines of remarks. A head stands where its cells stand."""
    lines = [*rows]
    styles = [NUMBER if style.startswith(NUMBER) else CELL for style, _ in lines[0]] if lines else [CELL] * len(header)
    head = "".join(f'<th style="{style}">{escape(name)}</th>' for style, name in zip(styles, header))
    body = "".join(
        "<tr>" + "".join(f'<td style="{style}">{cell}</td>' for style, cell in cells) + "</tr>" for cells in lines
    )
    remarks = "".join(f'<div style="font-size:.9em{QUIET}">{shown(line)}</div>' for line in below)
    return (
        f'<div><div style="font-weight:600;margin:.2em 0">{shown(title)}</div>'
        f'<div style="overflow-x:auto"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        f"{remarks}</div>"
    )


def shown(text: object) -> str:
    """Text of anybody, as text."""
    return escape(one_line(str(text)))


def html_table(result: RunResult) -> str:
    """What a notebook shows for a result."""
    bars = bars_of(result)
    has_filters = any(bar.row.filter not in ("", "none") for bar in bars)
    rows = []
    for bar in bars:
        row = bar.row
        weight = ";font-weight:600" if row.kind == "group" else ""
        indent = f";padding-left:{1.2 * row.depth:g}em"
        rows.append(
            [
                (CELL + weight + indent, shown(row.alias) if row.first else ""),
                *([(CELL + QUIET, "" if row.filter == "none" else shown(row.filter))] if has_filters else []),
                (CELL, f"{shown(row.metric)} {row.arrow}"),
                (NUMBER + weight, row.value_text if row.key else ""),
                (NUMBER + QUIET, row.stderr_text),
                (CELL, interval_bar(bar.dot, bar.left, bar.right, bar.chance)),
                (NUMBER + QUIET, row.interval_text),
                (NUMBER + QUIET, f"{row.estimate.n:,}" if row.key else ""),
                (NOTE, shown("; ".join(filter(None, (row.made_of, row.note))))),
            ]
        )
    header = [
        "task",
        *(["filter"] if has_filters else []),
        "metric",
        "value",
        "± stderr",
        "",
        "95 % interval",
        "n",
        "notes",
    ]
    return html_rows(title_of(result), header, rows, result.remarks)


def health_table(health: dict[str, Health]) -> str:
    """Problems with the answers of each task, if any."""
    rows = [
        [
            (CELL, shown(name)),
            (NUMBER, f"{each.docs:,}"),
            (NOTE, shown("; ".join(all_marks(each)) or "nothing to note")),
        ]
        for name, each in health.items()
    ]
    return html_rows("Health", ["task", "docs", "notes"], rows, ())


def all_marks(health: Health) -> list[str]:
    """The marks of the task, and of each filter under its name."""
    by_filter = [f"{mark} ({name})" for name in health.unparsed for mark in health.filter_marks(name)]
    return [*health.marks(), *by_filter]


# ---------------------------------------------------------------------- a plot


@dataclass(frozen=True)
class Whiskers:
    """One line of a forest plot."""

    label: str
    value: float
    low: float | None
    high: float | None
    text: str
    bold: bool = False


@dataclass(frozen=True, repr=False)
class ForestPlot:
    """A dot and a whisker for each number, as SVG. A notebook draws it; `save` writes a file."""

    title: str
    lines: tuple[Whiskers, ...]
    low: float
    high: float
    zero: float | None = None
    """Where a line is drawn, such as no difference."""

    @property
    def svg(self) -> str:
        names = 8 * max((len(line.label) for line in self.lines), default=0) + 20
        texts = 8 * max((len(line.text) for line in self.lines), default=0)
        wide, left, height = names + texts + 370, names, 30 * len(self.lines) + 62
        axis = Axis(self.low, self.high)

        def x(value: float) -> str:
            return f"{left + 3.4 * axis.percent(value):.1f}"

        parts = [f'<text x="0" y="18" font-weight="600">{shown(self.title)}</text>']
        if self.zero is not None:
            parts.append(f'<line x1="{x(self.zero)}" x2="{x(self.zero)}" y1="30" y2="{height - 26}" stroke="{SOFT}"/>')
        for at, line in enumerate(self.lines):
            y = 46 + 30 * at
            weight = ' font-weight="600"' if line.bold else ""
            name = line.label.lstrip(" ")  # SVG collapses spaces
            indent = 4 * (len(line.label) - len(name))
            parts.append(f'<text x="{indent}" y="{y + 4}"{weight}>{shown(name)}</text>')
            if line.low is not None and line.high is not None:
                ends = f'x1="{x(line.low)}" x2="{x(line.high)}"'
                parts.append(f'<line {ends} y1="{y}" y2="{y}" stroke="{INK}" stroke-width="3"/>')
            parts.append(f'<circle cx="{x(line.value)}" cy="{y}" r="5" fill="{INK}"/>')
            parts.append(f'<text x="{left + 360}" y="{y + 4}" fill-opacity=".75">{shown(line.text)}</text>')
        for value, anchor in ((self.low, "start"), (self.high, "end")):
            place = f'x="{x(value)}" y="{height - 8}" text-anchor="{anchor}"'
            parts.append(f'<text {place} fill-opacity=".65">{format_number(value)}</text>')
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{height}" viewBox="0 0 {wide} {height}" '
            f'font-family="sans-serif" font-size="13" fill="currentColor">{"".join(parts)}</svg>'
        )

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"ForestPlot({self.title!r}, {len(self.lines)} lines)"

    def save(self, path: str | Path) -> Path:
        """Write it as an SVG file."""
        place = Path(path)
        place.write_text(self.svg.replace("currentColor", "#1c2221"), encoding="utf-8")
        return place


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
    axis = Axis.around(drawn)
    lines = [
        Whiskers(
            f"{'    ' * row.depth}{row.alias}{f' ({row.filter})' if several else ''}",
            row.estimate.value or 0.0,
            row.estimate.low,
            row.estimate.high,
            str(row.estimate),
            row.kind == "group",
        )
        for row in drawn
    ]
    return ForestPlot(f"{title_of(result)} · {chosen}", tuple(lines), axis.low, axis.high)


# ---------------------------------------------------------------------- progress


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook. Nothing is imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class NotebookProgress:
    """A bar, a line of facts and the running scores, replaced as the run goes on; messages stay."""

    SECONDS = 0.3
    SCORES = 3

    def __init__(self) -> None:
        self._line: Any = None
        self._began, self._due = time.monotonic(), 0.0

    def stage(self, text: str) -> None:
        self._draw(shown(text) + " …")
        self._due = 0.0  # what the stage has to show is shown at once

    def update(self, counts: Counts) -> None:
        if time.monotonic() < self._due:
            return
        share = counts.docs_done / counts.docs_total if counts.docs_total else 0.0
        style = f"width:16em;vertical-align:middle;accent-color:{INK}"
        bar = f'<progress value="{share:.4f}" max="1" style="{style}"></progress>'
        scores = "".join(
            f'<div style="font-size:.9em{QUIET}">{shown(s)}</div>' for s in running_scores(counts, self.SCORES)
        )
        self._draw(f"<div>{bar} {shown(progress_line(counts, self._began))}</div>{scores}")

    def message(self, text: str) -> None:
        _display(f'<div style="font-size:.9em{QUIET}">{shown(text)}</div>')

    def done(self) -> None:
        """The result is shown instead."""
        if self._line is not None:
            self._draw("")

    def _draw(self, html: str) -> None:
        self._due = time.monotonic() + self.SECONDS
        if self._line is None:
            self._line = _display(html, display_id=True)
        else:
            self._line.update(_html(html))


def _html(text: str) -> Any:
    made: Any = load_object("IPython.display:HTML")
    return made(text)


def _display(text: str, **how: Any) -> Any:
    """IPython is there, or nobody would ask: see `in_notebook`."""
    display: Any = load_object("IPython.display:display")
    return display(_html(text), **how)
