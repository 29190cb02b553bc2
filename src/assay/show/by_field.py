"""Scores by fields of the docs as tables: with two fields one across the other, and always a row for each with its bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from assay.finished import FieldScore
from assay.show.axes import Axis, Whisker
from assay.show.findings import Column, Table
from assay.show.kinds import COUNT, INTERVAL, TEXT, VALUE, WHISKER, Kind
from assay.stats import Estimate

Values = tuple[Any, ...]
_MOST_ACROSS = 12
FIELD = Kind(
    lambda value: "none" if value is None else f"{value:,}" if isinstance(value, int) else str(value), right=True
)


def field_tables(scores: Sequence[FieldScore]) -> tuple[Table, ...]:
    """The tables of each task and metric, one after the other."""
    tables: list[Table] = []
    for (task, key, fields), found in groupby(scores, key=lambda each: (each.task, each.key, each.fields)):
        rows = [*found]
        title = f"{task} · {key} by {', '.join(fields)}"
        if len(fields) == 2:
            tables += _crossed(rows, title)
        tables.append(_listed(rows, title))
    return tuple(tables)


def _crossed(rows: Sequence[FieldScore], title: str) -> list[Table]:
    """Lines of the first field, columns of the second; nothing where that would be one column, or too many."""
    across = list(dict.fromkeys(each.values[1] for each in rows))
    if not 1 < len(across) <= _MOST_ACROSS:
        return []
    cells = {each.values: each.estimate for each in rows}
    first, second = rows[0].fields
    columns: list[Column[Any]] = [Column(first, FIELD, lambda value: value)]
    for value in across:
        columns.append(Column(FIELD.text(value), VALUE, partial(_cell, cells, value), f"{second}_{value}"))
    return [Table.of(columns, dict.fromkeys(each.values[0] for each in rows), title=f"{title} (across)")]


def _cell(cells: Mapping[Values, Estimate], column: Any, line: Any) -> Estimate | None:
    return cells.get((line, column))


def _listed(rows: Sequence[FieldScore], title: str) -> Table:
    axis = Axis.around(each.estimate for each in rows)
    columns: list[Column[FieldScore]] = [
        *(
            Column(name, FIELD, lambda each, at=at: each.values[at])  # type: ignore[misc]
            for at, name in enumerate(rows[0].fields)
        ),
        Column("metric", TEXT, lambda each: str(each.key), for_people=False),
        Column("task", TEXT, lambda each: each.task, for_people=False),
        Column("value", VALUE, lambda each: each.estimate),
        Column("95 % interval", INTERVAL, lambda each: each.estimate, "", rank=1, tone="quiet"),
        Column("", WHISKER, lambda each: Whisker.of(each.estimate, axis)),
        Column("n", COUNT, lambda each: each.estimate.n, rank=2, tone="quiet"),
    ]
    return Table.of(columns, rows, row=lambda each: {"note": each.estimate.undefined or ""}, title=title)
