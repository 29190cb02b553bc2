"""Filters that find the answer inside a response: by a regular expression, or its shape (`\\boxed{}`, a number, JSON, calls)."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count, islice, product
from string import ascii_uppercase
from typing import Any

from assay.errors import ConfigError, DataError
from assay.filters.base import FILTERS, Filter
from assay.instance import Doc, Response
from assay.timelimit import TimedPattern
from assay.tool_calls import calls_in_text, plain_call


class Extractor(Filter):
    """A filter that finds something in each response, or returns its `fallback` and sets the unparsed flag."""

    extracts = True
    fallback: Any

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        if not isinstance(filtered, list) or len(filtered) != len(unparsed):
            return unparsed
        return [was or response == self.fallback for was, response in zip(unparsed, filtered)]


@FILTERS.register("regex")
class RegexFilter(Extractor):
    """The `group_select`-th match of `regex_pattern` in each response, stripped.

    With several groups it is the first that is not empty. A `group_select` beyond the matches is unparsed, no error.
    """

    per_doc = True
    takes_lists = True

    def __init__(
        self, regex_pattern: str = r"#### (\-?[0-9\.\,]+)", group_select: int = 0, fallback: str = "[invalid]"
    ) -> None:
        self.regex_pattern = regex_pattern
        self.regex = TimedPattern(regex_pattern)
        self.group_select = group_select
        self.fallback = fallback

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[list[Any]]:
        return [[self._extract(text) for text in entry] for entry in resps]

    def _extract(self, text: Any) -> str:
        match = pick(self.regex.findall(text if isinstance(text, str) else ""), self.group_select)
        return self.fallback if match is None else match


def pick(matches: list[Any], which: int) -> str | None:
    """One match of `findall`, stripped; None if there is none, or if all its groups are empty."""
    if not -len(matches) <= which < len(matches):
        return None
    match = matches[which]
    if isinstance(match, tuple):
        match = next((group for group in match if group), None)
    return None if match is None else match.strip()


@cache
def punctuation_table() -> dict[int, None]:
    """All Unicode punctuation, for `str.translate`."""
    return dict.fromkeys(i for i in range(sys.maxunicode) if unicodedata.category(chr(i)).startswith("P"))


def labels() -> Iterator[str]:
    """A to Z, then AA, AB, …: the labels of choices, however many there are."""
    return ("".join(letters) for length in count(1) for letters in product(ascii_uppercase, repeat=length))


@FILTERS.register("multi_choice_regex")
class MultiChoiceRegexFilter(RegexFilter):
    """The chosen letter, as `(A)`: by the pattern, else by a choice's text, else by `: A`.

    Choices are the doc's column `choices`. Longer ones are tried first, so that "Guilty" does not win inside "Guilty of
    Romance". The three `ignore` options hold for the comparison with the choices' texts only.
    """

    per_doc = True
    takes_lists = True

    def __init__(
        self,
        regex_pattern: str = r"#### (\-?[0-9\.\,]+)",
        group_select: int = 0,
        fallback: str = "[invalid]",
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        regexes_to_ignore: Sequence[str] | None = None,
    ) -> None:
        super().__init__(regex_pattern, group_select, fallback)
        self.ignore_case = ignore_case
        self.ignore_punctuation = ignore_punctuation
        self.regexes_to_ignore = regexes_to_ignore
        self._ignored = [TimedPattern(pattern) for pattern in regexes_to_ignore or ()]

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[list[Any]]:
        return [self._letters(entry, doc) for entry, doc in zip(resps, docs, strict=True)]

    def _letters(self, entry: Sequence[Any], doc: Doc) -> list[str]:
        if "choices" not in doc:
            raise DataError("filter multi_choice_regex: the doc has no column `choices`", hint=f"It has {sorted(doc)}.")
        texts = [self._plain(choice.strip()) for choice in doc["choices"]]
        letters = list(islice(labels(), len(texts)))
        by_text = {text: f"({letter})" for text, letter in zip(texts, letters)}
        by_letter = {letter: f"({letter})" for letter in letters}
        text_pattern = TimedPattern("|".join(sorted(map(re.escape, texts), key=len, reverse=True)))
        letter_pattern = TimedPattern(rf":[\s]*({'|'.join(reversed(letters))})")  # AA before A

        def answer(response: Any) -> str:
            raw = response if isinstance(response, str) else ""
            return (
                (self._find(self.regex, raw, {}))
                or self._find(text_pattern, self._plain(raw), by_text)
                or self._find(letter_pattern, raw, by_letter)
                or self.fallback
            )

        return [answer(response) for response in entry]

    def _find(self, pattern: TimedPattern, text: str, names: dict[str, str]) -> str:
        match = pick(pattern.findall(text), self.group_select) or ""
        return names.get(match, match)

    def _plain(self, text: str) -> str:
        for pattern in self._ignored:
            text = pattern.sub("", text)
        if self.ignore_case:
            text = text.lower()
        return text.translate(punctuation_table()) if self.ignore_punctuation else text


@FILTERS.register("regex_pos")
class POSFilter(Extractor):
    """The tags of a printed list of pairs: `[('I', 'PRON'), …]` gives `['PRON', …]`."""

    per_doc = True
    takes_lists = True

    _PAIR = re.compile(r"\('([^']*)', '([^']*)'\)")

    def __init__(
        self, regex_pattern: str = r"\['(.*?)'\]", group_select: int = 0, fallback: list[str] | None = None
    ) -> None:
        self.regex_pattern = regex_pattern
        self.group_select = group_select
        self.fallback = ["invalid"] if fallback is None else fallback

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[list[Any]]:
        return [[self._tags(response) for response in entry] for entry in resps]

    def _tags(self, response: Any) -> Any:
        pairs = self._PAIR.findall(response) if isinstance(response, str) else response
        return [tag for _, tag in pairs] or self.fallback


class AnswerFilter(Extractor):
    """An extractor that is a function of one response; None means that nothing was found."""

    per_doc = True
    takes_lists = True

    def __init__(self, fallback: str = "[invalid]") -> None:
        self.fallback = fallback

    def extract(self, text: str) -> str | None:
        raise NotImplementedError(f"{type(self).__name__} does not say what it extracts")

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[list[Any]]:
        def one(response: Any) -> str:
            answer = self.extract(response) if isinstance(response, str) else None
            return self.fallback if answer is None else answer

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
    """The last number (or the first, by `which`), in plain notation.

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
        numbers = self.pattern.findall(text)
        if not -len(numbers) <= self.which < len(numbers):
            return None
        plain = numbers[self.which].replace(self.grouping, "") if self.grouping else numbers[self.which]
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
            if (answer := self._walk(value)) is not None:
                return answer
        return None

    def _walk(self, value: Any) -> str | None:
        for step in self.steps:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@FILTERS.register("tool_calls")
class ToolCalls(Filter):
    """Each response's calls as JSON, `[{"name": …, "arguments": {…}}, …]`; `[]` if there are none.

    With `tools`, calls of these that the model wrote into its text count where it made no others.
    """

    per_doc = True

    takes_responses = True

    def __init__(self, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        self.tools = tools

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[list[str]]:
        return [[self._calls(each) for each in entry] for entry in resps]

    def _calls(self, response: Any) -> str:
        calls = [plain_call(call) for call in response.tool_calls] if isinstance(response, Response) else []
        if not calls and self.tools:
            said = response.answer if isinstance(response, Response) else response
            calls = calls_in_text(said, self.tools) if isinstance(said, str) else []
        return json.dumps(calls, ensure_ascii=False)
