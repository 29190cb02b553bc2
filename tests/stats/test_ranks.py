"""Ranks of many runs: do all ranges hold together, with clusters, groups, missing docs, ties and few docs?"""

from __future__ import annotations

import numpy as np
import pytest

from assay.stats import (
    PairDraws,
    conformal_width,
    mean_pairs,
    paired_difference,
    rank_runs,
    thin_docs,
    weighted_pairs,
)


def make_scores(
    generator: np.random.Generator, skill: np.ndarray, docs: int, *, cluster_size: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """0/1 scores of runs that find the same docs hard, and the docs' unit keys; docs of a cluster are alike."""
    units = np.arange(docs) // cluster_size
    hardness = generator.normal(size=units.max() + 1)[units]
    chance = 1 / (1 + np.exp(-(skill[:, None] - 1.5 * hardness)))
    # Each run has luck of its own with a whole cluster.
    luck = (
        generator.random((len(skill), units.max() + 1))[:, units]
        if cluster_size > 1
        else generator.random((len(skill), docs))
    )
    return (luck < chance).astype(float), (units + generator.integers(1, 1 << 60)).astype(np.uint64)


def true_ranks(skill: np.ndarray, min_difference: float = 0.0) -> np.ndarray:
    hardness = np.random.default_rng(0).normal(size=200_000)
    score = np.array([(1 / (1 + np.exp(-(s - 1.5 * hardness)))).mean() for s in skill])
    return 1 + (score[None, :] - score[:, None] > min_difference + 1e-12).sum(axis=1)


@pytest.mark.parametrize("cluster_size", [1, 5])
@pytest.mark.parametrize("tied", [False, True])
def test_all_ranges_hold_together(cluster_size: int, tied: bool) -> None:
    # Equal runs are the hard case: every pair can go wrong, on either side.
    skill = np.zeros(8) if tied else np.array([-0.6, -0.3, -0.1, 0.0, 0.0, 0.1, 0.4, 0.9])
    generator, truth, held = np.random.default_rng(5), true_ranks(skill), 0
    tries = 150
    for _ in range(tries):
        ranks = rank_runs(
            mean_pairs(*make_scores(generator, skill, 200 * cluster_size, cluster_size=cluster_size), 400)
        )
        held += bool(((ranks.low <= truth) & (truth <= ranks.high)).all())
    # Two standard errors below 95 % of 150 tries.
    assert held / tries >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / tries)


def test_ignoring_clusters_would_break_the_ranges() -> None:
    generator, skill, held = np.random.default_rng(7), np.zeros(6), 0
    for _ in range(60):
        values, units = make_scores(generator, skill, 1000, cluster_size=20)
        alone = np.arange(len(units)).astype(np.uint64) + units
        ranks = rank_runs(mean_pairs(values, alone, 400))
        held += bool((ranks.low == 1).all())
    assert held / 60 < 0.8


def test_a_small_difference_that_does_not_matter_is_no_rank() -> None:
    generator = np.random.default_rng(1)
    base = (generator.random(20_000) < 0.5).astype(float)
    better = base.copy()
    better[np.flatnonzero(base == 0)[:300]] = 1  # 0.015 better, beyond doubt
    keys = np.arange(20_000).astype(np.uint64)
    pairs = mean_pairs(np.stack([base, better]), keys, 400)
    assert rank_runs(pairs).low.tolist() == [2, 1]
    assert rank_runs(pairs, min_difference=0.05).high.tolist() == [1, 1]
    assert rank_runs(pairs, min_difference=0.005).low.tolist() == [2, 1]


def test_each_pair_is_compared_on_the_docs_that_both_have() -> None:
    values = np.array([[1.0, 1, 0, 0, 1, 1], [0.0, 1, 0, np.nan, np.nan, np.nan], [np.nan, 0, 0, 0, 0, 1]])
    pairs = mean_pairs(values, np.arange(6).astype(np.uint64), 200)
    assert pairs.common.tolist() == [3, 5, 2]
    np.testing.assert_allclose(pairs.difference, [1 / 3, 2 / 5, 1 / 2])
    assert pairs.values is None


def test_missing_docs_by_pairs_agree_with_complete_docs_where_none_is_missing() -> None:
    generator = np.random.default_rng(3)
    values = (generator.random((4, 300)) < 0.6).astype(float)
    keys = generator.integers(1, 1 << 60, 300).astype(np.uint64)
    with_gap = np.column_stack([values, [1, 1, 1, np.nan]])
    whole, gap = mean_pairs(values, keys, 200), mean_pairs(with_gap, np.append(keys, np.uint64(9)), 200)
    # Pairs with the last run lack the doc that only it lacks: exactly the complete data.
    np.testing.assert_allclose(gap.draws[[2, 4, 5]], whole.draws[[2, 4, 5]])


