"""Nominal 95 % intervals cover the truth 92 to 98 times in a hundred, over 400 simulated data sets each."""

import math
from math import comb

import numpy as np
import pytest
from tests.stats.simulation import coverage, fresh_keys, simulate

from assay.stats import (
    Estimate,
    bootstrap_estimate,
    bootstrap_replicates,
    bootstrap_values,
    mean_estimate,
    ratio_estimate,
    wilson,
)

CELLS = np.array([0.25, 0.10, 0.10, 0.55])  # true positive, false positive, false negative, true negative
RARE = np.array([0.06, 0.04, 0.03, 0.87])


def f1(sums: np.ndarray) -> np.ndarray:
    tp, fp, fn, _ = np.moveaxis(sums, -1, 0)
    return 2 * tp / (2 * tp + fp + fn)


def mcc(sums: np.ndarray) -> np.ndarray:
    tp, fp, fn, tn = np.moveaxis(sums, -1, 0)
    return (tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))


def weighted_median(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """sorted(resample)[len(resample) // 2] for every row of weights."""
    order = np.argsort(values)
    reached = np.cumsum(weights[:, order], axis=1, dtype=np.int64)
    return values[order][np.argmax(reached > reached[:, -1:] // 2, axis=1)]


@pytest.mark.parametrize("n", [30, 100, 1000])
@pytest.mark.parametrize("p", [0.5, 0.9])
def test_accuracy(p: float, n: int) -> None:
    estimates = simulate(lambda rng: mean_estimate((rng.random(n) < p).astype(float)), seed=2)
    assert 0.92 <= coverage(p, estimates) <= 0.98


@pytest.mark.parametrize(("n", "p", "expected"), [(30, 0.9, 0.97), (30, 0.97, 0.94), (100, 0.95, 0.97)])
def test_exact_coverage_of_wilson_is_as_published(n: int, p: float, expected: float) -> None:
    chance = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    covered = sum(c for k, c in enumerate(chance) if wilson(k, n)[0] <= p <= wilson(k, n)[1])
    assert covered == pytest.approx(expected, abs=0.006)


@pytest.mark.parametrize("finish", [f1, mcc])
@pytest.mark.parametrize(("cells", "n"), [(CELLS, 60), (CELLS, 300), (RARE, 300)])
def test_f1_and_mcc(finish, cells: np.ndarray, n: int) -> None:
    def one(rng: np.random.Generator) -> Estimate:
        statistics = np.eye(4)[rng.choice(4, size=n, p=cells)]
        draws = bootstrap_replicates(statistics, finish, fresh_keys(rng, n), B=500)
        return bootstrap_estimate(float(finish(statistics.sum(axis=0))), draws, n)

    assert 0.92 <= coverage(float(finish(cells)), simulate(one)) <= 0.98


@pytest.mark.parametrize("n", [40, 201])
def test_median(n: int) -> None:
    def one(rng: np.random.Generator) -> Estimate:
        values = rng.lognormal(size=n)
        draws = bootstrap_values(values, weighted_median, fresh_keys(rng, n))
        return bootstrap_estimate(float(np.sort(values)[n // 2]), draws, n)

    assert 0.92 <= coverage(1.0, simulate(one, seed=1)) <= 0.98


def test_bits_per_byte() -> None:
    def one(rng: np.random.Generator) -> Estimate:
        size = rng.lognormal(5, 0.7, 150).round()
        bits = size * rng.gamma(9, 0.1, 150)
        return ratio_estimate(bits, size)

    assert 0.92 <= coverage(0.9, simulate(one)) <= 0.98


@pytest.mark.parametrize("binary", [False, True])
def test_clustered_means_where_the_naive_interval_fails(binary: bool) -> None:
    def docs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        sizes = rng.integers(2, 10, 60)
        clusters = np.repeat(np.arange(60), sizes)
        hardness = np.repeat(rng.beta(1.4, 0.6, 60), sizes)
        return ((rng.random(len(clusters)) < hardness).astype(float) if binary else hardness), clusters

    assert 0.92 <= coverage(0.7, simulate(lambda rng: mean_estimate(*docs(rng)), seed=3)) <= 0.98
    assert coverage(0.7, simulate(lambda rng: mean_estimate(docs(rng)[0]), seed=3)) < 0.85


def test_clustered_bootstrap_agrees_with_the_closed_form() -> None:
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(200), 5)
    values = np.repeat(rng.random(200), 5) + rng.normal(0, 0.1, 1000)
    statistics = np.column_stack([values, np.ones(1000)])
    draws = bootstrap_replicates(statistics, lambda s: s[:, 0] / s[:, 1], fresh_keys(rng, 1000), clusters, B=4000)
    closed = mean_estimate(values, clusters)
    lifted = bootstrap_estimate(closed.value, draws, 1000, units=200)
    assert lifted.stderr == pytest.approx(closed.stderr, rel=0.05)
    assert lifted.low == pytest.approx(closed.low, abs=0.15 * closed.stderr)


def test_pass_at_k_counts_problems_and_not_draws() -> None:
    """Ten draws of a problem are one unit; as ten rows the interval would be far too narrow."""
    k, n = 3, 10
    # P(at least one of k draws is right) over p ~ Beta(0.5, 1): 1 − E[(1−p)^k] = 1 − B(0.5, 1+k)/B(0.5, 1)
    truth = 1 - math.gamma(1 + k) * math.gamma(1.5) / (math.gamma(1.5 + k) * math.gamma(1.0))

    def one(rng: np.random.Generator) -> Estimate:
        right = rng.binomial(n, rng.beta(0.5, 1, 120))
        return mean_estimate([1 - comb(n - c, k) / comb(n, k) for c in right.tolist()])

    assert 0.92 <= coverage(truth, simulate(one)) <= 0.98


def test_macro_mean_of_unequal_tasks_lifted_by_replicates() -> None:
    sizes, levels = (40, 150, 400), (0.3, 0.6, 0.8)

    def one(rng: np.random.Generator) -> Estimate:
        means, draws = [], []
        for n, p in zip(sizes, levels, strict=True):
            values = (rng.random(n) < p).astype(float)
            statistics = np.column_stack([values, np.ones(n)])
            draws.append(bootstrap_replicates(statistics, lambda s: s[:, 0] / s[:, 1], fresh_keys(rng, n), B=500))
            means.append(values.mean())
        return bootstrap_estimate(float(np.mean(means)), np.mean(draws, axis=0), sum(sizes))

    assert 0.92 <= coverage(float(np.mean(levels)), simulate(one)) <= 0.98
