"""Variance shares of a crossed design are found where they were put."""

import numpy as np
import pytest
from tests.stats.simulation import REPETITIONS

from assay.stats import variance_components

NAMES = ("doc", "wording", "shots")
TRUE = {
    ("doc",): 0.09,
    ("wording",): 0.02,
    ("shots",): 0.01,
    ("doc", "wording"): 0.04,
    ("doc", "shots"): 0.02,
    ("wording", "shots"): 0.005,
    NAMES: 0.03,
}


def crossed(rng: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    table = np.full(shape, 0.6)
    for effect, variance in TRUE.items():
        own = [size if name in effect else 1 for name, size in zip(NAMES, shape, strict=True)]
        table = table + rng.normal(0, np.sqrt(variance), own)
    return table


def test_components_are_unbiased_over_repetitions() -> None:
    rng = np.random.default_rng(0)
    found = [variance_components(crossed(rng, (60, 12, 10)), NAMES) for _ in range(REPETITIONS)]
    for effect, variance in TRUE.items():
        values = [f.variances[effect] for f in found]
        error = np.std(values) / np.sqrt(REPETITIONS)
        assert np.mean(values) == pytest.approx(variance, abs=4 * error + 1e-4)


def test_stderr_of_the_grand_mean_counts_wordings_as_draws() -> None:
    rng = np.random.default_rng(1)
    found = [variance_components(crossed(rng, (60, 12, 10)), NAMES) for _ in range(REPETITIONS)]
    spread = np.std([f.mean for f in found])
    assert np.sqrt(np.mean([f.stderr**2 for f in found])) == pytest.approx(spread, rel=0.1)


def test_shares_sum_to_one_and_name_the_culprit() -> None:
    wording = np.array([0.2, 0.8])
    table = np.broadcast_to(wording[None, :, None], (10, 2, 3))
    found = variance_components(table, NAMES)
    assert found.shares[("wording",)] == pytest.approx(1.0)
    assert (found.low, found.high) == (pytest.approx(0.2), pytest.approx(0.8))


def test_factors_with_one_level_are_left_out() -> None:
    found = variance_components(np.random.default_rng(0).random((20, 1, 4)), NAMES)
    assert set(found.variances) == {("doc",), ("shots",), ("doc", "shots")}


def test_equal_scores_have_no_shares() -> None:
    found = variance_components(np.ones((5, 2, 2)), NAMES)
    assert sum(found.shares.values()) == 0.0
    assert found.stderr == 0.0


def test_axes_need_names() -> None:
    with pytest.raises(ValueError, match="2 axes for 3 names"):
        variance_components(np.ones((2, 2)), NAMES)
