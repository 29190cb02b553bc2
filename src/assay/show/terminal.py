"""Findings on a terminal, and as plain text of any width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from assay.show.findings import Findings, Table
from assay.show.fitted import FittedTable, Heading
from assay.show.kinds import Name
from assay.terminal_text import cell_width, one_line, with_signs

STYLES = {"good": "green", "bad": "red", "warn": "yellow", "same": "cyan", "quiet": "dim", "": ""}


def fitted(table: Table, title: str = "") -> FittedTable:
    """A table that fits itself to the window, under its title or this one."""
    shown = [at for at, column in enumerate(table.columns) if column.for_people]
    columns = [table.columns[at] for at in shown]
    headings = [Heading(one_line(c.name), c.kind.right, STYLES[c.tone], c.rank, c.shrinks, c.moves) for c in columns]
    made = FittedTable(
        headings, title="\n".join(map(one_line, (table.title or title).split("\n"))), notes=table.notes_name
    )
    for row in table.rows:
        if row.begins:
            made.section()
        weight = "bold" if row.is_group else ""
        cells: list[str | tuple[str, str]] = []
        for at in shown:
            cell, kind = row.cells[at], table.columns[at].kind
            text = one_line(table.text_of(row, at))
            if isinstance(cell, Name):
                text = "" if cell.is_repeated else "  " * cell.depth + text
                cells.append((text, f"{STYLES[row.tone]} {weight}".strip()))
            else:
                tone = STYLES[kind.tone(cell)] if cell is not None else ""
                cells.append((text, tone or (STYLES[row.tone] if kind.right else "")))
        made.add(cells, one_line(row.note), STYLES[row.note_tone], keeps=row.keeps)
    return made


def terminal_parts(findings: Findings) -> Iterator[FittedTable | str]:
    """Tables and sentences in the order in which people read them."""
    yield from findings.lead
    for position, table in enumerate(findings.tables):
        if position or findings.lead:
            yield ""
        yield fitted(table, "" if position or findings.lead else findings.title)
        yield from table.notes
    if len(findings.tables) > 1 and findings.notes:
        yield ""
    yield from findings.notes
    if findings.verdict is not None:
        yield findings.verdict.text


def to_text(findings: Findings, *, width: int = 140) -> str:
    lines: list[str] = []
    for part in terminal_parts(findings):
        if isinstance(part, FittedTable):
            lines += [f" {line.plain}".rstrip() for line in part.lines(width - 2)]
        else:
            lines += _wrapped(with_signs(part), width)
    return "\n".join(lines) + "\n"


def _wrapped(text: str, width: int) -> list[str]:
    indent = " " * max(2, len(text) - len(text.lstrip(" ")))
    lines = []
    for line in text.split("\n"):
        if cell_width(line) <= width:
            lines.append(line)
        else:
            lines += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return lines
