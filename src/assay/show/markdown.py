"""Findings as Markdown: for a comment, a model card, a document. Text of anybody is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from assay.show.findings import Findings, ShownRow, Table
from assay.show.kinds import Name, Word
from assay.terminal_text import one_line

_ACTS = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]<>#|~"} | {"&": "&amp;"})
_MARKS = {"passed": "✅", "failed": "❌", "cannot tell": "❔"}


def to_markdown(findings: Findings) -> str:
    mark = f"{_MARKS[findings.verdict.outcome]} " if findings.verdict is not None else ""
    lines = [f"### {mark}{escaped(findings.title)}", ""]
    for sentence in (*findings.lead, *((findings.verdict.text,) if findings.verdict is not None else ())):
        lines += [escaped(sentence), ""]
    for table in findings.tables:
        lines += [*_table(table), ""]
    for table in findings.details():
        lines += _folded(table)
    lines += [f"- {escaped(note)}" for note in findings.notes]
    if findings.link:
        lines += ["", f"[All of it]({findings.link})"]
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str) -> str:
    return one_line(text).translate(_ACTS)


def _table(table: Table) -> Iterator[str]:
    shown = table.shown()
    has_notes = any(row.note for row in table.rows)
    names = [table.columns[at].name for at in shown] + ([table.notes_name] if has_notes else [])
    if table.title:
        yield from (f"**{escaped(line)}**  " for line in table.title.split("\n"))
        yield ""
    yield "| " + " | ".join(map(escaped, names)) + " |"
    yield (
        "|" + "|".join(["---:" if table.columns[at].kind.right else "---" for at in shown] + ["---"] * has_notes) + "|"
    )
    for row in table.rows:
        cells = [_cell(table, row, at) for at in shown] + ([escaped(row.note)] if has_notes else [])
        yield "| " + " | ".join(cells) + " |"
    if table.notes:
        yield ""
        yield from (f"- {escaped(note)}" for note in table.notes)


def _cell(table: Table, row: ShownRow, at: int) -> str:
    cell, text = row.cells[at], escaped(table.text_of(row, at))
    if isinstance(cell, Name):
        return "&nbsp;&nbsp;" * cell.depth + text
    return f"{cell.mark} {text}".strip() if isinstance(cell, Word) else text


def _folded(table: Table) -> Iterator[str]:
    yield f"<details><summary>{escape(one_line(table.title))}</summary>"
    yield ""
    yield from _table(Table(table.columns, table.rows, notes=table.notes, notes_name=table.notes_name))
    yield ""
    yield "</details>"
    yield ""
