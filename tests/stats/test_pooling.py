"""Group standard errors: the cases other harnesses are known to get wrong."""

import math

import numpy as np
import pytest

from assay.stats import combined_estimate, mean_estimate, mean_stderr, pooled_stderr, unweighted_stderr

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
