"""Means under the right gold answers: they cover what they are about, and are the plain mean where everything is known."""

from __future__ import annotations

import numpy as np
import pytest

from assay.stats import GoldChecked, gold_difference, gold_mean, gold_replicates

TRAP = 0.4


def runs(
    rng: np.random.Generator, n: int, right: tuple[float, ...], wrong: float, labels: int, ambiguous: float = 0.0
) -> list[GoldChecked]:
    """Runs on docs a share of whose gold answers is wrong, hard ones more often; errors there often are the published answer."""
    hard = rng.random(n)
    is_wrong, is_ambiguous = rng.random(n) < wrong * (0.5 + hard), rng.random(n) < ambiguous
    weights = np.zeros(n)
    weights[rng.permutation(n)[:labels]] = n / labels
    made = []
    for p in right:
        knows = np.where(rng.random(n) < 0.5, hard < p, rng.random(n) < p)
        published = np.where(is_wrong, ~knows & (rng.random(n) < TRAP), knows)
        published = np.where(is_ambiguous, rng.random(n) < 0.3, published).astype(float)
        checked = np.where((weights > 0) & ~is_ambiguous, knows.astype(float), np.nan)
        made.append(GoldChecked(published, checked, weights))
    return made


@pytest.mark.parametrize(("wrong", "labels", "ambiguous"), [(0.05, 100, 0.0), (0.2, 50, 0.0), (0.1, 200, 0.05)])
def test_means_and_differences_cover_the_truth(wrong: float, labels: int, ambiguous: float) -> None:
    rng = np.random.default_rng(4)
    hits, times = np.zeros(3), 250
    for _ in range(times):
        a, b = runs(rng, 800, (0.6, 0.7), wrong, labels, ambiguous)
        mean, difference = gold_mean(a).estimate, gold_difference(a, b)
        assert mean.low is not None
        assert mean.high is not None
        assert difference.low is not None
        assert difference.high is not None
        plain = float(a.values.mean())
        naive = 1.96 * float(a.values.std()) / np.sqrt(len(a.values))
        hits += mean.low <= 0.6 <= mean.high, difference.low <= 0.1 <= difference.high, abs(plain - 0.6) <= naive
    rates = hits / times
    assert 0.91 < rates[0] <= 0.995
    assert 0.91 < rates[1] <= 0.995
    assert rates[2] < 0.9, "the published score does not"


def test_where_all_docs_are_checked_it_is_their_mean() -> None:
    (docs,) = runs(np.random.default_rng(0), 300, (0.6,), 0.1, 300, 0.1)
    assert gold_mean(docs).estimate.value == pytest.approx(np.nanmean(docs.checked))


def test_unequal_weights_count_as_they_stand_for() -> None:
    """Twice the docs that published answers call wrong are checked, and each stands for half as many."""
    rng, values = np.random.default_rng(1), []
    for _ in range(300):
        (docs,) = runs(rng, 500, (0.6,), 0.2, 500)
        weights = np.where(docs.values == 0, 1.0, 2.0) * (rng.random(500) < np.where(docs.values == 0, 0.4, 0.2))
        values.append(
            gold_mean(GoldChecked(docs.values, np.where(weights > 0, docs.checked, np.nan), weights)).estimate.value
        )
    assert np.mean(values) == pytest.approx(0.6, abs=0.01)


def test_labels_that_are_worth_little_give_no_interval() -> None:
    (docs,) = runs(np.random.default_rng(2), 300, (0.6,), 0.1, 60)
    few = GoldChecked(docs.values, docs.checked, np.where(np.arange(300) < 5, 100.0, 1.0) * (docs.weights > 0))
    assert "unequal" in str(gold_mean(few).estimate.undefined)
    (less,) = runs(np.random.default_rng(2), 300, (0.6,), 0.1, 19)
    assert "fewer than 20" in str(gold_mean(less).estimate.undefined)
    assert "fewer than 20" in str(gold_difference(less, less).undefined)


def test_tasks_side_by_side_have_the_groups_mean() -> None:
    rng = np.random.default_rng(3)
    parts = [runs(rng, n, (p,), 0.1, n)[0] for n, p in ((100, 0.4), (300, 0.8))]
    whole = GoldChecked.side_by_side(parts, [0.5, 0.5])
    expected = np.mean([np.mean(part.checked) for part in parts])
    # Every doc is checked, and counts by its task's share.
    assert gold_mean(whole).estimate.value == pytest.approx(expected, abs=1e-9)


def test_replicates_spread_as_the_error_says() -> None:
    (docs,) = runs(np.random.default_rng(5), 1000, (0.6,), 0.1, 200, 0.05)
    keys = np.arange(1000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    draws = gold_replicates(docs, keys, None, 500)()
    estimate = gold_mean(docs).estimate
    assert draws.mean() == pytest.approx(estimate.value, abs=0.01)
    assert draws.std() == pytest.approx(estimate.stderr, rel=0.2)


def test_numbers_that_are_not_right_or_wrong_are_corrected_too() -> None:
    rng = np.random.default_rng(6)
    true = rng.beta(2, 2, 600)
    published = np.where(rng.random(600) < 0.1, 0.0, true)
    weights = (rng.permutation(600) < 150).astype(float)
    found = gold_mean(GoldChecked(published, np.where(weights > 0, true, np.nan), weights)).estimate
    assert found.low is not None
    assert found.high is not None
    assert float(published.mean()) < found.low < 0.5 < found.high
