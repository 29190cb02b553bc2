"""Findings as HTML: a page of its own, a part of the viewer's pages, and what a notebook shows.

No script and no network. Elements have classes on pages; in a notebook, which keeps no style sheet of ours, the same
elements carry their styles with them. Text of anybody is escaped.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from html import escape
from typing import TYPE_CHECKING

from assay.results import format_number
from assay.show.axes import Whisker
from assay.show.findings import Column, Findings, ShownRow, Table
from assay.show.kinds import WHISKER, Link, Name
from assay.show.palette import INK, SOFT, palette_css
from assay.terminal_text import one_line, with_signs

if TYPE_CHECKING:
    from jinja2 import Template

Address = Callable[[Link], str | None]
"""From a place in a run to where it can be seen; None where it cannot."""

NOTEBOOK = {
    "findings": "font-size:inherit",
    "title": "font-weight:600;margin:.2em 0",
    "scroll": "overflow-x:auto",
    "said": "font-size:.9em;opacity:.75",
    "group": "font-weight:600",
    "name": "text-align:left;padding:.15em .8em .15em 0;white-space:nowrap",
    "cell": "text-align:left;padding:.15em .8em .15em 0;white-space:nowrap",
    "n": "text-align:right;padding:.15em .8em .15em 0;white-space:nowrap;font-variant-numeric:tabular-nums",
    "text": "text-align:left;padding:.15em .8em .15em 0;white-space:normal;min-width:18em",
    "quiet": "opacity:.65",
    "good": "color:#26794d",
    "bad": "color:#b5442c",
    "warn": "color:#985f0b",
    "same": f"color:{INK}",
    "rail": f"stroke:{SOFT};stroke-opacity:.4",
    "reference": f"stroke:{SOFT}",
    "tick": f"stroke:{SOFT};stroke-width:2",
    "whisker": f"stroke:{INK};stroke-width:3",
    "dot": f"fill:{INK}",
    "band": f"fill:{SOFT};fill-opacity:.25",
    **{f"d{depth}": f"padding-left:{1.2 * depth:g}em" for depth in range(1, 7)},
}


def shown(text: object) -> str:
    """Text of anybody, as text."""
    return escape(one_line(str(text)))


LONG_NAME = 32
"""Characters of a name or text that is broken where a line ends; shorter ones stay whole."""


class Html:
    """Writes elements. With `styles`, each class becomes its style; with `address`, names lead to where they can be seen."""

    def __init__(self, styles: dict[str, str] | None = None, address: Address | None = None) -> None:
        self.styles, self.address = styles, address

    def look(self, *classes: str) -> str:
        wanted = [each for each in classes if each]
        if self.styles is None:
            return f' class="{" ".join(wanted)}"' if wanted else ""
        style = ";".join(self.styles[each] for each in wanted if each in self.styles)
        return f' style="{style}"' if style else ""

    def findings(self, findings: Findings) -> str:
        """Everything but the page around it."""
        parts = [f"<p{self.look('lead')}>{shown(line)}</p>" for line in findings.lead]
        if findings.verdict is not None:
            tone = {"passed": "good", "failed": "bad", "cannot tell": "warn"}[findings.verdict.outcome]
            parts.append(f"<p{self.look('verdict', tone)}>{shown(findings.verdict.text)}</p>")
        parts += map(self.table, findings.tables)
        parts += map(self.folded, findings.details())
        parts += [plot.svg for plot in findings.plots]
        parts.append(self.said(findings.notes))
        return "\n".join(part for part in parts if part)

    def said(self, notes: tuple[str, ...]) -> str:
        if not notes:
            return ""
        return f"<ul{self.look('said')}>" + "".join(f"<li>{escape(with_signs(note))}</li>" for note in notes) + "</ul>"

    def folded(self, table: Table) -> str:
        inner = self.table(Table(table.columns, table.rows, notes=table.notes, notes_name=table.notes_name))
        return f"<details><summary>{shown(table.title)}</summary>{inner}</details>"

    def table(self, table: Table) -> str:
        columns = [
            at
            for at, column in enumerate(table.columns)
            if column.for_people
            and (
                not table.rows
                or any(table.text_of(row, at) or isinstance(row.cells[at], Whisker) for row in table.rows)
            )
        ]
        has_notes = any(row.note for row in table.rows)
        title = "".join(f"<div{self.look('title')}>{shown(line)}</div>" for line in table.title.split("\n") if line)
        head = "".join(
            f"<th{self.look(_class(table.columns[at]), _more(table.columns[at]))}>{shown(table.columns[at].name)}</th>"
            for at in columns
        )
        if has_notes and self.styles is not None:
            head += f"<th{self.look('text')}>{shown(table.notes_name)}</th>"
        body = "".join(self.row(table, row, columns, has_notes) for row in table.rows)
        grid = f"<table{self.look('list')}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"{title}<div{self.look('scroll')}>{grid}</div>{self.said(table.notes)}"

    def row(self, table: Table, row: ShownRow, columns: list[int], has_notes: bool) -> str:
        cells = "".join(self.cell(table, row, at) for at in columns)
        kind, begins = "group" if row.is_group else "", "begins" if row.begins else ""
        if self.styles is not None:
            note = f"<td{self.look('text', row.note_tone)}>{shown(row.note)}</td>" if has_notes else ""
            return f"<tr{self.look(kind, begins)}>{cells}{note}</tr>"
        made = f"<tr{self.look(kind, begins, 'noted' if row.note else '')}>{cells}</tr>"
        if not row.note:
            return made
        # On a page a note stands under its row: beside it, a long one would leave no room for the numbers.
        depth = next((cell.depth for cell in row.cells if isinstance(cell, Name)), 0)
        said = f'<td{self.look("remark", f"d{min(depth, 6)}", row.note_tone)} colspan="{len(columns)}">{shown(row.note)}</td>'
        return f"{made}<tr{self.look(kind, 'remark')}>{said}</tr>"

    def cell(self, table: Table, row: ShownRow, at: int) -> str:
        cell, column = row.cells[at], table.columns[at]
        if isinstance(cell, Whisker):
            return f"<td{self.look('drawn')}>{self.whisker(cell)}</td>"
        said = table.text_of(row, at)
        text = shown(said) if column.kind.right else self.whole_words(said)
        if isinstance(cell, Name):
            text = "" if cell.is_repeated else self.linked(cell.text, cell.link)
            depth = f"d{min(cell.depth, 6)}" if cell.depth else ""
            weight = "group" if row.is_group and self.styles is not None else ""
            long = "long" if len(cell.text) > LONG_NAME else ""
            return f"<td{self.look('name', depth, weight, row.tone, long)}>{text}</td>"
        if column.kind.html is not None and cell is not None:
            text = column.kind.html(cell, self.linked)
        tone = "" if cell is None else column.kind.tone(cell) or (row.tone if column.kind.right else "")
        named = f' data-of="{shown(column.name)}"' if self.styles is None and column.name else ""
        long = "long" if len(said) > LONG_NAME and not column.kind.right else ""
        return f"<td{self.look(_class(column), tone or column.tone, _more(column), long)}{named}>{text}</td>"

    def whole_words(self, text: str) -> str:
        """The text, escaped. Browsers break lines at hyphens, which would tear names such as `strict-match`."""
        if self.styles is not None or "-" not in text or len(text) > LONG_NAME:
            return shown(text)
        return " ".join(
            f'<span class="whole">{shown(word)}</span>' if "-" in word else shown(word) for word in text.split(" ")
        )

    def linked(self, text: str, link: Link | None) -> str:
        """The text, escaped, as a link where there is something to be seen."""
        place = self.address(link) if self.address is not None and link is not None else None
        if link is None or not place:
            return shown(text)
        title = f' title="{shown(link.title)}"' if link.title else ""
        return f'<a href="{escape(place)}"{title}>{shown(text)}</a>'

    def whisker(self, mark: Whisker) -> str:
        """A dot with its bar on the axis; nothing where there is no number."""
        percent = mark.axis.percent
        dot, left, right = percent(mark.value), percent(mark.low), percent(mark.high)
        if dot is None:
            return ""
        parts = [f"<title>{escape(with_signs(mark.label or mark.axis.text))}</title>"]
        if mark.band is not None:
            ends = percent(-mark.band) or 0.0, percent(mark.band) or 0.0
            parts.append(
                f'<rect x="{ends[0]:.2f}%" y="0" width="{ends[1] - ends[0]:.2f}%" height="14"{self.look("band")}/>'
            )
        parts.append(f'<line x1="0" x2="100%" y1="7" y2="7"{self.look("rail")}/>')
        if (reference := percent(mark.reference)) is not None:
            place = f'x1="{reference:.2f}%" x2="{reference:.2f}%" y1="1" y2="13"'
            parts.append(f"<line {place}{self.look('reference')}/>")
        for name, value in mark.ticks:
            at, said = f"{percent(value) or 0.0:.2f}%", f"{shown(name.replace('_', ' '))} {format_number(value)}"
            parts.append(f'<line x1="{at}" x2="{at}" y1="9" y2="14"{self.look("tick")}><title>{said}</title></line>')
        if left is not None and right is not None:
            parts.append(f'<line x1="{left:.2f}%" x2="{right:.2f}%" y1="7" y2="7"{self.look("whisker")}/>')
        parts.append(f'<circle cx="{dot:.2f}%" cy="7" r="4"{self.look("dot")}/>')
        label = escape(one_line(mark.text or format_number(mark.value or 0.0)))
        width = "140" if self.styles is not None else "100%"
        svg = f'<svg{self.look("bar")} width="{width}" height="14" role="img" aria-label="{label}" overflow="visible">{"".join(parts)}</svg>'
        if self.styles is None and mark.axis.ends is not None:
            low, high = mark.axis.ends
            svg += f'<div class="ends" aria-hidden="true"><span>{low}</span><span>{high}</span></div>'
        return svg


def _class(column: Column[object]) -> str:
    return "drawn" if column.kind is WHISKER else "n" if column.kind.right else "cell"


def _more(column: Column[object]) -> str:
    """Columns that a narrow window does without."""
    return "more" if column.rank is not None and column.rank >= 3 else ""


def to_notebook(findings: Findings) -> str:
    """What a notebook shows, wherever it is read, also without Assay."""
    write = Html(NOTEBOOK)
    return f"<div><div{write.look('title')}>{shown(findings.title)}</div>{write.findings(findings)}</div>"


def to_html(findings: Findings) -> str:
    """One file that can be mailed, archived and printed."""
    if findings.page is not None:
        return findings.page(findings)
    return page_template("findings.html").render(
        title=findings.title, body=Html().findings(findings), link=findings.link
    )


@cache
def page_template(name: str, **filters: Callable[..., str]) -> Template:
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
