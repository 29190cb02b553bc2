"""Differences of two runs on a group, and the family of rows that a comparison shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from assay.stats import (
    Difference,
    combined_difference,
    decide,
    extreme_difference,
    holm,
    interval_beside,
    mean_estimate,
    non_inferiority,
    paired_difference,
    rescaled,
    wilson,
)
from assay.stats.paired import tango_interval


def flipped(gained: int, lost: int, n: int) -> Difference:
    a = np.repeat([0.0, 1.0, 1.0], [gained, lost, n - gained - lost])
    b = np.repeat([1.0, 0.0, 1.0], [gained, lost, n - gained - lost])
    return paired_difference(a, b)


def two_runs(rng: np.random.Generator, n: int, p: float, worse: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    a = (rng.random(n) < p).astype(float)
    b = np.where(rng.random(n) < 0.3, (rng.random(n) < p).astype(float), a)
    return a, np.where((b == 1) & (rng.random(n) < worse / p), 0.0, b)


def of_extremes(pick: Callable[..., float], runs: list[tuple[np.ndarray, np.ndarray]]) -> Difference:
    differences = [paired_difference(*each) for each in runs]
    sides = [[partial(rescaled, mean_estimate(each[side])) for each in runs] for side in (0, 1)]
    return extreme_difference(pick, differences, sides[0], sides[1], sum(len(a) for a, _ in runs))


# Means


def test_one_member_is_what_it_is() -> None:
    only = flipped(12, 4, 60)
    found = combined_difference([only, flipped(3, 3, 9)], np.array([1.0, 0.0]), 60)
    assert found.p_value == only.p_value
    assert (found.estimate.low, found.estimate.high) == (only.estimate.low, only.estimate.high)


@pytest.mark.parametrize(("gained", "lost", "n"), [(0, 0, 100), (5, 2, 50), (10, 10, 300), (30, 0, 30)])
def test_equal_members_have_the_interval_of_their_docs_together(gained: int, lost: int, n: int) -> None:
    found = combined_difference([flipped(gained, lost, n)] * 3, np.full(3, 1 / 3), 3 * n).estimate
    whole = tango_interval(3 * gained, 3 * lost, 3 * n, 0.95)
    assert (found.low, found.high) == pytest.approx(whole, abs=0.03 * (whole[1] - whole[0]))


def test_a_small_member_without_flips_may_still_flip() -> None:
    """Ten docs that say the same may differ by 28 %; half of that counts."""
    found = combined_difference([flipped(20, 20, 1000), flipped(0, 0, 10)], np.full(2, 0.5), 1010).estimate
    assert (found.low, found.high) == pytest.approx((-0.139, 0.139), abs=0.002)


def test_many_small_members_without_flips_hardly_flip_together() -> None:
    found = combined_difference([flipped(0, 0, 10)] * 57, np.full(57, 1 / 57), 570)
    assert found.estimate.high < 1.2 * tango_interval(0, 0, 570, 0.95)[1]
    assert found.p_value == 1.0


def test_interval_and_p_value_of_a_mean_of_members_agree() -> None:
    rng = np.random.default_rng(0)
    binary = [flipped(20, 6, 100), flipped(4, 4, 30)]
    other = [paired_difference(rng.random(20), rng.random(20) + 0.2), flipped(4, 4, 30)]
    for members in (binary, other):
        found = combined_difference(members, np.array([0.7, 0.3]), 130)
        low, high = found.bounds(1 - found.p_value)
        assert min(abs(low), abs(high)) < 1e-3


# The best and the worst


@pytest.mark.parametrize("pick", [min, max])
def test_the_difference_of_worst_members_is_held(pick: Callable[..., float]) -> None:
    """Student's t on replicates held it in 61 to 84 % of cases, and gates at the margin erred in half."""
    rng, held, passed = np.random.default_rng(3), 0, 0
    for _ in range(40):
        found = of_extremes(pick, [two_runs(rng, 60, 0.7) for _ in range(6)])
        held += found.estimate.low <= 0 <= found.estimate.high
        worse = of_extremes(pick, [two_runs(rng, 60, 0.7, 0.05) for _ in range(6)])
        passed += non_inferiority(worse, 0.05).passed
    assert held >= 37
    assert passed <= 4


def test_a_member_that_is_clearly_the_worst_decides_alone() -> None:
    rng = np.random.default_rng(1)
    hard, easy = two_runs(rng, 400, 0.3), two_runs(rng, 30, 0.9)
    found, alone = of_extremes(min, [hard, easy]).estimate, paired_difference(*hard).estimate
    assert found.high - found.low == pytest.approx(alone.high - alone.low, rel=0.06)


# A family of rows


def test_no_difference_is_claimed_with_the_correction_of_the_family() -> None:
    row = flipped(6, 6, 1000)
    assert decide(row, margin=0.01).kind == "equivalent"
    assert decide(row, margin=0.01, tests=30).kind == "undecided"


def test_any_false_claim_of_no_difference_is_rare_among_ten_rows() -> None:
    """Each row truly differs by the margin; with one-sided tests at 5 % each, two in five comparisons had a false one."""
    rng, wrong = np.random.default_rng(2), 0
    for _ in range(200):
        won, lost = rng.binomial(500, 0.02, 10), rng.binomial(500, 0.06, 10)
        rows = [flipped(int(up), int(down), 500) for up, down in zip(won, lost, strict=True)]
        wrong += any(decide(row, margin=0.04, p_value=1.0, tests=10).kind == "equivalent" for row in rows)
    assert wilson(wrong, 200, level=0.99)[0] < 0.05


def test_interval_and_verdict_of_a_row_never_disagree() -> None:
    rng = np.random.default_rng(4)
    kinds = set()
    for _ in range(60):
        shift = rng.choice([0.0, 0.02, 0.1], 6)
        rows = [flipped(int(rng.binomial(300, 0.05 + s)), int(rng.binomial(300, 0.05)), 300) for s in shift]
        for row, p in zip(rows, holm([each.p_value for each in rows]), strict=True):
            verdict = decide(row, margin=0.08, p_value=p, tests=6)
            shown = interval_beside(row, verdict, p_value=p, tests=6)
            kinds.add(verdict.kind)
            assert (verdict.kind in ("better", "worse")) == (not shown.low <= 0 <= shown.high)
            assert verdict.kind != "equivalent" or max(-shown.low, shown.high) <= 0.08
            assert shown.low <= row.estimate.value <= shown.high
    assert kinds >= {"better", "equivalent", "undecided"}


def test_one_row_has_the_interval_it_had() -> None:
    row = flipped(20, 12, 300)
    shown = interval_beside(row, decide(row, margin=0.01))
    assert (shown.low, shown.high, shown.level) == (row.estimate.low, row.estimate.high, 0.95)
