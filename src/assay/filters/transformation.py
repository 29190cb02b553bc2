"""Filters that rewrite each response by itself, choose among the repeats of one request, or say which docs count."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.filters.base import DROPPED, FILTERS, Filter
from assay.instance import Doc

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Transformation(Filter):
    """A filter that is a function of one response."""

    per_doc = True
    takes_lists = True

    def transform(self, response: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what it makes of a response")

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[list[Any]]:
        return [[self.transform(response) for response in entry] for entry in resps]


@FILTERS.register("noop")
class Noop(Filter):
    """Changes nothing: the metric gets every draw."""

    per_doc = True

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        return [*resps]


@FILTERS.register("remove_whitespace")
class RemoveWhitespace(Transformation):
    """Strip both ends."""

    def transform(self, response: Any) -> Any:
        return response.strip()


@FILTERS.register("lowercase")
class Lowercase(Transformation):
    """The response in lower case."""

    def transform(self, response: Any) -> Any:
        return response.lower()


@FILTERS.register("uppercase")
class Uppercase(Transformation):
    """The response in upper case."""

    def transform(self, response: Any) -> Any:
        return response.upper()


@FILTERS.register("strip_punctuation")
class StripPunctuation(Transformation):
    """`Hello, World!` gives `Hello World`: without ASCII punctuation."""

    def transform(self, response: Any) -> Any:
        return response.translate(_NO_PUNCTUATION)


LowercaseFilter, StripPunctuationFilter = Lowercase, StripPunctuation


@FILTERS.register("map")
class MapFilter(Transformation):
    """Looks up each response in `mapping_dict`; others become `default_value`."""

    extracts = True

    def __init__(self, mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None) -> None:
        if not isinstance(mapping_dict, Mapping | None):
            raise ConfigError(f"filter map: mapping_dict is {type(mapping_dict).__name__}, not a mapping")
        self.mapping = dict(mapping_dict or {})
        self.default_value = default_value

    def transform(self, response: Any) -> Any:
        return self.mapping.get(response, self.default_value)

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        if (
            not isinstance(filtered, list)
            or len(filtered) != len(unparsed)
            or self.default_value in self.mapping.values()
        ):
            return unparsed
        return [was or value == self.default_value for was, value in zip(unparsed, filtered)]


LABELS = {
    "person": "PER",
    "location": "LOC",
    "organization": "ORG",
    "counties": "LOC",
    "places": "LOC",
    "people": "PER",
    "persons": "PER",
    "company": "ORG",
    "country": "LOC",
    "continent": "LOC",
    "time": "DATE",
    "date": "DATE",
    "per": "PER",
    "loc": "LOC",
    "org": "ORG",
}
"""Words that models write for the four entity labels."""


@FILTERS.register("format_span")
class FormatSpan(Transformation):
    """Named entities in one form: `Person: Ann, Bo $$ location: none` gives `per: ann $ per: bo`."""

    _LABELS = tuple((re.compile(rf"\b{word}\s*:"), f"{label}:") for word, label in LABELS.items())
    _ENTITIES = re.compile(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)")

    def transform(self, response: Any) -> Any:
        text = response.lower()
        for pattern, label in self._LABELS:
            text = pattern.sub(label, text)
        text = text.replace("$$", "$").rstrip("$").replace("\n", "$").strip()
        return " $ ".join(
            f"{label.lower()}: {entity}"
            for label, entities in self._ENTITIES.findall(text)
            for entity in (part.strip() for part in entities.split(","))
            if entity.lower() != "none"
        )


@FILTERS.register("strip_thinking")
class StripThinking(Transformation):
    """What follows the last end tag; nothing if the reasoning was cut off.

    With `start` and `end` of the model's tags: `<think>so 4</think> 4` gives `4`. A response that opens a trace and
    never closes it has no answer yet: it becomes the empty text, and is unparsed.
    """

    extracts = True

    def __init__(self, start: str = "<think>", end: str = "</think>") -> None:
        self.start, self.end = start, end

    def transform(self, response: Any) -> Any:
        _, closed, answer = response.rpartition(self.end)
        if closed:
            return answer.lstrip()
        before, opened, _ = response.partition(self.start)
        return before.rstrip() if opened else response

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        if not isinstance(filtered, list) or len(filtered) != len(unparsed):
            return unparsed
        return [was or value == "" for was, value in zip(unparsed, filtered)]


@FILTERS.register("take_first")
class TakeFirst(Filter):
    """The first response, no longer in a list."""

    per_doc = True
    gives_value = True
    takes_lists = True

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        return [entry[0] for entry in resps]

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        return unparsed[:1]


@FILTERS.register("take_first_k")
class TakeFirstK(Filter):
    """The first `k` responses, as a list."""

    per_doc = True
    takes_lists = True

    def __init__(self, k: int) -> None:
        self.k = k

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        entries = list(resps)
        fewest = min((len(entry) for entry in entries), default=self.k)
        if fewest < self.k:
            raise ConfigError(
                f"filter take_first_k: k is {self.k}, but there are {fewest} responses per request",
                hint=f"Set repeats to at least {self.k}.",
            )
        return [entry[: self.k] for entry in entries]

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        return unparsed[: self.k]


@FILTERS.register("majority_vote")
class MajorityVote(Filter):
    """The most frequent response, in a list of one; the first one if several tie."""

    per_doc = True
    takes_lists = True

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        return [[Counter(entry).most_common(1)[0][0]] for entry in resps]

    def carry(self, unparsed: list[bool], given: Any, filtered: Any) -> list[bool]:
        return [unparsed[list(given).index(filtered[0])]]


@FILTERS.register("decontaminate")
class Decontaminate(Filter):
    """Drops docs that share an n-gram of `n` words with the file at `path` (one training text per line).

    The score under this filter is the score on clean docs; the dropped ones are counted in the task's health. Words are
    compared in lower case and without punctuation. `column` names the text to look at; by default it is all text of the
    doc. A doc with fewer than `n` words is contaminated only if a whole line equals it.
    """

    per_doc = True

    drops = True

    def __init__(self, path: str, n: int = 13, column: str | None = None) -> None:
        self.path, self.n, self.column = Path(path), n, column
        if not self.path.is_file():
            raise ConfigError(f"filter decontaminate: there is no file {path}")

    @cached_property
    def known(self) -> set[tuple[str, ...]]:
        with self.path.open(encoding="utf-8") as lines:
            return {gram for line in lines for gram in self._grams(line)}

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[Any]:
        return [DROPPED if self.is_contaminated(doc) else entry for entry, doc in zip(resps, docs)]

    def is_contaminated(self, doc: Doc) -> bool:
        values = doc.values() if self.column is None else [doc[self.column]]
        return any(gram in self.known for text in values if isinstance(text, str) for gram in self._grams(text))

    def _grams(self, text: str) -> Iterable[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        if len(words) < self.n:
            return [tuple(words)] if words else []
        return zip(*(words[i:] for i in range(self.n)))
