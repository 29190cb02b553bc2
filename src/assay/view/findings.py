"""Findings on the viewer's pages: the same tables, with links, rows that the keyboard walks along, and trees that fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Protocol

from assay.show import Findings, Html, ShownRow, Table, table_data
from assay.show.kinds import Link, Name


class Links(Protocol):
    """How addresses of pages are made: by a server, or as files of a bundle."""

    live: bool

    def run(self, run_id: str) -> str: ...
    def task(self, run_id: str, task: str) -> str: ...
    def samples(self, run_id: str, task: str, **query: Any) -> str: ...
    def sample(self, run_id: str, task: str, doc_id: int) -> str: ...


@dataclass(frozen=True)
class Addresses:
    """From a place in a run to its page."""

    links: Links
    ids: dict[str, str]
    """Directory of a run to its id."""

    def __call__(self, link: Link) -> str | None:
        run = self.ids.get(link.run)
        if run is None:
            return None
        if link.only:
            query = {
                "only": link.only,
                "metric": link.metric,
                "filter": link.filter,
                "against": self.ids.get(link.against),
            }
            return self.links.samples(run, link.task, **query) if self.links.live else None
        if link.doc_id is not None:
            return self.links.sample(run, link.task, link.doc_id) or None
        return self.links.task(run, link.task) if link.task else self.links.run(run)


class ViewerHtml(Html):
    """Rows can be walked along; with `tree`, those below a group fold away."""

    def __init__(self, address: Addresses, *, tree: bool = False) -> None:
        super().__init__(address=address)
        self.tree = tree
        self.places: dict[int, str] = {}

    def table(self, table: Table) -> str:
        self.places = self.places_in_tree(table) if self.tree else {}
        made = super().table(table).replace('<table class="list"', '<table class="list shown"', 1)
        return made.replace("<table", "<table data-tree-table", 1) if self.tree else made

    def row(self, table: Table, row: ShownRow, columns: list[int], has_notes: bool) -> str:
        made = super().row(table, row, columns, has_notes)
        name = next((cell for cell in row.cells if isinstance(cell, Name)), None)
        if name is None:
            return made.replace("<tr", "<tr data-row", 1)
        classes = [f"d{min(name.depth, 6)}", "group" if row.is_group else "task"]
        classes += ["more"] * name.is_repeated + ["noted"] * bool(row.note) + ["begins"] * row.begins
        place = self.places.get(id(row), "")
        attributes = f'class="{" ".join(classes)}" data-name="{escape(name.name or name.text)}"{place}'
        attributes += "" if name.is_repeated else " data-row"
        first, _, remark = (made[made.index(">") + 1 :]).partition("</tr>")
        # What is said of a row folds with it.
        below = place.replace('data-id="', 'data-id="remark-', 1)
        return f"<tr {attributes}>{first}</tr>" + remark.replace("<tr", f"<tr{below}", 1)

    @staticmethod
    def places_in_tree(table: Table) -> dict[int, str]:
        """Of each row its number, that of its node's first row, and that of the row it hangs from."""
        places, nodes = {}, list[int]()
        for number, row in enumerate(table.rows):
            name = next(cell for cell in row.cells if isinstance(cell, Name))
            if not name.is_repeated:
                nodes = [*nodes[: name.depth], number]
            parent = f' data-parent="{nodes[-2]}"' if len(nodes) > 1 else ""
            places[id(row)] = f' data-id="{number}" data-node="{nodes[-1]}"{parent}'
        return places

    def cell(self, table: Table, row: ShownRow, at: int) -> str:
        made = super().cell(table, row, at)
        cell = row.cells[at]
        if not isinstance(cell, Name) or cell.is_repeated:
            return made
        made = made.replace("<a ", "<a data-open ", 1)
        if not self.tree:
            return made
        has_children = row.is_group
        twist = (
            f'<button type="button" class="twist" aria-expanded="true" aria-label="{escape(cell.text)}"></button>'
            if has_children
            else '<span class="twist none"></span>'
        )
        return made.replace(">", f'><span class="indent">{twist}', 1).replace("</td>", "</span></td>", 1)


@dataclass(frozen=True)
class ShownFindings:
    """Findings as a page shows them, and as a download has them: plain values, which may come from another process."""

    html: str = ""
    rows: tuple[dict[str, Any], ...] = ()
    metrics: tuple[str, ...] = ()
    """To choose from."""


def shown_findings(findings: Findings, address: Addresses, metric: str = "") -> ShownFindings:
    """With `metric`, only rows of that one."""
    metrics = tuple(dict.fromkeys(text for table in findings.tables for text in _metrics(table)))
    if metric in metrics:
        tables = tuple(replace(table, rows=tuple(_rows_of(table, metric))) for table in findings.tables)
        findings = replace(findings, tables=tables)
    rows = [
        {"table": table.title.replace("\n", " "), **data} if len(findings.tables) > 1 else data
        for table in findings.tables
        for data in table_data(table)
    ]
    return ShownFindings(ViewerHtml(address).findings(findings), tuple(rows), metrics)


def _metrics(table: Table) -> Sequence[str]:
    at = next((at for at, column in enumerate(table.columns) if column.name == "metric" and column.for_people), None)
    return [] if at is None else [table.text_of(row, at) for row in table.rows]


def _rows_of(table: Table, metric: str) -> Sequence[ShownRow]:
    metrics = _metrics(table)
    if not metrics:
        return table.rows
    chosen = [row for row, text in zip(table.rows, metrics, strict=True) if text == metric]
    return [
        replace(row, cells=tuple(replace(c, is_repeated=False) if isinstance(c, Name) else c for c in row.cells))
        for row in chosen
    ]
