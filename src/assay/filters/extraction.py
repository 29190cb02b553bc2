"""Filters that find the answer inside a response by regular expressions."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import count, islice, product
from string import ascii_uppercase
from typing import Any

from assay.errors import DataError
from assay.filters.base import FILTERS, Filter
from assay.instance import Doc
from assay.timelimit import TimedPattern


class Extractor(Filter):
    """A filter that finds something in each response, or gives its `fallback` and raises the unparsed flag."""

    extracts = True
    fallback: Any

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        if not isinstance(filtered, list) or len(filtered) != len(unparsed):
            return unparsed
        return [was or found == self.fallback for was, found in zip(unparsed, filtered)]


@FILTERS.register("regex")
class RegexFilter(Extractor):
    """The `group_select`-th match of `regex_pattern` in each response, stripped.

    With several groups it is the first that is not empty. A `group_select` beyond the matches is unparsed, not an error.
    """

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
        found = pick(self.regex.findall(text if isinstance(text, str) else ""), self.group_select)
        return self.fallback if found is None else found


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
        found = pick(pattern.findall(text), self.group_select) or ""
        return names.get(found, found)

    def _plain(self, text: str) -> str:
        for pattern in self._ignored:
            text = pattern.sub("", text)
        if self.ignore_case:
            text = text.lower()
        return text.translate(punctuation_table()) if self.ignore_punctuation else text


@FILTERS.register("regex_pos")
class POSFilter(Extractor):
    """The tags of a printed list of pairs: `[('I', 'PRON'), …]` gives `['PRON', …]`."""

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
