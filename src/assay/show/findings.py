"""What an analysis found, or a run, ready to be shown: values in tables, not text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from assay.registry import load_object
from assay.show.kinds import Kind, Name, Tone
from assay.show.plots import ForestPlot

R = TypeVar("R")


@dataclass(frozen=True)
class Column(Generic[R]):
    """One column, declared once for every format."""

    name: str
    kind: Kind
    of: Callable[[R], Any]
    """From what a row is about to its cell."""
    key: str | None = None
    """What it is called where machines read it; None: as people call it. "": the kind's own fields alone, such as low and high."""
    rank: int | None = None
    """Columns with the highest rank are the first to go where there is no room; None stays."""
    shrinks: bool = False
    """Whether its texts may lose their middle."""
    moves: bool = False
    """Whether the note of a row says what this column would have said, where there is no room for it."""
    tone: Tone = ""
    for_people: bool = True
    """Else it stands only where machines read: in CSV."""
    for_machines: bool = True

    @property
    def fields(self) -> tuple[str, ...]:
        """
        >>> from assay.show.kinds import INTERVAL, COUNT
        >>> Column("95 % interval", INTERVAL, str, key="kl").fields, Column("tokens", COUNT, str).fields
        (('kl_low', 'kl_high'), ('tokens',))
        """
        if not self.for_machines:
            return ()
        key = self.name.lower().replace(" ", "_") if self.key is None else self.key
        return tuple("_".join(filter(None, (key, part))) for part in self.kind.fields)


Outcome = Literal["passed", "failed", "cannot tell"]


@dataclass(frozen=True)
class BuildCheck:
    """A row that had to hold, or that a build system should show."""

    name: str
    case: str
    outcome: Outcome
    message: str
    identity: str
    """Tells it from every other, and is the same in the next build."""
    is_required: bool = True
    """Whether the build depends on it; else it is a warning."""
    of: str = ""
    """Which of several runs it is about."""


@dataclass(frozen=True)
class ShownRow:
    """Cells in the order of the columns, and what is said beside them."""

    cells: tuple[Any, ...]
    note: str = ""
    note_tone: Tone = "quiet"
    is_group: bool = False
    tone: Tone = ""
    begins: bool = False
    """Whether a line is drawn above it."""
    keeps: tuple[str, ...] = ()
    """Columns whose text the note of this row says where there is no room for them."""
    check: BuildCheck | None = None


@dataclass(frozen=True)
class Table:
    """Rows under columns."""

    columns: tuple[Column[Any], ...]
    rows: tuple[ShownRow, ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    notes_name: str = "notes"
    """The head of the last column, which holds what is said about a row."""

    @classmethod
    def of(
        cls,
        columns: Sequence[Column[R]],
        items: Iterable[R],
        *,
        row: Callable[[R], dict[str, Any]] | None = None,
        **about: Any,
    ) -> Table:
        """A row for each item; `row` says what else there is to a row than its cells."""
        made = [
            ShownRow(tuple(c.of(item) for c in columns), **(row(item) if row is not None else {})) for item in items
        ]
        return cls(tuple(columns), tuple(made), **about)

    def text_of(self, row: ShownRow, position: int) -> str:
        cell = row.cells[position]
        return "" if cell is None else self.columns[position].kind.text(cell)

    def shown(self) -> list[int]:
        """The columns that people see: those for them in which something stands."""
        return [
            at
            for at, column in enumerate(self.columns)
            if column.for_people and (not self.rows or any(self.text_of(row, at) for row in self.rows))
        ]


@dataclass(frozen=True)
class Conclusion:
    """What follows from it all."""

    outcome: Outcome
    text: str

    @property
    def exit_code(self) -> int:
        return {"passed": 0, "failed": 1, "cannot tell": 4}[self.outcome]


@dataclass(frozen=True)
class Findings:
    """What is to be shown, whatever the format. `result` is what Python users hold, and its `to_dict` is the JSON."""

    title: str
    lead: tuple[str, ...] = ()
    """Sentences above the tables."""
    tables: tuple[Table, ...] = ()
    details: Callable[[], tuple[Table, ...]] = field(default=tuple, compare=False)
    """Tables that pages and comments fold away, and others leave out; made when they are shown, for they may read docs."""
    plots: tuple[ForestPlot, ...] = ()
    notes: tuple[str, ...] = ()
    """What the reader must know beside the tables."""
    verdict: Conclusion | None = None
    result: Any = None
    link: str | None = None
    """Where a reader of a comment finds more."""
    page: Callable[[Findings], str] | None = field(default=None, compare=False)
    """A page of its own, where the common one would not do: a run's report."""

    @property
    def checks(self) -> list[BuildCheck]:
        return [row.check for table in self.tables for row in table.rows if row.check is not None]

    def linked(self, link: str | None) -> Findings:
        return replace(self, link=link)

    def to(self, form: str, **settings: Any) -> str:
        """In a format by its name: text, md, latex, csv, json, html, notebook, junit, annotations, or one that a package brings."""
        formats: Any = load_object("assay.show.formats:OUTPUT_FORMATS")
        return str(formats[form].render(self, **settings))

    def to_text(self, width: int = 140) -> str:
        return self.to("text", width=width)

    def to_markdown(self) -> str:
        return self.to("md")

    def to_latex(self) -> str:
        return self.to("latex")

    def to_csv(self) -> str:
        return self.to("csv")

    def to_json(self) -> str:
        return self.to("json")

    def to_html(self) -> str:
        return self.to("html")

    def to_junit(self) -> str:
        return self.to("junit")

    def save(self, path: str | Path) -> Path:
        """Write it in the format that the file's ending says."""
        write: Any = load_object("assay.show.formats:save")
        place: Path = write(self, Path(path))
        return place

    def _repr_html_(self) -> str:
        return self.to("notebook")


def repeated_names(names: Sequence[str]) -> list[bool]:
    """Whether each name is that of the row above.

    >>> repeated_names(["a", "a", "b", "a"])
    [False, True, False, False]
    """
    return [before == name for before, name in zip([None, *names], names)]


def name_of(row: ShownRow, table: Table) -> str:
    """What a row is about, in words: its names and texts."""
    words = [
        table.columns[at].kind.data(cell)[0]
        for at, cell in enumerate(row.cells)
        if cell is not None and isinstance(cell, Name | str) and table.columns[at].for_people
    ]
    return " ".join(filter(None, map(str, words)))
