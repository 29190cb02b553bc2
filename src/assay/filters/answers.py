"""Filters for the usual shapes of a final answer: `\\boxed{}`, a number, a value in a JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from assay.errors import ConfigError
from assay.filters.base import FILTERS
from assay.filters.extraction import Extractor
from assay.instance import Doc
from assay.timelimit import TimedPattern


class AnswerFilter(Extractor):
    """An extractor that is a function of one response; None means that nothing was found."""

    def __init__(self, fallback: str = "[invalid]") -> None:
        self.fallback = fallback

    def extract(self, text: str) -> str | None:
        raise NotImplementedError

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[list[Any]]:
        def one(response: Any) -> str:
            found = self.extract(response) if isinstance(response, str) else None
            return self.fallback if found is None else found

        return [[one(response) for response in entry] for entry in resps]


@FILTERS.register("boxed")
class Boxed(AnswerFilter):
    r"""The content of the last `\boxed{…}` (or `\fbox{…}`), braces balanced.

    >>> Boxed().extract(r"so \boxed{1} or rather \boxed{\frac{1}{2}}.")
    '\\frac{1}{2}'
    """

    _MARK = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)

    def extract(self, text: str) -> str | None:
        """One pass over the braces, however many are never closed; an escaped brace is no brace."""
        open_braces: list[int | None] = []  # where a box's content starts, or None for any other brace
        last: tuple[int, int] | None = None
        for mark in self._MARK.finditer(text):
            if mark[0] == "}":
                start = open_braces.pop() if open_braces else None
                if start is not None and (last is None or start > last[0]):
                    last = (start, mark.start())
            elif mark[0] == "{":
                open_braces.append(None)
            elif mark[0].endswith("{") and len(mark[0]) > 2:
                open_braces.append(mark.end())
        return None if last is None else text[last[0] : last[1]].strip()


@FILTERS.register("number")
class Number(AnswerFilter):
    """The last number (or the first, by `which`), written the plain way.

    `decimal` and `grouping` name the locale's marks: `1.234,5` with `decimal: ","`, `grouping: "."` gives `1234.5`.

    >>> Number().extract("It costs $1,234.50.")
    '1234.50'
    >>> Number(decimal=",", grouping=".").extract("Das sind 1.234,50 Euro.")
    '1234.50'
    """

    def __init__(self, decimal: str = ".", grouping: str = ",", which: int = -1, fallback: str = "[invalid]") -> None:
        super().__init__(fallback)
        if decimal == grouping or len(decimal) != 1:
            raise ConfigError(
                f"filter number: decimal {decimal!r} and grouping {grouping!r} must be two different marks"
            )
        self.decimal, self.grouping, self.which = decimal, grouping, which
        group, point = re.escape(grouping), re.escape(decimal)
        grouped = rf"\d{{1,3}}(?:{group}\d{{3}})+(?!\d)|" if grouping else ""
        self.pattern = TimedPattern(
            rf"(?<![\w{point}])[-−+]?(?:{grouped}\d+)?(?:(?<=\d){point}\d+|(?<=\d)|{point}\d+)(?:[eE][-+]?\d+)?"
        )

    def extract(self, text: str) -> str | None:
        found = self.pattern.findall(text)
        if not -len(found) <= self.which < len(found):
            return None
        plain = found[self.which].replace(self.grouping, "") if self.grouping else found[self.which]
        return str(plain.replace(self.decimal, ".").replace("−", "-").removeprefix("+"))


@FILTERS.register("json_path")
class JsonPath(AnswerFilter):
    """A value in the first JSON object or array of the response that has it, by a path such as `answer.items[0].name`.

    Text around the JSON (a code fence, a remark, a footnote mark) is passed over. Strings come back as they are, other
    values as JSON.

    >>> JsonPath("answer.letters[1]").extract('As in [1]: {"answer": {"letters": ["A", "B"]}}')
    'B'
    """

    _STEP = re.compile(r"\.?([^.\[\]]+)|\[(-?\d+)\]")

    def __init__(self, path: str, fallback: str = "[invalid]") -> None:
        super().__init__(fallback)
        text = path.removeprefix("$").removeprefix(".")
        steps = list(self._STEP.finditer(text))
        if "".join(step.group() for step in steps) != text:
            raise ConfigError(
                f"filter json_path: cannot read the path {path!r}", hint="Write it like answer.items[0].name."
            )
        self.steps: list[str | int] = [int(s[2]) if s[2] is not None else s[1] for s in steps]

    def extract(self, text: str) -> str | None:
        decoder, end = json.JSONDecoder(), 0
        for start in (i for i, mark in enumerate(text) if mark in "{["):
            if start < end:  # inside a value that does not have the path; its parts are not the answer
                continue
            try:
                value, end = decoder.raw_decode(text, start)
            except ValueError:
                continue
            except RecursionError:  # brackets without end: nothing inside them will decode either
                return None
            if (found := self._walk(value)) is not None:
                return found
        return None

    def _walk(self, value: Any) -> str | None:
        for step in self.steps:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
