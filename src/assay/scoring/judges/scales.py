"""What a verdict may be, and the number that it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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

    def schema(self) -> dict[str, Any]:
        """The allowed verdicts as a JSON Schema."""


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

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.values)}


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

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": self.low, "maximum": self.high}


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

    def schema(self) -> dict[str, Any]:
        count = len(self.most)
        return {"type": "array", "items": {"type": "number"}, "minItems": count, "maxItems": count}


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
