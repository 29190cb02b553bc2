"""Krippendorff's α, against worked numbers and against chance."""

from __future__ import annotations

import numpy as np
import pytest

from assay.stats import krippendorff


def test_the_worked_example_of_two_observers() -> None:
    """Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section A: two observers, ten units, binary."""
    meg, owen = [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert krippendorff(list(zip(meg, owen))).value == pytest.approx(0.095, abs=0.001)


def test_docs_may_have_different_numbers_of_verdicts() -> None:
    found = krippendorff([[1, 1, 1], [3, 3], [2], [5, 5, 5, 5]])
    assert (found.value, found.n) == (1.0, 3)


def test_full_agreement_on_some_docs_does_not_claim_that_none_could_differ() -> None:
    found = krippendorff([[1, 1], [0, 0]] * 20)
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.75 < found.low < 0.9


def test_chance_gives_about_nothing_and_the_interval_says_so() -> None:
    rng = np.random.default_rng(0)
    found = krippendorff(rng.integers(0, 2, (200, 2)).tolist())
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high


def test_verdicts_that_are_all_the_same_say_nothing() -> None:
    assert krippendorff([[1, 1], [1, 1]]).undefined == "all verdicts are the same"
    assert krippendorff([[1], [0, 1]]).undefined is not None
