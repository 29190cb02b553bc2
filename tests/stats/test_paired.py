"""Paired comparison: right error rates where nothing differs, right intervals where something does."""

import math

import numpy as np
import pytest
from tests.stats.simulation import REPETITIONS, coverage, fresh_keys

from assay.stats import (
    Difference,
    Estimate,
    bootstrap_replicates,
    decide,
    holm,
    mcnemar,
    mean_estimate,
    mean_stderr,
    non_inferiority,
    paired_difference,
    replicate_difference,
    unpaired_difference,
)

ALARM = 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / REPETITIONS)
"""Five per cent, and the error of 400 repetitions."""


def answers(rng: np.random.Generator, n: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Two models that find the same docs hard; B is better by `shift` on average."""
    hardness = rng.beta(2, 2, n) * (1 - abs(shift)) + max(0.0, -shift)
    return (rng.random(n) < hardness).astype(float), (rng.random(n) < hardness + shift).astype(float)


def margins(rng: np.random.Generator, n: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Skewed scores, such as F1 of tokens or log-likelihoods."""
    shared = rng.gamma(2, 1, n)
    return shared + rng.gamma(1, 0.5, n), shared + rng.gamma(1, 0.5, n) + shift


def test_mcnemar_counts_only_disagreements() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 5) == 1.0
    assert mcnemar(1, 9) == mcnemar(9, 1) == pytest.approx((11 + 1) / 1024)
    assert mcnemar(3, 0) == pytest.approx(1 / 8)
    assert mcnemar(40_000, 41_000) == pytest.approx(0.00044, abs=5e-5)


def test_public_example_is_significant_only_when_paired() -> None:
    """An unpaired z test on paired data loses what pairing gives."""
    a = np.repeat([1.0, 0.0, 1.0, 0.0], [520, 400, 25, 55])
    b = np.repeat([1.0, 0.0, 0.0, 1.0], [520, 400, 25, 55])
    paired = paired_difference(a, b)
    unpaired = unpaired_difference(mean_estimate(a), mean_estimate(b))
    assert (paired.gained, paired.lost) == (55, 25)
    assert paired.p_value < 0.002
    assert unpaired.p_value > 0.1
    assert paired.estimate.stderr == pytest.approx(mean_stderr(b - a), rel=1e-12)


@pytest.mark.parametrize("draw", [answers, margins])
@pytest.mark.parametrize("n", [40, 300])
def test_no_difference_raises_few_alarms(draw, n: int) -> None:
    rng = np.random.default_rng(0)
    rows = [paired_difference(*draw(rng, n)) for _ in range(REPETITIONS)]
    assert np.mean([row.p_value < 0.05 for row in rows]) <= ALARM
    verdicts = [decide(row, margin=1e-9).kind for row in rows]
    assert np.mean([v != "undecided" for v in verdicts]) <= ALARM


@pytest.mark.parametrize("draw", [answers, margins])
@pytest.mark.parametrize(("n", "shift"), [(60, 0.1), (400, 0.03)])
def test_paired_intervals_cover(draw, n: int, shift: float) -> None:
    rng = np.random.default_rng(1)
    rows = [paired_difference(*draw(rng, n, shift)) for _ in range(REPETITIONS)]
    assert 0.92 <= coverage(shift, [row.estimate for row in rows]) <= 0.98


def test_clustered_docs_are_compared_by_cluster() -> None:
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(50), 6)

    def pair() -> tuple[np.ndarray, np.ndarray]:
        lean = np.repeat(rng.normal(0, 0.25, 50), 6)  # B likes some passages and dislikes others
        a = (rng.random(300) < 0.5).astype(float)
        return a, (rng.random(300) < np.clip(0.5 + lean, 0, 1)).astype(float)

    pairs = [pair() for _ in range(REPETITIONS)]
    rows = [paired_difference(a, b, clusters) for a, b in pairs]
    assert rows[0].test == "paired t, by cluster"
    assert np.mean([row.p_value < 0.05 for row in rows]) <= ALARM
    assert 0.92 <= coverage(0.0, [row.estimate for row in rows]) <= 0.98
    assert np.mean([paired_difference(a, b).p_value < 0.05 for a, b in pairs]) > 0.08


def test_replicates_of_any_number_subtract() -> None:
    def f1(s: np.ndarray) -> np.ndarray:
        return 2 * s[..., 0] / (2 * s[..., 0] + s[..., 1] + s[..., 2])

    def one(rng: np.random.Generator) -> Difference:
        n = 200
        gold = rng.random(n) < 0.4
        keys = fresh_keys(rng, n)
        sides = []
        noise = rng.random(n)
        for own in (0.9, 0.9):
            guess = np.where(noise < 0.15, ~gold, np.where(rng.random(n) < own, gold, ~gold))
            cells = np.column_stack([guess & gold, guess & ~gold, ~guess & gold, ~guess & ~gold]).astype(float)
            sides.append((float(f1(cells.sum(axis=0))), bootstrap_replicates(cells, f1, keys, B=300)))
        (a, draws_a), (b, draws_b) = sides
        return replicate_difference(a, b, draws_a, draws_b, n)

    rng = np.random.default_rng(0)
    rows = [one(rng) for _ in range(REPETITIONS)]
    assert np.mean([row.p_value < 0.05 for row in rows]) <= ALARM
    assert 0.92 <= coverage(0.0, [row.estimate for row in rows]) <= 0.98


