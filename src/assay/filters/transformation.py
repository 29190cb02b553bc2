"""Filters that rewrite each response by itself."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from assay.errors import ConfigError
from assay.filters.base import FILTERS, Filter
from assay.instance import Doc

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Transformation(Filter):
    """A filter that is a function of one response."""

    per_doc = True

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
