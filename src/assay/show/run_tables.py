"""Tables: on screen, and as Markdown, LaTeX and CSV. All show the same rows."""

from __future__ import annotations

import csv
import io

from assay.results import RunResult, TableRow, rows_of
from assay.show.fitted import Column, FittedTable
from assay.terminal_text import csv_cell, one_line

CSV_HEADER = [
    "name",
    "kind",
    "depth",
    "shots",
    "metric",
    "filter",
    "higher_is_better",
    "value",
    "stderr",
    "low",
    "high",
    "n",
    "method",
    "notes",
]
SCREEN = [
    Column("task", shrinks=True),
    Column("shots", right=True, style="dim", rank=3),
    Column("filter", style="dim", shrinks=True),
    Column("metric", shrinks=True),
    Column("", rank=4),
    Column("value", right=True),
    Column("± stderr", right=True, style="dim"),
    Column("95 % interval", right=True, style="dim", rank=1),
    Column("n", right=True, style="dim", rank=2),
]
HEADER = ("task", "shots", "filter", "metric", "", "value", "stderr", "95 % interval", "n", "notes")


def screen_table(result: RunResult) -> FittedTable:
    """The table people see: names indented by depth, groups bold, a mark where a score needs a second look."""
    table = FittedTable(SCREEN, title=one_line(title_of(result)))
    for row in rows_of(result):
        weight = "bold" if row.kind == "group" else ""
        red = "red" if row.withheld else ""
        cells: list[str | tuple[str, str]] = [
            (f"{'  ' * row.depth}{one_line(row.alias)}" if row.first else "", f"{red} {weight}".strip()),
            "" if row.shots is None or not row.first else str(row.shots),
            "" if row.filter == "none" else one_line(row.filter),
            one_line(row.metric),
            row.arrow,
            (row.value_text, f"{red} {weight}".strip()),
            row.stderr_text,
            row.interval_text,
            f"{row.estimate.n:,}" if row.metric else "",
        ]
        note = one_line("; ".join(part for part in (row.made_of, row.note) if part))
        keeps = () if row.estimate.stderr else ("95 % interval",)  # ± 0 alone would pass for certainty
        table.add(cells, note, red or ("yellow" if row.note or row.missing else "dim"), keeps=keeps)
    return table


def render_text(result: RunResult, width: int | None = None) -> str:
    """The screen table as plain text."""
    lines = screen_table(result).lines(width or 140)
    return "\n".join(line.plain.rstrip() for line in lines) + "\n"


def title_of(result: RunResult) -> str:
    words = [result.model_name or str(result.config.get("model"))]
    if result.config.get("limit"):
        words.append(f"limit {result.config['limit']}")
    return " · ".join(words)


def _cells(row: TableRow) -> list[str]:
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


def markdown_table(result: RunResult) -> str:
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "|".join(["---"] * len(HEADER)) + "|"]
    for row in rows_of(result):
        cells = [one_line(cell).replace("|", "\\|") for cell in _cells(row)]
        cells[0] = "&nbsp;&nbsp;" * row.depth + cells[0].strip()
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def latex_table(result: RunResult) -> str:
    """A booktabs table with the value and its standard error in one column."""
    body = []
    for row in rows_of(result):
        if row.key is None:
            continue
        value = _latex(row.value_text)
        error = f" $\\pm$ {row.stderr_text[2:]}" if row.stderr_text else ""
        indent = f"\\hspace{{{row.depth}em}}" if row.depth else ""
        names = [f"{indent}{_latex(row.alias)}", _latex(row.metric), _latex(row.filter)]
        body.append(" & ".join([*names, f"{value}{error}", str(row.estimate.n)]) + r" \\")
    head = r"Task & Metric & Filter & Score & $n$ \\"
    top, bottom = [r"\begin{tabular}{lllrr}", r"\toprule", head, r"\midrule"], [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join([*top, *body, *bottom])


_LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "^": r"\^{}"}
)


def _latex(text: str) -> str:
    return one_line(text).translate(_LATEX)


def csv_table(result: RunResult) -> str:
    """Numbers in full precision, one row per number."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for row in rows_of(result):
        if row.key is not None:
            e = row.estimate
            about = [row.name, row.kind, row.depth, row.shots, row.metric, row.filter, row.higher_is_better]
            cells = [*about, e.value, e.stderr, e.low, e.high, e.n, e.method, row.note]
            writer.writerow([csv_cell(cell) for cell in cells])
    return buffer.getvalue()
