"""Responses to filtered responses: filters, and named chains of them."""

from assay.filters.base import DROPPED, FILTERS, Custom, Filter, register_filter, works_per_doc
from assay.filters.choice import Choice, Reading, ReadLabel, read_choice
from assay.filters.ensemble import DEFAULT_FILTER, TOOL_FILTER, FilterEnsemble, build_filter
from assay.filters.extraction import (
    Boxed,
    Extractor,
    JsonPath,
    MultiChoiceRegexFilter,
    Number,
    POSFilter,
    RegexFilter,
    ToolCalls,
)
from assay.filters.selection import Decontaminate, MajorityVote, TakeFirst, TakeFirstK
from assay.filters.transformation import (
    FormatSpan,
    Lowercase,
    LowercaseFilter,
    MapFilter,
    RemoveWhitespace,
    StripPunctuation,
    StripPunctuationFilter,
    StripThinking,
    Transformation,
    Uppercase,
)
from assay.timelimit import MatchTimeout, TimedPattern

__all__ = [
    "DEFAULT_FILTER",
    "DROPPED",
    "FILTERS",
    "TOOL_FILTER",
    "Boxed",
    "Choice",
    "Custom",
    "Decontaminate",
    "Extractor",
    "Filter",
    "FilterEnsemble",
    "FormatSpan",
    "JsonPath",
    "Lowercase",
    "LowercaseFilter",
    "MajorityVote",
    "MapFilter",
    "MatchTimeout",
    "MultiChoiceRegexFilter",
    "Number",
    "POSFilter",
    "ReadLabel",
    "Reading",
    "RegexFilter",
    "RemoveWhitespace",
    "StripPunctuation",
    "StripPunctuationFilter",
    "StripThinking",
    "TakeFirst",
    "TakeFirstK",
    "TimedPattern",
    "ToolCalls",
    "Transformation",
    "Uppercase",
    "build_filter",
    "read_choice",
    "register_filter",
    "works_per_doc",
]
