"""Reducers over repeated draws, and maj@k."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError
from assay.metrics import METRICS, get_reducer
from assay.metrics.reducers import majority_probability

draws = st.lists(st.integers(0, 1), min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("first", [0.2, 0.9], 0.2),
        ("mean", [0, 1, 1, 0], 0.5),
        ("median", [3.0, 1.0, 2.0, 10.0], 2.5),
        ("min", [0.3, 0.1], 0.1),
        ("max", [0.3, 0.1], 0.3),
        ("mode", [1, 0, 0, 1], 1),
        ("at_least_2", [1, 0, 1], 1.0),
        ("at_least_3", [1, 0, 1], 0.0),
        ("avg@2", [1, 0, 1], 0.5),
    ],
)
def test_reducers_by_name(name, values, expected):
    assert get_reducer(name)(values) == expected


@given(draws, st.integers(1, 7))
def test_pass_at_k_is_the_share_of_subsets_with_a_right_draw(values, k):
    subsets = list(combinations(values, k))
    for name, event in (("pass@", any), ("pass^", all), ("G-Pass@", lambda s: sum(s) >= k / 2)):
        reducer = get_reducer(f"{name}{k}" + ("_0.5" if name == "G-Pass@" else ""))
        expected = sum(map(event, subsets)) / len(subsets) if subsets else None
        assert reducer(values) == (None if expected is None else pytest.approx(expected))


def test_more_draws_than_there_are_is_undefined_not_one():
    for name in ("pass@3", "pass^3", "avg@3", "at_least_3", "G-Pass@3_0.5"):
        assert get_reducer(name)([1, 1]) is None


def test_a_function_is_a_reducer():
    assert get_reducer(sum)([1, 2]) == 3


@pytest.mark.parametrize("name", ["meen", "pass@", "pass@0", "top"])
def test_unknown_reducers_say_what_there_is(name):
    with pytest.raises(ConfigError):
        get_reducer(name)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), st.integers(1, 5))
def test_majority_probability_is_the_mean_over_all_ordered_draws(answers, k):
    votes = Counter(answers)
    right = votes.pop("a", 0)
    found = majority_probability(right, list(votes.values()), k)
    if k > len(answers):
        assert found is None
        return
    # Counter.most_common breaks ties by first occurrence, so over all orders ties are split evenly.
    orders = list(permutations(answers, k))
    wins = sum(Counter(order).most_common(1)[0][0] == "a" for order in orders)
    assert found == pytest.approx(wins / len(orders))


def test_maj_at_k_takes_the_options_of_exact_match():
    fn = METRICS["maj@k"].fn
    assert fn(references=["Yes"], predictions=[["yes", "YES", "no"]], k=3, ignore_case=True) == {"maj@3": 1.0}
    assert fn(references=["Yes"], predictions=[["yes", "no"]], k=5) == {"maj@5": None}
    with pytest.raises(ConfigError, match="needs k"):
        fn(references=["Yes"], predictions=[["yes"]])
