"""Formulas against their definitions, and at their edges."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.stats import mean, mean_estimate, mean_stderr, ratio_estimate, ratio_spread, wilson
from assay.stats.closed_form import _scaled_end


def lm_eval_stderr(xs: list[float]) -> float:
    """The published definition, written out: sample standard deviation over root n."""
    mu = sum(xs) / len(xs)
    return math.sqrt(sum([(x - mu) ** 2 for x in xs]) / (len(xs) - 1)) / math.sqrt(len(xs))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60))
def test_stderr_of_a_mean_is_the_definition_to_the_last_digit(xs: list[float]) -> None:
    assert mean_stderr(xs) == lm_eval_stderr(xs)
    assert mean_stderr(np.array(xs)) == lm_eval_stderr(xs)
    assert mean(np.array(xs)) == sum(xs) / len(xs)


def test_booleans_and_integers_are_scores_too() -> None:
    assert mean_stderr([True, False, True]) == mean_stderr([1.0, 0.0, 1.0])
    assert mean_estimate([1, 0, 1, 1]).value == 0.75


def test_no_doc_and_one_doc_have_no_error_bar() -> None:
    assert mean_estimate([]).undefined == "no docs"
    one = mean_estimate([0.4])
    assert (one.value, one.stderr, one.low, one.high) == (0.4, None, None, None)
    assert mean_stderr([0.4]) is None


def test_all_right_still_has_a_lower_bound() -> None:
    perfect = mean_estimate([1.0] * 20)
    assert perfect.stderr == 0.0
    assert perfect.high == 1.0
    assert perfect.low == pytest.approx(0.8389, abs=1e-4)


def test_nan_makes_the_mean_nan_and_not_a_number() -> None:
    assert math.isnan(mean_estimate([1.0, math.nan]).value)


def test_clustered_stderr_is_cr2_by_its_matrices() -> None:
    """Bell and McCaffrey's adjustment of a regression on a constant: residuals of a cluster times (I − H)^(−1/2)."""
    rng = np.random.default_rng(0)
    x, c = rng.random(30), rng.integers(0, 7, 30)
    total = 0.0
    for cluster in set(c.tolist()):
        inside = c == cluster
        n = int(inside.sum())
        values, vectors = np.linalg.eigh(np.eye(n) - np.full((n, n), 1 / 30))
        total += float((vectors @ np.diag(values**-0.5) @ vectors.T @ (x - x.mean())[inside]).sum()) ** 2
    shares = np.bincount(c) / 30
    assert mean_estimate(x, c).stderr == pytest.approx(math.sqrt(total) / 30)
    assert mean_estimate(x, c).df == pytest.approx(1 / (shares @ shares) - 1)


def test_clusters_of_one_are_no_clusters() -> None:
    x = np.random.default_rng(0).random(25)
    assert mean_estimate(x, np.arange(25)).stderr == pytest.approx(mean_stderr(x))


def test_one_cluster_has_no_error_bar() -> None:
    assert mean_estimate([0.1, 0.9], ["a", "a"]).method == "one cluster"


def test_clusters_without_spread_count_as_docs_once_each() -> None:
    perfect = mean_estimate([1.0] * 40, np.repeat(np.arange(10), 4))
    assert perfect.low < wilson(10, 10)[0] < wilson(40, 40)[0]


def test_ratio_with_equal_denominators_is_a_mean() -> None:
    a = np.random.default_rng(0).random(20)
    assert ratio_spread(a, np.full(20, 4.0)).stderr == pytest.approx(mean_stderr(a / 4))


def test_ratio_over_nothing_is_undefined_with_the_reason() -> None:
    assert ratio_estimate(np.array([1.0, 2.0]), np.zeros(2)).undefined == "the denominators add up to zero"
    assert ratio_estimate(np.array([]), np.array([])).undefined == "no docs"
    assert ratio_estimate(np.array([1.0]), np.array([2.0])).stderr is None


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_contains_the_proportion_and_stays_in_range(case: tuple[int, int]) -> None:
    k, n = case
    low, high = wilson(k, n)
    assert 0 <= low <= k / n <= high <= 1
    mirrored = wilson(n - k, n)
    assert mirrored == pytest.approx((1 - high, 1 - low))


def test_wilson_of_nothing_is_everything() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_an_end_that_is_worth_no_doc_stays_as_far_as_can_be() -> None:
    assert [_scaled_end(0.9, 0.0, 1.6, side) for side in (0, 1)] == [0.0, 1.0]
    assert _scaled_end(0.9, math.inf, 1.6, 0) == 0.9
