"""Filters that rewrite or choose."""

from __future__ import annotations

import pytest

from assay.errors import ConfigError
from assay.filters import (
    FILTERS,
    FormatSpan,
    Lowercase,
    MajorityVote,
    MapFilter,
    RemoveWhitespace,
    StripThinking,
    TakeFirst,
    TakeFirstK,
    Uppercase,
)


def test_all_filters_of_lm_eval_have_their_names():
    twelve = "regex multi_choice_regex regex_pos remove_whitespace take_first take_first_k majority_vote lowercase uppercase map format_span custom"
    assert set(twelve.split()) <= set(FILTERS)


@pytest.mark.parametrize(
    ("filter_", "before", "after"),
    [
        (RemoveWhitespace(), " a\n", "a"),
        (Lowercase(), "ÄB", "äb"),
        (Uppercase(), "straße", "STRASSE"),
        (MapFilter({"A": 1}, 0), "A", 1),
        (MapFilter({"A": 1}, 0), "B", 0),
        (MapFilter(), "B", None),
        (StripThinking(), "<think>so 4</think> 4", "4"),
        (StripThinking(), "plain", "plain"),
        (StripThinking(), "<think>never ends", ""),
        (StripThinking("[T]", "[/T]"), "[T]x[/T]a[T]y[/T] b", "b"),
        (FormatSpan(), "Person: Ann, Bo $$ Location: none", "per: ann $ per: bo"),
        (FormatSpan(), "ORG: timeline inc\nDATE: May", "org: timeline inc $ date: may"),
        (FormatSpan(), "", ""),
    ],
)
def test_each_response_is_rewritten(filter_, before, after):
    assert filter_.apply([[before], [before, before]], [{}, {}]) == [[after], [after, after]]


def test_selection_of_repeats():
    resps = [["a", "b", "b"], ["c", "d", "e"]]
    assert TakeFirst().apply(resps, [{}, {}]) == ["a", "c"]
    assert TakeFirstK(2).apply(resps, [{}, {}]) == [["a", "b"], ["c", "d"]]
    assert MajorityVote().apply(resps, [{}, {}]) == [["b"], ["c"]]


def test_take_first_k_says_how_many_repeats_it_needs():
    with pytest.raises(ConfigError, match=r"(?s)2 responses.*repeats to at least 3"):
        TakeFirstK(3).apply([["a", "b"]], [{}])


def test_map_wants_a_mapping():
    with pytest.raises(ConfigError, match="not a mapping"):
        MapFilter(["a"])
