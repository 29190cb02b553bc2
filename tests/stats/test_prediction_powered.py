"""A judge's verdicts and some labels make a number whose interval holds the truth; the verdicts alone do not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stats.judging import CELLS, SLICE, Cell, simulate

from assay.stats import (
    Judged,
    bootstrap_estimate,
    corrected_difference,
    corrected_mean,
    corrected_replicates,
    mean_estimate,
    paired_difference,
)


@pytest.mark.parametrize("cell", SLICE, ids=str)
def test_intervals_hold_the_truth(cell: Cell) -> None:
    found = simulate(cell, 300)
    assert found.holds(300), f"{found.corrected:.1%} (the judge alone {found.opinion:.1%})"


@pytest.mark.wide
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_intervals_hold_the_truth_everywhere(cell: Cell) -> None:
    found = simulate(cell, 1000)
    assert found.holds(1000), f"{found.corrected:.1%} (the judge alone {found.opinion:.1%})"


def test_the_judge_alone_does_not() -> None:
    found = simulate(Cell("mean", "kind", 0.3, 200), 100)
    assert found.opinion < 0.05
    assert found.corrected > 0.9


def made(seed: int = 0, n: int = 400, labels: int = 100) -> Judged:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    people = np.full(n, np.nan)
    chosen = rng.choice(n, labels, replace=False)
    people[chosen] = truth[chosen] + 5
    return Judged(truth * 0.8 + rng.normal(size=n) * 0.4 + 7, people)


def test_grades_are_corrected_and_narrower_than_the_labels_alone() -> None:
    judged = made()
    found = corrected_mean(judged.verdicts, judged.labels)
    alone = mean_estimate(judged.labels[judged.labelled])
    assert found.estimate.value == pytest.approx(5, abs=0.2)
    assert (found.estimate.half_width or 0) < 0.8 * (alone.half_width or 0)
    assert found.sensitivity is None


def test_labels_on_every_doc_give_the_labels_own_mean() -> None:
    rng = np.random.default_rng(1)
    people = (rng.random(300) < 0.7).astype(float)
    found = corrected_mean((rng.random(300) < 0.5).astype(float), people).estimate
    assert found.value == pytest.approx(people.mean())


def test_a_judge_that_says_the_same_of_all_docs_leaves_the_labels() -> None:
    people = np.full(200, np.nan)
    people[:50] = [1.0] * 40 + [0.0] * 10
    found = corrected_mean(np.ones(200), people)
    assert (found.estimate.value, found.weight) == (pytest.approx(0.8), 0.0)


def test_where_judge_and_people_agree_on_all_the_interval_does_not_collapse() -> None:
    verdicts = np.ones(1000)
    verdicts[::2] = 0
    people = np.full(1000, np.nan)
    people[:50] = verdicts[:50]
    found = corrected_mean(verdicts, people).estimate
    opinion = mean_estimate(verdicts)
    assert (found.half_width or 0) > 1.2 * (opinion.half_width or 0), "fifty docs do not show that it never errs"


def test_too_few_labels_give_no_number() -> None:
    people = np.full(100, np.nan)
    people[:19] = 1.0
    assert corrected_mean(np.ones(100), people).estimate.undefined


def test_replicates_spread_as_the_formula_says() -> None:
    judged = made(n=600, labels=200)
    keys = np.random.default_rng(2).integers(0, 2**64, 600, dtype=np.uint64)
    found = corrected_mean(judged.verdicts, judged.labels).estimate
    draws = corrected_replicates(judged.verdicts, judged.labels, keys, None, 2000)()
    lifted = bootstrap_estimate(found.value or 0.0, draws, 600)
    assert lifted.stderr == pytest.approx(found.stderr, rel=0.1)
    assert draws.mean() == pytest.approx(found.value, abs=0.01)


def test_docs_of_one_cluster_count_once() -> None:
    judged = made(n=100, labels=40)
    four = Judged(np.repeat(judged.verdicts, 4), np.repeat(judged.labels, 4))
    alone = corrected_mean(judged.verdicts, judged.labels).estimate
    clustered = corrected_mean(four.verdicts, four.labels, np.repeat(np.arange(100), 4)).estimate
    assert clustered.stderr == pytest.approx(alone.stderr, rel=0.05)
    assert (corrected_mean(four.verdicts, four.labels).estimate.stderr or 0) < 0.6 * (alone.stderr or 0)


def test_a_difference_without_labels_is_the_plain_paired_one() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=200), rng.normal(size=200)
    none = np.full(200, np.nan)
    found = corrected_difference(Judged(a, none), Judged(b, none))
    plain = paired_difference(a, b)
    assert found.estimate.value == pytest.approx(plain.estimate.value)
    assert found.estimate.stderr == pytest.approx(plain.estimate.stderr, rel=1e-6)


def test_one_judge_on_one_run_against_itself_differs_by_nothing() -> None:
    judged = made()
    found = corrected_difference(judged, judged)
    assert (found.estimate.value, found.estimate.stderr, found.p_value) == (0.0, 0.0, 1.0)


def graded(rng: np.random.Generator, labels: int, middle: float) -> tuple[np.ndarray, np.ndarray]:
    """Grades of 1 to 10 on 400 docs, of people on some and of a kind judge on all."""
    said = np.clip(np.round(middle + 2 * rng.standard_normal(400)), 1, 10)
    verdicts = np.clip(np.round(said + 0.7 + 1.2 * rng.standard_normal(400)), 1, 10)
    people = np.full(400, np.nan)
    people[:labels] = said[:labels]
    return verdicts, people


@pytest.mark.parametrize("labels", [20, 50])
def test_grades_near_the_ceiling_are_held(labels: int) -> None:
    """value ± t·SE held them in 56 and 81 % of cases."""
    rng = np.random.default_rng(0)
    truth = float(np.clip(np.round(13 + 2 * rng.standard_normal(400_000)), 1, 10).mean())
    found = [corrected_mean(*graded(rng, labels, 13)).estimate for _ in range(150)]
    assert sum(each.low <= truth <= each.high for each in found) >= 138
    assert all(each.high <= 10 for each in found)


def test_labels_that_are_all_the_best_grade_do_not_make_it_certain() -> None:
    verdicts = np.tile([10.0, 9.0, 8.0, 4.0], 25)
    people = np.where(np.arange(100) < 20, 10.0, np.nan)
    found = corrected_mean(verdicts, people).estimate
    assert found.low < 9.5
    assert found.high == 10.0
    flat = corrected_mean(np.full(100, 10.0), people).estimate
    assert (flat.value, flat.low, flat.withheld_reason) == (10.0, None, "all verdicts and labels are the same")


def test_the_degrees_of_freedom_are_those_of_the_labels() -> None:
    rng = np.random.default_rng(1)
    assert corrected_mean(*graded(rng, 30, 7)).estimate.df == 28
    right = (rng.random(400) < 0.9).astype(float)
    found = corrected_mean(right, np.where(np.arange(400) < 40, right, np.nan)).estimate
    assert (found.df, found.bounded) == (38, True)
