"""Tables for terminals of any width.

What a reader came for is never cut: the columns that always stay, and the notes. Where there is no room, other columns
go first, the least important before the rest; then long names lose their middle; and notes that find no place beside
their row stand under it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.terminal_text import cell_width

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

GAP = 2
EDGE = 1
UNDER = "    ↳ "
"""What a note under its row begins with: names of members are indented too."""
NARROWEST_NAME = 10
SHORT_NAME = 14
NARROWEST_NOTE = 24
"""Cells beside a row that a note needs; with fewer it stands under the row."""


@dataclass(frozen=True)
class Heading:
    """What a column asks of the window."""

    name: str
    right: bool = False
    style: str = ""
    rank: int | None = None
    """Columns with the highest rank are the first to go where there is no room; those of rank 0 go only where names would have to
    lose more than a little, and None stays."""
    shrinks: bool = False
    """Whether its texts may lose their middle."""
    moves: bool = False
    """Whether the note of a row says what this column would have said, where there is no room for it."""


@dataclass(frozen=True)
class _TableRow:
    cells: Sequence[tuple[str, str]]
    note: str
    note_style: str
    keeps: Collection[str] = ()
    """Columns whose text the note of this row says where they are not shown."""
    begins: bool = False
    """Whether a line is drawn above it."""


@dataclass(frozen=True)
class _Fit:
    """What there is room for."""

    shown: Sequence[int]
    widths: Sequence[int]
    """Of the columns that are shown."""
    hidden: Sequence[int]
    tight: Collection[int]
    """Columns in which some text is cut."""
    beside: int
    """Room for notes beside the rows; 0: they stand under them."""

    @property
    def across(self) -> int:
        columns = sum(self.widths) + GAP * (len(self.widths) - 1)
        return columns + (GAP + self.beside if self.beside else 0)


@dataclass
class FittedTable:
    """Prints itself on a rich console, as wide as that is. Cells are plain text: markup in a name is not obeyed."""

    columns: Sequence[Heading]
    title: str = ""
    notes: str = "notes"
    """The head of the last column, which holds what is said about a row."""
    rows: list[_TableRow] = field(default_factory=list)
    section_begins: bool = False

    def section(self) -> None:
        """Draw a line above the next row."""
        self.section_begins = bool(self.rows)

    def add(
        self,
        cells: Sequence[str | tuple[str, str]],
        note: str = "",
        note_style: str = "yellow",
        *,
        keeps: Collection[str] = (),
    ) -> None:
        """One row; a cell is its text, or text and style. The note says the columns that it `keeps` where they had
        to go."""
        both = [cell if isinstance(cell, tuple) else (cell, "") for cell in cells]
        self.rows.append(_TableRow(both, note, note_style, keeps, self.section_begins))
        self.section_begins = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for line in self.lines(options.max_width - 2 * EDGE):  # nothing touches the edges of the window
            yield Text(" " * EDGE, no_wrap=line.no_wrap, overflow=line.overflow).append_text(line)

    def lines(self, width: int) -> Iterator[Text]:
        from rich.text import Text

        fit = self._fit(width)
        columns = [self.columns[i] for i in fit.shown]
        for words in self.title.splitlines():
            for line in _wrapped(words, width, indent="  "):
                yield Text(without_middle(line, width), style="italic")
        head = _line(Text, [(column.name, "bold") for column in columns], columns, fit.widths)
        if fit.beside:
            head.append(" " * GAP + self.notes, style="bold")
        head.rstrip()
        yield head
        rule = Text("─" * min(width, fit.across), style="dim")
        yield rule
        for row in self.rows:
            if row.begins:
                yield rule
            texts = [_less_indented(row.cells[i]) if i in fit.tight else row.cells[i] for i in fit.shown]
            yield from self._row_lines(row, _line(Text, texts, columns, fit.widths), fit, width)

    def _row_lines(self, row: _TableRow, line: Text, fit: _Fit, width: int) -> Iterator[Text]:
        """The row with its note beside it, or under it, or both where the note is long."""
        from rich.text import Text

        moved = [i for i in fit.hidden if self.columns[i].moves or self.columns[i].name in row.keeps]
        said = (*(_named(self.columns[i].name, row.cells[i][0]) for i in moved if row.cells[i][0]), row.note)
        indent = fit.across - fit.beside if fit.beside else cell_width(UNDER)
        notes = _wrapped("; ".join(part for part in said if part), fit.beside or max(width - indent, 10))
        if fit.beside and notes:
            line.append(" " * GAP).append(notes.pop(0), style=row.note_style)
        line.rstrip()
        yield line
        for position, note in enumerate(notes):
            start = UNDER if position == 0 and not fit.beside else " " * indent
            yield Text(start).append(note, style=row.note_style)

    def _fit(self, width: int) -> _Fit:
        shown, natural = self._shown(width)
        while (excess := self._needed(shown, natural) - width) > 0:
            long = [i for i in shown if self.columns[i].shrinks and natural[i] > NARROWEST_NAME]
            if not long:
                break
            widest = max(long, key=lambda i: natural[i])
            others = max((natural[i] for i in long if i != widest), default=0)
            natural[widest] = max(NARROWEST_NAME, min(natural[widest] - 1, max(natural[widest] - excess, others)))
        longest = max((cell_width(row.note) for row in self.rows), default=0)
        wanted = max(longest, cell_width(self.notes)) if longest else 0
        room = width - self._needed(shown, natural) - GAP
        beside = min(wanted, room) if wanted and room >= min(wanted, NARROWEST_NOTE) else 0
        hidden = [i for i in self._filled() if i not in shown]
        tight = {i for i in shown if any(cell_width(row.cells[i][0]) > natural[i] for row in self.rows)}
        return _Fit(shown, [natural[i] for i in shown], hidden, tight, beside)

    def _shown(self, width: int) -> tuple[list[int], dict[int, int]]:
        """The columns that there is room for, and those that stay all the same; with the widths of their texts."""
        shown = self._filled()
        natural = {
            i: max([cell_width(self.columns[i].name), *(cell_width(row.cells[i][0]) for row in self.rows)])
            for i in shown
        }
        while self._needed(shown, natural) > width:
            ranked = [i for i in shown if self.columns[i].rank is not None]
            if not ranked:
                break
            next_to_go = max(ranked, key=lambda i: (self.columns[i].rank or 0, i))
            short = {i: min(each, SHORT_NAME) if self.columns[i].shrinks else each for i, each in natural.items()}
            if self.columns[next_to_go].rank == 0 and self._needed(shown, short) <= width:
                break
            shown.remove(next_to_go)
        return shown, natural

    def _filled(self) -> list[int]:
        return [i for i in range(len(self.columns)) if any(row.cells[i][0] for row in self.rows) or not self.rows]

    @staticmethod
    def _needed(shown: Sequence[int], widths: dict[int, int]) -> int:
        return sum(widths[i] for i in shown) + GAP * (len(shown) - 1)


def _line(
    text: type[Text], cells: Sequence[tuple[str, str]], columns: Sequence[Heading], widths: Sequence[int]
) -> Text:
    line = text(no_wrap=True, overflow="ellipsis")
    for position, ((cell, style), column, width) in enumerate(zip(cells, columns, widths)):
        shown = without_middle(cell, width)
        space = " " * (width - cell_width(shown))
        line.append(" " * GAP if position else "")
        line.append(space if column.right else "").append(shown, style=style or column.style)
        line.append("" if column.right else space)
    return line


def _less_indented(cell: tuple[str, str]) -> tuple[str, str]:
    """With half of its indentation, which names of a column lose together before one loses its middle."""
    text, style = cell
    name = text.lstrip(" ")
    return " " * ((len(text) - len(name)) // 2) + name, style


def without_middle(text: str, width: int) -> str:
    """The text, with an ellipsis for its middle where it is too long: what tells names apart stands at either end.

    >>> without_middle("  demo_multilingual_agreement", 16)
    '  demo_m…reement'
    """
    if cell_width(text) <= width:
        return text
    if width < 3:
        return text[:width]
    head, tail = text[: width // 2], text[-((width - 1) // 2) :]
    while cell_width(head) + cell_width(tail) + 1 > width:
        head, tail = (head[:-1], tail) if cell_width(head) >= cell_width(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def _named(name: str, value: str) -> str:
    return f"{name} {value}" if name.endswith("±") else f"{name}: {value}"


def _wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """Lines of whole words. A word that is longer than a line is broken, unless lines are indented: then it is a name."""
    import textwrap

    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=not indent, break_on_hyphens=False)
