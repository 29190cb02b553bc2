"""`assay.compare`: two runs from Python, and what a notebook shows of their difference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.analyses.compare.engine import compare_runs
from assay.analyses.compare.model import CompareOptions, Comparison
from assay.analyses.compare.page import DifferenceAxis, Whisker, whiskers
from assay.analyses.compare.render import comparison_legend, signed
from assay.analyses.noise_file import NoiseFile
from assay.errors import ConfigError, did_you_mean
from assay.finished import Run, open_run
from assay.results import RunResult, format_number
from assay.show import ForestPlot, Whiskers, html_rows, interval_bar
from assay.stats import B_DEFAULT

CELL = "text-align:left;padding:.15em .8em .15em 0;white-space:nowrap"
NUMBER = "text-align:right;padding:.15em .8em .15em 0;white-space:nowrap;font-variant-numeric:tabular-nums"


def compare(
    a: RunResult | str | Path,
    b: RunResult | str | Path,
    *,
    tasks: str | Sequence[str] = (),
    metrics: str | Sequence[str] = (),
    margin: float = 0.01,
    alpha: float = 0.05,
    unpaired: bool = False,
    ignore_prompts: bool = False,
    replicates: int = B_DEFAULT,
    noise: str | Path | None = None,
) -> Comparison:
    """Is B better than A? Two results that were kept in a run directory, or two paths of runs of any harness.

    before = assay.evaluate(model="hf", model_args="pretrained=small", tasks=["demo"], run_dir="runs/small")
    after = assay.evaluate(model="hf", model_args="pretrained=large", tasks=["demo"], run_dir="runs/large")
    assay.compare(before, after)
    """
    options = CompareOptions(
        tasks=(tasks,) if isinstance(tasks, str) else tuple(tasks),
        metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
        margin=margin,
        alpha=alpha,
        unpaired=unpaired,
        ignore_prompts=ignore_prompts,
        replicates=replicates,
        noise=None if noise is None else NoiseFile.load(noise),
    )
    (comparison,) = compare_runs([_opened(a, "a"), _opened(b, "b")], options)
    return comparison


def _opened(given: RunResult | str | Path, name: str) -> Run:
    if isinstance(given, RunResult):
        if given.path is None:
            raise ConfigError(
                f"compare: the docs of {name} were not kept, but runs are compared doc by doc",
                hint="Use evaluate(…, run_dir=…).",
            )
        given = given.path
    if not isinstance(given, str | Path):
        raise ConfigError(f"compare: {name} is a {type(given).__name__}", hint="Pass a result, or the path of a run.")
    return open_run(given)


def _html_row(mark: Whisker, *, is_named: bool) -> list[tuple[str, str]]:
    """Styles and texts of the cells."""
    from html import escape

    from assay.terminal_text import one_line

    row, e = mark.row, mark.row.difference.estimate
    metric = row.metric if row.filter == "none" else f"{row.metric} ({row.filter})"
    weight = ";font-weight:600" if row.kind == "group" else ""
    bounds = "" if e.low is None or e.high is None else f"[{signed(e.low)}, {signed(e.high)}]"
    return [
        (f"{CELL}{weight};padding-left:{1.2 * row.depth:g}em", escape(one_line(row.alias)) if is_named else ""),
        (CELL, escape(one_line(metric))),
        (NUMBER, format_number(row.difference.a)),
        (NUMBER, format_number(row.difference.b)),
        (NUMBER + weight, "" if e.value is None else signed(e.value)),
        (CELL, interval_bar(mark.dot, mark.left, mark.right, 50.0)),
        (NUMBER, bounds),
        (NUMBER, mark.p),
        (
            f"{CELL.replace('nowrap', 'normal')};min-width:18em",
            escape(one_line("; ".join([mark.verdict, *row.notes]).strip("; "))),
        ),
    ]


def comparison_html(comparison: Comparison) -> str:
    """What a notebook shows for a comparison."""
    marks = whiskers(comparison)
    before = [None, *(mark.row.name for mark in marks)]
    rows = [_html_row(mark, is_named=mark.row.name != name) for mark, name in zip(marks, before)]
    header = ["task", "metric", "A", "B", "B − A", "", "95 % interval", "p", "verdict"]
    title = f"A {comparison.a.label} · B {comparison.b.label}"
    return html_rows(title, header, rows, comparison_legend(comparison))


def comparison_plot(comparison: Comparison, metric: str | None = None) -> ForestPlot:
    """The differences under one metric; the first of the table if none is named."""
    metrics = list(dict.fromkeys(row.metric for row in comparison.rows))
    chosen = metric or next(iter(metrics), "")
    if chosen not in metrics:
        hint = did_you_mean(chosen, metrics) or f"There are: {', '.join(metrics) or 'none'}."
        raise ConfigError(f"no metric {chosen!r} was compared", hint=hint)
    rows = [row for row in comparison.rows if row.metric == chosen and row.difference.estimate.value is not None]
    reach = DifferenceAxis.around(rows).reach
    lines = []
    for row in rows:
        e = row.difference.estimate
        text = f"{signed(e.value or 0.0)}{f'  {row.verdict.kind}' if row.verdict else ''}"
        label = f"{'    ' * row.depth}{row.alias}"
        lines.append(Whiskers(label, e.value or 0.0, e.low, e.high, text, row.kind == "group"))
    title = f"{comparison.b.label} − {comparison.a.label} · {chosen}"
    return ForestPlot(title, tuple(lines), -reach, reach, zero=0.0)


def comparison_text(comparison: Comparison, width: int = 150) -> str:
    """The table as plain text."""
    import io

    from rich.console import Console

    from assay.analyses.compare.render import comparison_table

    console = Console(width=width, file=io.StringIO(), record=True, force_terminal=False)
    console.print(comparison_table(comparison))
    return console.export_text(styles=False).rstrip() + "\n"
