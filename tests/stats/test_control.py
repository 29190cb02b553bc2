"""Intervals with an earlier run's help cover the truth and say what the help was worth."""

import math

import numpy as np
import pytest
from tests.stats.simulation import REPETITIONS, coverage

from assay.stats import control_estimate


def correlated(rng: np.random.Generator, rho: float, total: int) -> tuple[np.ndarray, np.ndarray]:
    f = rng.normal(size=total)
    return 0.4 + rho * f + math.sqrt(1 - rho**2) * rng.normal(size=total), f


@pytest.mark.parametrize(("n", "total", "rho"), [(30, 1000, 0.7), (200, 2000, 0.85), (200, 2000, 0.0), (150, 150, 0.9)])
def test_intervals_cover_and_effective_size_is_as_theory_has_it(n: int, total: int, rho: float) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(REPETITIONS):
        y, f = correlated(rng, rho, total)
        rows.append(control_estimate(y[:n], f[:n], f))
    assert 0.92 <= coverage(0.4, [row.estimate for row in rows]) <= 0.98
    spread = np.std([row.estimate.value for row in rows])
    assert np.mean([row.estimate.stderr for row in rows]) == pytest.approx(spread, rel=0.12)
    theory = 1 / ((1 - rho**2) / n + rho**2 / total)
    assert np.median([row.effective_n for row in rows]) == pytest.approx(theory, rel=0.12)


def test_accuracy_of_a_checkpoint_with_the_one_before_as_control() -> None:
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(REPETITIONS):
        hardness = rng.beta(0.3, 0.3, 1500)
        earlier = (rng.random(1500) < hardness).astype(float)
        later = (rng.random(1500) < np.clip(hardness + 0.05, 0, 1)).astype(float)
        rows.append(control_estimate(later[:250], earlier[:250], earlier))
    from scipy.stats import beta

    grid = beta.ppf((np.arange(20000) + 0.5) / 20000, 0.3, 0.3)
    assert 0.92 <= coverage(float(np.clip(grid + 0.05, 0, 1).mean()), [row.estimate for row in rows]) <= 0.98
    assert np.median([row.effective_n for row in rows]) > 1.3 * 250


def test_published_gains() -> None:
    rng = np.random.default_rng(2)
    for rho, gain in ((0.7, 2.0), (0.85, 3.6)):
        y, f = correlated(rng, rho, 400_000)
        found = control_estimate(y[:4000], f[:4000], f)
        assert found.effective_n / 4000 == pytest.approx(gain, rel=0.1)
        assert found.correlation == pytest.approx(rho, abs=0.03)


def test_control_without_spread_or_docs_helps_nothing_and_says_so() -> None:
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    flat = control_estimate(y, np.ones(5), np.ones(50))
    assert flat.estimate == flat.plain
    assert flat.effective_n == 5
    assert control_estimate(y[:2], y[:2], y).estimate.undefined == "fewer than 4 docs in common"
    assert control_estimate(y, y, y[:4]).estimate.undefined == "the earlier run has fewer docs"
    with pytest.raises(ValueError, match="do not form pairs"):
        control_estimate(y, y[:3], y)


def test_few_skewed_scores_take_no_control() -> None:
    rng = np.random.default_rng(0)
    scores, control = np.exp(rng.standard_normal((2, 200)))
    found = control_estimate(scores[:20], control[:20], control)
    assert found.estimate == found.plain
    assert control_estimate(scores[:60], control[:60], control).estimate != found.plain


@pytest.mark.parametrize("n", [200, 600])
def test_the_standard_error_of_clusters_is_the_spread_there_is(n: int) -> None:
    """Docs of one cluster are hard together, in the part and among all docs; a whole cluster is more than one residual."""
    rng = np.random.default_rng(2)
    index = np.repeat(np.arange(200), 10)
    rows = []
    for _ in range(REPETITIONS):
        hard = rng.beta(2.1, 0.9, 200)[index]
        y, other = ((rng.random(len(index)) < hard).astype(float) for _ in range(2))
        f = np.where(rng.random(len(index)) < 0.8, y, other)
        rows.append(control_estimate(y[:n], f[:n], f, index[:n]))
    assert coverage(0.7, [row.estimate for row in rows]) >= 0.92
    assert np.mean([row.estimate.stderr for row in rows]) < 1.5 * np.std([row.estimate.value for row in rows])
