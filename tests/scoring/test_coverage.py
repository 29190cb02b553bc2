"""Nominal 95 % intervals of whole numbers, from instances' values to estimate, cover the truth 92 to 98 times in 100."""

from __future__ import annotations

import math
from math import comb

import numpy as np
import pytest
from tests.stats.simulation import coverage, fresh_keys, simulate

from assay.metrics import AGGREGATIONS, get_reducer
from assay.scoring import estimate

N = 150
CELLS = np.array([0.30, 0.10, 0.12, 0.48])  # true positive, false positive, false negative, true negative
PAIRS = np.array([(1, 1), (0, 1), (1, 0), (0, 0)])


def one(rng, values, name, clusters=None):
    return estimate(values, AGGREGATIONS[name], fresh_keys(rng, len(values)), clusters).estimate


def labels(rng):
    return [tuple(PAIRS[cell].tolist()) for cell in rng.choice(4, size=N, p=CELLS)]


def lengths_and_lls(rng):
    size = rng.integers(20, 400, N)
    return list(zip((-size * rng.gamma(20.0, 0.05, N)).tolist(), size.tolist()))


def clustered(rng):
    passages = np.repeat(np.arange(40), 4)
    logit = rng.normal(0.5, 1.0, 40)[passages]
    return (rng.random(160) < 1 / (1 + np.exp(-logit))).astype(float), passages


def pass_rates(rng):
    skill = rng.beta(1.2, 2.0, N)
    return [get_reducer("pass@3")((rng.random(8) < p).tolist()) for p in skill]


TP, FP, FN, TN = CELLS
TRUTH = {
    "acc": 0.8,
    "f1": 2 * TP / (2 * TP + FP + FN),
    "mcc": (TP * TN - FP * FN) / math.sqrt((TP + FP) * (TP + FN) * (TN + FP) * (TN + FN)),
    "median": math.log(2),
    "bits per byte": 1 / math.log(2),
}
CASES = {
    "acc": lambda rng: one(rng, (rng.random(N) < 0.8).astype(float).tolist(), "mean"),
    "f1": lambda rng: one(rng, labels(rng), "f1"),
    "mcc": lambda rng: one(rng, labels(rng), "matthews_corrcoef"),
    "median": lambda rng: one(rng, rng.exponential(size=N).tolist(), "median"),
    "bits per byte": lambda rng: one(rng, lengths_and_lls(rng), "bits_per_byte"),
}


@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_their_level(name):
    assert 0.92 <= coverage(TRUTH[name], simulate(CASES[name])) <= 0.98


def test_clustered_means_hold_their_level_where_naive_ones_do_not():
    rng = np.random.default_rng(5)
    grid = rng.normal(0.5, 1.0, 2_000_000)
    truth = float(np.mean(1 / (1 + np.exp(-grid))))

    def honest(rng):
        values, passages = clustered(rng)
        return one(rng, values.tolist(), "mean", passages)

    def naive(rng):
        return one(rng, clustered(rng)[0].tolist(), "mean")

    assert 0.92 <= coverage(truth, simulate(honest)) <= 0.98
    assert coverage(truth, simulate(naive)) < 0.92


def test_pass_at_k_holds_its_level_over_problems_not_over_draws():
    """Draws of one problem are no independent docs: lm-evaluation-harness and lighteval would count 8 per problem."""
    rng = np.random.default_rng(6)
    skill = rng.beta(1.2, 2.0, 2_000_000)
    truth = float(np.mean(1 - (1 - skill) ** 3))
    assert comb(8, 3) == 56
    assert 0.92 <= coverage(truth, simulate(lambda rng: one(rng, pass_rates(rng), "mean"))) <= 0.98


def test_the_bootstrap_error_does_not_shrink_with_the_number_of_replicates():
    """lighteval divides the spread of the replicates by the root of their number."""
    rng = np.random.default_rng(8)
    pairs, keys = labels(rng), fresh_keys(rng, N)
    few, many = (estimate(pairs, AGGREGATIONS["f1"], keys, None, b).estimate.stderr for b in (500, 8000))
    assert few == pytest.approx(many, rel=0.15)
