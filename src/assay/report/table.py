"""Tables: on screen, and as Markdown, LaTeX and CSV. All show the same rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.report.rows import Row, rows_of

if TYPE_CHECKING:
    from rich.table import Table

HEADER = ("task", "shots", "filter", "metric", "", "value", "stderr", "95 % interval", "n", "notes")


def screen_table(data: dict[str, Any]) -> Table:
    """The table people see: names indented by depth, groups bold, a mark where a score needs a second look."""
    from rich.markup import escape
    from rich.table import Table

    rows = list(rows_of(data))
    table = Table(title=escape(title_of(data)), title_justify="left", header_style="bold", pad_edge=False, expand=False)
    filters = {row.filter for row in rows if row.filter} - {"none"}
    table.add_column("task", overflow="fold", min_width=12)
    table.add_column("shots", justify="right", style="dim")
    if filters:
        table.add_column("filter", style="dim", overflow="fold")
    table.add_column("metric", overflow="fold")
    table.add_column("")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("± stderr", justify="right", style="dim", no_wrap=True)
    table.add_column("95 % interval", justify="right", style="dim", no_wrap=True)
    table.add_column("n", justify="right", style="dim", no_wrap=True)
    table.add_column("notes", style="yellow", overflow="fold")
    for row in rows:
        name = f"{'  ' * row.depth}{escape(row.alias)}" if row.first else ""
        cells = [
            f"[bold]{name}[/bold]" if row.kind == "group" else name,
            "" if row.shots is None or not row.first else str(row.shots),
            *([escape(row.filter)] if filters else []),
            escape(row.metric),
            row.arrow,
            f"[bold]{row.value_text}[/bold]" if row.kind == "group" else row.value_text,
            row.stderr_text,
            row.interval_text,
            f"{row.estimate.n:,}" if row.metric else "",
            escape(row.note),
        ]
        table.add_row(*cells, style="red" if row.withheld else None)
    return table


def render_text(data: dict[str, Any], width: int | None = None) -> str:
    """The screen table as plain text."""
    from rich.console import Console

    console = Console(width=width or 140, record=True, file=io.StringIO(), force_terminal=False)
    console.print(screen_table(data))
    return console.export_text(styles=False).rstrip() + "\n"


def title_of(data: dict[str, Any]) -> str:
    config = data["config"]
    words = [str(data.get("model_name") or config["model"])]
    if config.get("limit"):
        words.append(f"limit {config['limit']}")
    return " · ".join(words)


def _cells(row: Row) -> list[str]:
    return [
        f"{'  ' * row.depth}{row.alias}",
        "" if row.shots is None else str(row.shots),
        row.filter,
        row.metric,
        row.arrow,
        row.value_text if row.metric else "",
        row.stderr_text,
        row.interval_text,
        str(row.estimate.n) if row.metric else "",
        row.note,
    ]


def markdown_table(data: dict[str, Any]) -> str:
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "|".join(["---"] * len(HEADER)) + "|"]
    for row in rows_of(data):
        cells = [cell.replace("|", "\\|") for cell in _cells(row)]
        cells[0] = "&nbsp;&nbsp;" * row.depth + cells[0].strip()
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def latex_table(data: dict[str, Any]) -> str:
    """A booktabs table with the value and its standard error in one column."""
    body = []
    for row in rows_of(data):
        if not row.metric:
            continue
        value = _latex(row.value_text)
        error = f" $\\pm$ {row.stderr_text[2:]}" if row.stderr_text else ""
        indent = f"\\hspace{{{row.depth}em}}" if row.depth else ""
        cells = [f"{indent}{_latex(row.alias)}", _latex(row.metric), _latex(row.filter), f"{value}{error}", str(row.estimate.n)]  # fmt: skip
        body.append(" & ".join(cells) + r" \\")
    head = r"Task & Metric & Filter & Score & $n$ \\"
    return "\n".join([r"\begin{tabular}{lllrr}", r"\toprule", head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])  # fmt: skip


def _latex(text: str) -> str:
    for plain, escaped in (("\\", r"\textbackslash{}"), ("_", r"\_"), ("%", r"\%"), ("&", r"\&"), ("#", r"\#"), ("$", r"\$"), ("^", r"\^{}"), ("@", "@")):  # fmt: skip
        text = text.replace(plain, escaped)
    return text


def csv_table(data: dict[str, Any]) -> str:
    """Numbers in full precision, one row a number."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["name", "kind", "depth", "shots", "metric", "filter", "higher_is_better", "value", "stderr", "low", "high", "n", "method", "notes"])  # fmt: skip
    for row in rows_of(data):
        e = row.estimate
        if row.metric:
            writer.writerow([row.name, row.kind, row.depth, _blank(row.shots), row.metric, row.filter, _blank(row.higher_is_better), _blank(e.value), _blank(e.stderr), _blank(e.low), _blank(e.high), e.n, e.method, row.note])  # fmt: skip
    return buffer.getvalue()


def _blank(value: Any) -> Any:
    return "" if value is None else value


FORMATS: dict[str, Any] = {"md": markdown_table, "latex": latex_table, "csv": csv_table, "text": render_text}


def names(formats: Sequence[str] = tuple(FORMATS)) -> list[str]:
    return sorted(formats)
