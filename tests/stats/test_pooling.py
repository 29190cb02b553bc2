"""Group standard errors: the cases other harnesses are known to get wrong."""

import math

import numpy as np
import pytest

from assay.stats import (
    Estimate,
    combined_estimate,
    mean_estimate,
    mean_stderr,
    pooled_stderr,
    rescaled,
    unweighted_stderr,
    wilson,
)

rng = np.random.default_rng(0)
TASKS = [(rng.random(n) < p).astype(float) for n, p in ((20, 0.2), (50, 0.9), (400, 0.5))]
STDERRS = [mean_stderr(t) for t in TASKS]
SIZES = [len(t) for t in TASKS]


def test_pooled_is_the_published_formula() -> None:
    variance = sum((n - 1) * se**2 * n for n, se in zip(SIZES, STDERRS, strict=True)) / (sum(SIZES) - 3)
    assert pooled_stderr(STDERRS, SIZES) == math.sqrt(variance / sum(SIZES))


def test_tasks_of_one_doc_have_nothing_to_pool() -> None:
    assert pooled_stderr([0.0, 0.0], [1, 1]) is None


def test_unweighted_mean_is_not_given_the_pooled_error() -> None:
    """lm-evaluation-harness did so until June 2026: here it would be 40 % too small."""
    honest = float(np.std([[rng.choice(t, len(t)).mean() for t in TASKS] for _ in range(4000)], axis=0) @ [1, 1, 1] / 3)
    spread = float(np.std([np.mean([rng.choice(t, len(t)).mean() for t in TASKS]) for _ in range(4000)]))
    assert unweighted_stderr(STDERRS) == pytest.approx(spread, rel=0.06)
    assert pooled_stderr(STDERRS, SIZES) < 0.75 * spread
    # lighteval averages the standard errors as if they were scores:
    assert honest > 1.3 * spread


def test_fifty_seven_like_subjects_are_far_more_certain_than_one() -> None:
    """Averaging standard errors keeps a group as uncertain as its members: √57 times too wide."""
    assert unweighted_stderr([0.03] * 57) == pytest.approx(0.03 / math.sqrt(57))


def test_weighted_members_add_their_squares() -> None:
    members = [mean_estimate(task) for task in TASKS]
    even = combined_estimate(0.5, members, np.full(3, 1 / 3), sum(SIZES))
    assert even.stderr == pytest.approx(unweighted_stderr(STDERRS))
    last = combined_estimate(members[2].value, members, np.array([0.0, 0.0, 1.0]), sum(SIZES))
    assert last.stderr == pytest.approx(STDERRS[2])
    assert (last.low, last.high) == pytest.approx((members[2].low, members[2].high), abs=1e-3)


def of_counts(right: int, docs: int) -> Estimate:
    return mean_estimate(np.repeat([1.0, 0.0], [right, docs - right]))


def of_means(members: list[Estimate], weights: np.ndarray | None = None, level: float = 0.95) -> Estimate:
    shares = np.full(len(members), 1 / len(members)) if weights is None else weights
    value = float(shares @ [m.value for m in members])
    return combined_estimate(value, members, shares, sum(m.n for m in members), level=level)


def test_a_small_member_that_is_all_right_may_still_go_wrong() -> None:
    """Half of 1,000 docs and ten of ten: the ten alone may be as few as 72 %."""
    found = of_means([of_counts(500, 1000), of_counts(10, 10)])
    assert found.low == pytest.approx(0.61, abs=0.005)
    assert found.high == pytest.approx(0.766, abs=0.005)
    mirrored = of_means([of_counts(500, 1000), of_counts(0, 10)])
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - found.high, 1 - found.low))


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.7, 0.9, 0.95])
def test_the_mean_of_a_large_and_a_small_member_is_held_exactly_often_enough(p: float) -> None:
    """All outcomes of three docs, with a large member that is taken for known: with one pooled n_eff it was 63 to 75 %."""
    held = 0.0
    for right in range(4):
        found = of_means([of_counts(1500, 3000), of_counts(right, 3)])
        held += math.comb(3, right) * p**right * (1 - p) ** (3 - right) * (found.low <= (0.5 + p) / 2 <= found.high)
    assert held >= 0.92


def test_many_members_that_are_all_right_hardly_go_wrong_together() -> None:
    found, whole = of_means([of_counts(10, 10)] * 57), of_counts(570, 570)
    assert 1 - found.low == pytest.approx(1 - whole.low, rel=0.15)


def test_members_of_weight_zero_do_not_count_and_levels_nest() -> None:
    members = [of_counts(40, 50), of_counts(3, 3)]
    alone = of_means(members, np.array([1.0, 0.0]))
    assert (alone.low, alone.high) == pytest.approx((members[0].low, members[0].high), abs=0.01)
    ends = [of_means(members, level=level) for level in (0.8, 0.9, 0.99)]
    assert [e.low for e in ends] == sorted((e.low for e in ends), reverse=True)


def test_scores_in_clusters_are_worth_fewer_docs() -> None:
    values = np.repeat([1.0, 1, 1, 0, 1, 1], 20)
    apart = of_means([mean_estimate(values), of_counts(50, 100)])
    together = of_means([mean_estimate(values, np.repeat(np.arange(6), 20)), of_counts(50, 100)])
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_skewness_of_members_reaches_their_mean() -> None:
    values = np.array([1.0, 2, 1, 3, 2, 1, 2, 2, 1, 1, 3, 2, 5, 9, 20])
    found = of_means([mean_estimate(values)] * 3)
    assert found.high - found.value > 1.1 * (found.value - found.low)
    assert 0 < found.skew < mean_estimate(values).skew


def test_a_far_end_of_a_member_reaches_their_mean() -> None:
    heavy = mean_estimate(np.exp(2 * np.random.default_rng(3).standard_normal(50)))
    assert heavy.caution
    found = of_means([heavy, mean_estimate(np.arange(50.0) / 50)])
    assert found.high - found.value >= 0.49 * (heavy.high - heavy.value)


def test_intervals_of_scores_keep_their_shape_at_another_level() -> None:
    for right, docs in ((9, 10), (27, 30), (1, 40)):
        assert rescaled(of_counts(right, docs), 0.9) == pytest.approx(wilson(right, docs, level=0.9), abs=1e-9)


@pytest.mark.parametrize("value", [1 + 2.3e-16, -2.3e-16])
@pytest.mark.filterwarnings("error")
def test_a_member_whose_sum_was_rounded_past_an_end_counts_as_being_there(value: float) -> None:
    """A judge's corrected mean is a sum of parts."""
    other = Estimate(0.5, 0.05, 0.4, 0.6, 100, "judged", bounded=True, df=30)

    def group(first: float) -> Estimate:
        low, high = (0.7, 1.0) if first > 0.5 else (0.0, 0.3)
        member = Estimate(first, 0.02, low, high, 50, "judged", bounded=True, df=30)
        return combined_estimate((first + 0.5) / 2, [member, other], np.array([0.5, 0.5]), 150)

    found, exact = group(value), group(round(value))
    assert (found.low, found.high) == (exact.low, exact.high)
