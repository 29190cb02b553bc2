"""Findings as LaTeX: booktabs tables, each number with its error in one column."""

from __future__ import annotations

from collections.abc import Iterator

from assay.show.findings import Findings, Table
from assay.show.kinds import STDERR, Name
from assay.terminal_text import one_line

_ACTS = str.maketrans(
    {"\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "^": r"\^{}"}
    | {"{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "±": r"$\pm$", "−": "$-$", "↑": r"$\uparrow$"}
    | {"↓": r"$\downarrow$", "≤": r"$\leq$", "‖": r"$\|$", "κ": r"$\kappa$", "α": r"$\alpha$", "×": r"$\times$"}
    | {"→": r"$\to$", "·": r"$\cdot$", "…": r"\ldots{}", "✓": "yes", "✗": "no"}
)


def to_latex(findings: Findings) -> str:
    lines = [_remark(findings.title), *map(_remark, findings.lead)]
    for table in findings.tables:
        lines += _table(table)
    lines += [*map(_remark, findings.notes), *([_remark(findings.verdict.text)] if findings.verdict else [])]
    return "\n".join(lines) + "\n"


def latex(text: str) -> str:
    """
    >>> print(latex("50 % of a_b"))
    50 \\% of a\\_b
    """
    return one_line(text).translate(_ACTS)


def _remark(text: str) -> str:
    """A line that LaTeX passes over, whatever it says."""
    return f"% {one_line(text)}"


def _table(table: Table) -> Iterator[str]:
    # A standard error stands behind its value, so a reader of the paper cannot take one without the other.
    shown = [at for at in table.shown() if table.columns[at].kind is not STDERR]
    errors = [at for at in table.shown() if table.columns[at].kind is STDERR]
    if table.title:
        yield from map(_remark, table.title.split("\n"))
    yield rf"\begin{{tabular}}{{{''.join('r' if table.columns[at].kind.right else 'l' for at in shown)}}}"
    yield r"\toprule"
    yield " & ".join(latex(table.columns[at].name) for at in shown) + r" \\"
    yield r"\midrule"
    for row in table.rows:
        cells = []
        for at in shown:
            cell, text = row.cells[at], latex(table.text_of(row, at))
            if isinstance(cell, Name):
                text = "" if cell.is_repeated else (rf"\hspace{{{cell.depth}em}}" if cell.depth else "") + text
            if at + 1 in errors and (error := table.text_of(row, at + 1)):
                text = f"{text} {latex(error)}"
            cells.append(text)
        yield " & ".join(cells) + r" \\"
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield from map(_remark, table.notes)
