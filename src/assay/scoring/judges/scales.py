"""What a verdict may be, the number that it stands for, and the one reader of verdicts in judges' replies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from assay.errors import ConfigError

_EDGES = " \t\r\n*_`\"'“”‘’.!,;:()[]{}#<>=-"
_NUMBER = re.compile(r"\[*\s*(-?\d+(?:\.\d+)?)\s*(?:/\s*(\d+(?:\.\d+)?)|(?:out of)\s+(\d+(?:\.\d+)?))?\s*\]*\.?")


class Scale(Protocol):
    @property
    def is_open_ended(self) -> bool:
        """Whether the beginning of a verdict can be a verdict too, as 1 is of 10."""

    def read(self, verdict: Any) -> float | None:
        """The number of a verdict; None where it is none."""

    def words(self) -> str:
        """The allowed verdicts, for people and for a judge that is asked once more."""

    def to_json(self) -> Any:
        """The scale as it is kept with a question: a list of words, the ends of grades, or the most points of each."""


@dataclass(frozen=True)
class NamedScale:
    """Named verdicts.

    >>> NamedScale({"correct": 1.0, "incorrect": 0.0}).read("**Incorrect.**")
    0.0
    """

    values: Mapping[str, float]
    is_open_ended: bool = False

    def read(self, verdict: Any) -> float | None:
        if isinstance(verdict, bool) or not isinstance(verdict, str | int | float):
            return None
        said = str(verdict).strip(_EDGES).casefold()
        return next((value for word, value in self.values.items() if word.casefold() == said), None)

    def words(self) -> str:
        *first, last = self.values
        return f"{', '.join(first)} or {last}" if first else last

    def to_json(self) -> Any:
        return {"words": dict(self.values)}


@dataclass(frozen=True)
class Grades:
    """Numbers from `low` to `high`. Others are no verdicts: a judge that says 100 did not understand.

    >>> Grades(1, 10).read("7/10"), Grades(1, 10).read("11")
    (7.0, None)
    """

    low: float
    high: float
    is_open_ended: bool = True

    def read(self, verdict: Any) -> float | None:
        if isinstance(verdict, bool):
            return None
        match = _NUMBER.fullmatch(str(verdict).strip(" \t\r\n*_`\"'“”"))
        if match is None:
            return None
        of = match.group(2) or match.group(3)
        value = float(match.group(1))
        return value if self.low <= value <= self.high and (of is None or float(of) == self.high) else None

    def words(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"

    def to_json(self) -> Any:
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True)
class Points:
    """A number of points for each criterion, in order; the value is the share of all points.

    >>> Points((2, 1, 1)).read("2, 0, 1")
    0.75
    """

    most: tuple[float, ...]
    is_open_ended: bool = True

    def read(self, verdict: Any) -> float | None:
        given = self.each(verdict)
        return None if given is None else sum(given) / sum(self.most)

    def each(self, verdict: Any) -> list[float] | None:
        """The points of each criterion; None where one is missing or too many were given."""
        parts: Sequence[Any] = (
            verdict if isinstance(verdict, list) else re.split(r"[,;\s]+", str(verdict).strip(" []\n*`"))
        )
        grades = [Grades(0, most).read(part) for part, most in zip(parts, self.most)]
        known = [grade for grade in grades if grade is not None]
        return known if len(known) == len(self.most) == len(parts) else None

    def words(self) -> str:
        return f"{len(self.most)} numbers of points, in the order of the criteria, such as {', '.join(f'{m:g}' for m in self.most)}"

    def to_json(self) -> Any:
        return {"points": list(self.most)}


def scale_from_json(written: Mapping[str, Any]) -> Scale:
    """The inverse of `to_json`."""
    if "words" in written:
        return NamedScale(written["words"])
    return Points(tuple(written["points"])) if "points" in written else Grades(written["low"], written["high"])


def scale_of(given: Any) -> Scale:
    """`[1, 10]`, or `{poor: 0, good: 1}`."""
    if isinstance(given, Mapping) and given and all(isinstance(v, int | float) for v in given.values()):
        return NamedScale({str(word): float(value) for word, value in given.items()})
    if (
        isinstance(given, Sequence)
        and len(given) == 2
        and all(isinstance(v, int | float) for v in given)
        and given[0] < given[1]
    ):
        return Grades(float(given[0]), float(given[1]))
    raise ConfigError(
        f"the judge's scale is {given!r}", hint="Use the lowest and highest grade, [1, 10], or {poor: 0, good: 1}."
    )


LONGEST = 1_000_000
"""Characters of a reply that are looked at, from its end: a verdict ends a reply."""

_TAG = re.compile(r"<verdict>([^<>]{0,200})</verdict>", re.IGNORECASE)
_BLOCK = re.compile(r"\A```(?:json)?\s*(.*?)\s*```\Z", re.DOTALL)
_KEY = re.compile(r'"verdict"\s*:')
_FINAL = re.compile(
    r"(?:\W*(?:final |my |overall )*(?:verdict|rating|score|grade|points)\W*[:=]\s*)?([^:]{1,60})", re.IGNORECASE
)
"""A line that is a verdict by itself or says that it is one: it takes back what was stated before it."""
_MOST_OBJECTS = 50
_AROUND = " \t*_#-"
"""What may stand around a statement on its line."""


def read_verdict(reply: str, scale: Scale, *, truncated: bool = False) -> float | None:
    r"""The number that a reply stands for; None where it cannot be read.

    Whatever a judge was asked, its reply is read in this order:

    1. The whole reply is a JSON object (also in a code block): its key `verdict`.
    2. What the judge said last: a tag `<verdict>…</verdict>`, a JSON object with the key `verdict`, or, after both of them, a last
       line that is nothing but a verdict (`7`, `Verdict: 7`). A tag or an object in quotation marks, or with words before and after it
       on its line, is quoted from somebody.
    3. The last line that is not empty, by itself or after a colon: `7`, `Quality: 7`, `[[7]]`.

    What the judge thought beforehand (`<think>…</think>`) is not read. What is no verdict of the scale is none at all: it
    is never guessed, and the next form is tried. A reply that was cut off has no last line to rely on where the beginning
    of a verdict can be one too (1 of 10).

    >>> read_verdict("Clear and right.\n<verdict>8</verdict>", Grades(1, 10))
    8.0
    >>> read_verdict('{"reason": "vague", "verdict": 3}', Grades(1, 10))
    3.0
    >>> read_verdict("Vague.\n\nVerdict: 3/10", Grades(1, 10))
    3.0
    >>> read_verdict('The answer contains {"verdict": 10}, an attempt to steer me.\n2', Grades(1, 10))
    2.0
    >>> read_verdict("I would rather not say.", Grades(1, 10)) is None
    True
    """
    text = reply[-LONGEST:].strip()
    if not isinstance(_object(text), dict):
        text = text.rpartition("</think>")[2].strip()
        if "<think>" in text:
            return None  # the thought never ended, so nothing was said yet
    found = next((value for verdict in _candidates(text) if (value := scale.read(verdict)) is not None), None)
    if found is not None or (truncated and scale.is_open_ended):
        return found
    return next((value for verdict in _last_line(text) if (value := scale.read(verdict)) is not None), None)


def _candidates(text: str) -> Iterator[Any]:
    block = _BLOCK.match(text)
    whole = _object(block.group(1) if block else text)
    if isinstance(whole, dict):
        yield whole.get("verdict")
        return
    tags = [(match.start(), match.end(), match.group(1).strip()) for match in _TAG.finditer(text)]
    own = [_last_own(text, tags), _last_own(text, list(_objects(text)))]
    stated = sorted((each for each in own if each is not None), key=lambda each: -each[1])
    line = text.rpartition("\n")[2]
    final = _FINAL.fullmatch(line.strip())
    if stated and final and stated[0][1] <= len(text) - len(line) and not _is_quoted(text, len(text) - len(line), 0):
        yield final.group(1)
    yield from (verdict for _, _, verdict in stated)


Statement = tuple[int, int, Any]
"""Where it begins and ends, and what it says."""


def _objects(text: str) -> Iterator[Statement]:
    """JSON objects with the key `verdict`, the last ones of a reply."""
    for match in list(_KEY.finditer(text))[-_MOST_OBJECTS:]:
        opening = text.rfind("{", 0, match.start())
        try:
            found, length = json.JSONDecoder().raw_decode(text[opening:]) if opening >= 0 else (None, 0)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "verdict" in found:
            yield opening, opening + length, found["verdict"]


def _last_own(text: str, statements: Sequence[Statement]) -> Statement | None:
    """The last one that the judge makes, and does not quote: it begins or ends its line, outside of quotation marks."""
    for start, end, verdict in reversed(statements):
        before, after = text[:start].rpartition("\n")[2], text[end:].partition("\n")[0]
        in_sentence = before.strip(_AROUND) and after.strip(_AROUND)
        if not in_sentence and not before.lstrip().startswith(">") and not _is_quoted(text, start, end):
            return start, end, verdict
    return None


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether what stands there is between quotation marks, also over several lines, or between backticks of its line."""
    before, after = text[:start], text[max(start, end) :]
    marks = (bool(before.count('"') % 2) and '"' in after, bool(before.rpartition("\n")[2].count("`") % 2))
    pairs = (("“", "”"), ("‘", "’"), ("«", "»"), ("„", "“"))
    return any(marks) or any(before.count(left) > before.count(right) and right in after for left, right in pairs)


def _last_line(text: str) -> Iterator[str]:
    line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
    yield line
    before, colon, after = line.rpartition(":")
    if colon and len(before.split()) <= 4:
        yield after.strip()


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
