"""Keys are values; their text exists in files alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError
from assay.results import MetricKey, matching, read_key, read_numbers, the_one, write_key

FIRST = MetricKey("exact_match", "strip, then first")
NUMBERS = MetricKey("exact_match", "numbers")


@given(st.text(min_size=1).filter(lambda name: "," not in name), st.text())
def test_any_filter_name_survives_writing_and_reading(metric: str, filter_name: str) -> None:
    key = MetricKey(metric, filter_name)
    assert read_key(write_key(key)) == key
    assert list(read_numbers({write_key(key): 0.5, write_key(key, stderr=True): 0.1})) == [key]


def test_a_metric_may_be_called_stderr() -> None:
    entry = {"my_stderr,none": 1.0, "acc,none": 0.5, "acc_stderr,none": 0.1}
    assert read_numbers(entry) == {MetricKey("my_stderr"): (1.0, None), MetricKey("acc"): (0.5, 0.1)}


@pytest.mark.parametrize("text", ["alias", "sample_len", "", ",none"])
def test_other_entries_are_no_numbers(text: str) -> None:
    assert read_numbers({text: 1}) == {}
    with pytest.raises(ConfigError, match="does not name a metric"):
        read_key(text)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("exact_match", [FIRST, NUMBERS]), ("exact_match,numbers", [NUMBERS]), (str(FIRST), [FIRST]), ("strip", [])],
)
def test_what_people_type_is_looked_up_among_what_there_is(asked: str, expected: list[MetricKey]) -> None:
    assert matching(asked, [FIRST, NUMBERS]) == expected


def test_a_metric_under_several_filters_must_be_named_with_its_filter() -> None:
    assert the_one("exact_match,numbers", [FIRST, NUMBERS], "sums") == NUMBERS
    assert the_one(("exact_match", "strip, then first"), [FIRST, NUMBERS], "sums") == FIRST
    with pytest.raises(ConfigError, match=r"(?s)sums has 'exact_match' under several filters.*strip, then first"):
        the_one("exact_match", [FIRST, NUMBERS], "sums")
    with pytest.raises(ConfigError, match=r"(?s)sums has no metric 'exact_match,number'.*Did you mean"):
        the_one("exact_match,number", [FIRST, NUMBERS], "sums")