def test_runs_that_agree_everywhere_share_all_ranks() -> None:
    values = np.ones((3, 50))
    ranks = rank_runs(mean_pairs(values, np.arange(50).astype(np.uint64), 200))
    assert ranks.rank.tolist() == ranks.low.tolist() == [1, 1, 1]
    assert ranks.high.tolist() == [3, 3, 3]
    assert ranks.tier.tolist() == [1, 1, 1]
    np.testing.assert_allclose(ranks.best, 1 / 3)


def test_two_docs_decide_nothing() -> None:
    ranks = rank_runs(mean_pairs(np.array([[1.0, 1], [0.0, 0]]), np.arange(2).astype(np.uint64), 200))
    assert ranks.low.tolist() == [1, 1]
    assert ranks.high.tolist() == [2, 2]


def test_members_that_share_their_docs_are_no_further_evidence() -> None:
    generator = np.random.default_rng(4)
    values = (generator.random((3, 400)) < [[0.5], [0.55], [0.6]]).astype(float)
    member = mean_pairs(values, np.arange(400).astype(np.uint64), 400)
    twice = weighted_pairs([member, member], [0.5, 0.5])
    np.testing.assert_allclose(twice.spread, member.spread, rtol=0.01)
    other = mean_pairs(values, (np.arange(400) + 1000).astype(np.uint64), 400)
    apart = weighted_pairs([member, other], [0.5, 0.5])
    np.testing.assert_allclose(apart.spread, member.spread / np.sqrt(2), rtol=0.15)


def test_the_chance_of_being_best_is_calibrated() -> None:
    """Of the runs that are best with a chance of 30 to 70 %, about half are."""
    generator, said, was = np.random.default_rng(6), [], []
    for _ in range(300):
        skill = generator.normal(0, 0.15, 3)
        best = rank_runs(mean_pairs(*make_scores(generator, skill, 200), 200)).best
        said += best.tolist()
        was += (skill == skill.max()).tolist()
    unsure = (np.array(said) > 0.3) & (np.array(said) < 0.7)
    assert abs(np.mean(np.array(was)[unsure]) - np.mean(np.array(said)[unsure])) < 0.1


def test_a_tier_needs_a_corrected_test() -> None:
    difference = np.array([0.021, 0.023, 0.002])
    draws = difference[:, None] + np.random.default_rng(0).normal(0, 0.01, (3, 1000))
    flat = np.zeros(3)
    ranks = rank_runs(PairDraws(difference, draws, flat, flat + 500, flat.astype(np.int64) + 500))
    # 2.1 and 2.3 standard errors are p < 0.04 alone, and nothing among three.
    assert ranks.tier.tolist() == [1, 1, 1]
    assert (ranks.p_adjusted > 0.05)[np.triu_indices(3, 1)].all()


@pytest.mark.parametrize("tries", [20, pytest.param(200, marks=pytest.mark.wide)])
def test_thin_docs_hold_a_further_run_at_their_level(tries: int) -> None:
    generator, held = np.random.default_rng(8), 0
    for _ in range(tries):
        skill = generator.normal(0, 1, 20)
        values, _ = make_scores(generator, skill, 200)
        thin = thin_docs(values[:-1], 40)
        width = thin.half_width
        assert width is not None
        held += abs(thin.intercept + thin.slope * values[-1][thin.docs].mean() - values[-1].mean()) <= width
    assert held / tries >= 0.95 - 2 * np.sqrt(0.95 * 0.05 / tries)


def test_in_sample_errors_would_have_promised_too_much() -> None:
    generator = np.random.default_rng(9)
    values, _ = make_scores(generator, generator.normal(0, 1, 20), 1000)
    thin = thin_docs(values, 20)
    fitted = thin.intercept + thin.slope * values[:, thin.docs].mean(axis=1) - values.mean(axis=1)
    assert np.std(fitted) < np.std(thin.errors)


def test_too_few_runs_give_no_interval() -> None:
    assert conformal_width(np.ones(18), 0.95) is None
    assert conformal_width(np.ones(19), 0.95) == 1.0


def test_a_dominant_cluster_leaves_the_degrees_of_freedom_that_a_comparison_of_two_has() -> None:
    """One cluster of 300 docs and a hundred of two: units − 1 called equal runs different in 15 % of cases."""
    rng, sizes = np.random.default_rng(0), np.array([300] + [2] * 100)
    units = np.repeat(rng.integers(0, 2**63, len(sizes), dtype=np.uint64), sizes)
    index = np.repeat(np.arange(len(sizes)), sizes)
    values = (rng.random((2, len(index))) < 0.7).astype(float)
    pairs = mean_pairs(values, units, 100)
    assert pairs.freedom[0] == pytest.approx(paired_difference(*values, index).freedom)
    assert pairs.freedom[0] < 2