def test_unpaired_comparison_of_disjoint_docs() -> None:
    rng = np.random.default_rng(0)
    rows = [
        unpaired_difference(mean_estimate(rng.random(80) ** 2), mean_estimate(rng.random(50) ** 2))
        for _ in range(REPETITIONS)
    ]
    assert np.mean([row.p_value < 0.05 for row in rows]) <= ALARM


def test_twenty_tasks_without_a_difference_raise_one_alarm_in_twenty_reports() -> None:
    rng = np.random.default_rng(2)
    alarms, naive = 0, 0
    for _ in range(REPETITIONS):
        p_values = [paired_difference(*margins(rng, 60)).p_value for _ in range(20)]
        alarms += min(holm(p_values)) < 0.05
        naive += min(p_values) < 0.05
    assert alarms / REPETITIONS <= ALARM
    assert naive / REPETITIONS > 0.5


def test_holm_keeps_order_and_skips_rows_without_a_test() -> None:
    assert holm([]) == []
    assert holm([None]) == [None]
    assert holm([0.5, 0.001, 0.9]) == [1.0, 0.003, 1.0]


def test_edges() -> None:
    assert paired_difference(np.empty(0), np.empty(0)).estimate.undefined == "no docs in common"
    one = paired_difference(np.array([0.0]), np.array([1.0]))
    assert one.estimate.stderr is None
    assert one.bounds(0.95) is None
    assert paired_difference(np.array([0.2]), np.array([0.7])).p_value is None
    with pytest.raises(ValueError, match="do not form pairs"):
        paired_difference(np.ones(2), np.ones(3))
    same = paired_difference(np.array([0.25, 0.5, 0.125]), np.array([0.25, 0.5, 0.125]))
    assert same.p_value == 1.0
    assert unpaired_difference(Estimate.missing("no docs"), mean_estimate([0.0, 1.0])).estimate.undefined == "no docs"


def test_two_equal_runs_have_an_interval_of_some_width() -> None:
    scores = np.repeat([0.0, 1.0], 50)
    row = paired_difference(scores, scores)
    assert (row.estimate.value, row.estimate.stderr, row.p_value) == (0.0, 0.0, 1.0)
    assert row.estimate.low < -0.01 < 0.01 < row.estimate.high


@pytest.mark.parametrize(
    ("a", "b", "clusters"),
    [
        (np.zeros(4), np.ones(4), [0, 0, 1, 1]),
        (np.array([0.5, 0.0]), np.array([1.0, 0.5]), None),
        (np.array([0.1, 0.2]), np.array([0.2, 0.3]), None),  # the differences differ by rounding
        (np.array([0.0, 0.5, 0.0, 0.5]), np.array([0.25, 0.75, 0.25, 0.75]), [0, 0, 1, 1]),
    ],
)
def test_two_units_that_move_alike_prove_nothing(a, b, clusters) -> None:
    row = paired_difference(a, b, clusters)
    assert row.p_value == 0.5
    assert row.estimate.low < 0 < row.estimate.high
    assert decide(row, margin=0.01).kind == "undecided"
    assert not non_inferiority(row, 0.01).passed


@pytest.mark.parametrize("clusters", [None, [0, 1]])
def test_two_docs_alike_in_both_runs_are_the_same_but_not_equivalent(clusters) -> None:
    row = paired_difference(np.array([0.25, 0.5]), np.array([0.25, 0.5]), clusters)
    assert row.p_value == 1.0
    assert decide(row, margin=0.01).kind == "same"
    assert not non_inferiority(row, 0.01).passed


def test_many_units_that_move_alike_do_prove_it() -> None:
    scores = np.linspace(0.1, 0.9, 2000)
    assert decide(paired_difference(scores, scores), margin=0.01).kind == "equivalent"
    assert decide(paired_difference(scores, scores + 0.05), margin=0.01).kind == "better"
    clusters = np.repeat(np.arange(100), 2)
    row = paired_difference(np.zeros(200), np.ones(200), clusters)
    assert (decide(row, margin=0.01).kind, row.test) == ("better", "directions")
    assert non_inferiority(row, 0.01).passed


def test_replicates_and_estimates_without_spread_are_not_certain_either() -> None:
    constant = np.full(100, 0.5)
    row = replicate_difference(0.5, 0.75, constant, constant + 0.25, 2)
    assert row.p_value > 0.05
    assert decide(row, margin=0.01).kind == "undecided"
    nothing = replicate_difference(0.0, 0.0, np.zeros(100), np.zeros(100), 50)
    assert (nothing.p_value, nothing.spread, nothing.bounds(0.9)) == (None, None, None)
    assert decide(nothing, margin=0.01).kind == "same"
    few = unpaired_difference(mean_estimate([0.0, 0.0]), mean_estimate([1.0, 1.0]))
    assert few.p_value > 0.05
    assert decide(unpaired_difference(*[mean_estimate([1.0, 1.0])] * 2), margin=0.01).kind == "same"


def test_a_difference_of_scores_from_0_to_1_reaches_no_further_than_1() -> None:
    a, b = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0]), np.full(6, 2 / 3)
    difference = paired_difference(a, b, level=0.99)
    assert difference.estimate.high == 1.0
    assert difference.interval is not None
    assert difference.interval(0.999)[1] == 1.0
    assert paired_difference(10 * a, 10 * b, level=0.99).estimate.high > 1.0  # type: ignore[operator]
