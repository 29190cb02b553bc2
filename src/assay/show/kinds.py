"""Kinds of cells: what a value is, and so how it reads as text, as plain data and on a page.

Renderers know these kinds and nothing of analyses. A kind that somebody else makes is shown everywhere, for all that a
renderer needs of it is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from assay.results import format_number
from assay.show.axes import Whisker
from assay.stats import Estimate

Tone = Literal["", "good", "bad", "warn", "same", "quiet"]
"""What a colour says; each renderer has its own colours."""


@dataclass(frozen=True)
class Link:
    """A place in a run that a reader may want to go to. Only the viewer knows an address for it."""

    run: str
    task: str = ""
    doc_id: int | None = None
    only: Literal["", "gained", "lost"] = ""
    """Of a task: the docs that another run, `against`, has right and this one has not, or the other way round."""
    against: str = ""
    metric: str = ""
    filter: str = ""
    title: str = ""
    """What is said of it before it is followed."""


@dataclass(frozen=True)
class Name:
    """What a row is about, in a tree of such names."""

    text: str
    name: str = ""
    """As machines call it, where people see an alias."""
    depth: int = 0
    is_repeated: bool = False
    """Whether the row above has the same name: people read it once, machines in every row."""
    link: Link | None = None


@dataclass(frozen=True)
class Word:
    """A verdict: a word and what it means for whoever asked."""

    text: str
    tone: Tone = ""
    mark: str = ""
    """A sign that stands for it where there is little room."""


@dataclass(frozen=True)
class FlipCount:
    """Docs that are newly right and newly wrong, and where they can be seen."""

    gained: int
    lost: int
    links: tuple[Link | None, Link | None] = (None, None)


@dataclass(frozen=True)
class Linked:
    """A short text that leads somewhere."""

    text: str
    link: Link


@dataclass(frozen=True)
class Kind:
    """How values of one kind are shown. A cell without a value is empty everywhere."""

    text: Callable[[Any], str]
    fields: tuple[str, ...] = ("",)
    """Columns of plain data; each is called after the table's column, and then so."""
    data: Callable[[Any], tuple[Any, ...]] = lambda value: (value,)
    right: bool = False
    tone: Callable[[Any], Tone] = lambda value: ""
    html: Callable[[Any, Callable[[str, Link | None], str]], str] | None = None
    """On pages, where it is more than its text: the value, and a function that makes a text lead somewhere."""


def _ends(estimate: Estimate, show: Callable[[float], str]) -> str:
    low, high = estimate.low, estimate.high
    return "" if low is None or high is None else f"[{show(low)}, {show(high)}]"


def signed(value: float) -> str:
    """A difference with its sign, so that zero reads as zero.

    >>> signed(0.0123), signed(0.0), signed(-0.5)
    ('+0.0123', '0.0000', '-0.5000')
    """
    text = format_number(value)
    return f"+{text}" if value > 0 else text


def small(value: float) -> str:
    """Three digits that count, for numbers that span ten powers of ten.

    >>> small(0.0), small(0.00123456), small(3.2e-9), small(-0.5)
    ('0', '0.00123', '3.2e-09', '-0.5')
    """
    return "0" if value == 0 else f"{value:.3g}"


def p_value(value: float) -> str:
    """
    >>> p_value(0.00003), p_value(0.04)
    ('<0.0001', '0.0400')
    """
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def probability(share: float) -> str:
    """
    >>> [probability(x) for x in (0.0, 0.0004, 0.25, 0.9996, 1.0)]
    ['<0.001', '<0.001', '0.250', '>0.999', '>0.999']
    """
    return "<0.001" if share < 0.001 else ">0.999" if share > 0.999 else f"{share:.3f}"


def _value(show: Callable[[float], str]) -> Callable[[Estimate], str]:
    return lambda estimate: "undefined" if estimate.value is None else show(estimate.value)


def _number(show: Callable[[float], str]) -> Kind:
    return Kind(lambda value: show(value), right=True)


def value_kind(show: Callable[[float], str]) -> Kind:
    """The value of an estimate."""
    return Kind(_value(show), data=lambda e: (e.value,), right=True)


def interval_kind(show: Callable[[float], str]) -> Kind:
    """The ends of an estimate's interval."""
    return Kind(lambda e: _ends(e, show), ("low", "high"), lambda e: (e.low, e.high), right=True)


def with_error_kind(show: Callable[[float], str]) -> Kind:
    """The value of an estimate and its standard error."""

    def text(e: Estimate) -> str:
        error = "" if e.stderr is None else f" ± {format_number(e.stderr)}"
        return "" if e.value is None else show(e.value) + error

    return Kind(text, ("", "stderr"), lambda e: (e.value, e.stderr), right=True)


NAME = Kind(lambda name: name.text, data=lambda name: (name.name or name.text,))
TEXT = Kind(str)
WORD = Kind(lambda word: word.text, data=lambda word: (word.text,), tone=lambda word: word.tone)
LINK = Kind(
    lambda cell: cell.text, data=lambda cell: (cell.text,), html=lambda cell, linked: linked(cell.text, cell.link)
)
COUNT = _number(lambda value: f"{value:,}")
NUMBER = _number(format_number)
SIGNED = _number(signed)
SMALL = _number(small)
SHARE = _number(lambda value: f"{value:.1%}")
P_VALUE = _number(p_value)
PROBABILITY = _number(probability)
VALUE = value_kind(format_number)
STDERR = Kind(
    lambda e: "" if e.stderr is None else f"± {format_number(e.stderr)}", ("stderr",), lambda e: (e.stderr,), right=True
)
INTERVAL = interval_kind(format_number)
WITH_ERROR = with_error_kind(format_number)
SIGNED_INTERVAL = interval_kind(signed)
SIGNED_WITH_ERROR = with_error_kind(signed)
METHOD = Kind(lambda e: str(e.method), data=lambda e: (e.method,))
FLIPS = Kind(
    lambda flips: f"+{flips.gained:,} −{flips.lost:,}",
    ("gained", "lost"),
    lambda flips: (flips.gained, flips.lost),
    right=True,
    html=lambda flips, linked: " ".join(map(linked, (f"+{flips.gained:,}", f"−{flips.lost:,}"), flips.links)),
)
RANKS = Kind(
    lambda pair: str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}–{pair[1]}", ("low", "high"), tuple, right=True
)


def _no_text(whisker: Whisker) -> str:
    return ""


WHISKER = Kind(_no_text, (), lambda whisker: ())
"""A dot and a bar; drawn on pages, and nothing where there are only letters: the numbers stand in other columns."""


def plain(value: Any) -> Any:
    """A number that is none as None: files have no word for it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
