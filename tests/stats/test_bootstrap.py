"""The bootstrap at its edges, and where others are known to be wrong."""

import numpy as np
import pytest
from tests.stats.simulation import fresh_keys

from assay.stats import (
    B_DEFAULT,
    bootstrap_estimate,
    bootstrap_replicates,
    bootstrap_values,
    mean_stderr,
    poisson_weights,
)


def mean_of(sums: np.ndarray) -> np.ndarray:
    return sums[:, 0] / sums[:, 1]


def mean_draws(values: np.ndarray, keys: np.ndarray, **options: object) -> np.ndarray:
    return bootstrap_replicates(np.column_stack([values, np.ones(len(values))]), mean_of, keys, **options)


@pytest.mark.parametrize("iterations", [1000, 4000])
def test_spread_does_not_shrink_with_more_replicates(iterations: int) -> None:
    """lighteval divides by √iterations: 0.0008 at 1000 and 0.0004 at 4000 where the truth is 0.0251."""
    values = np.repeat([0.0, 1.0], 200)
    draws = mean_draws(values, fresh_keys(np.random.default_rng(1), 400), B=iterations)
    assert bootstrap_estimate(0.5, draws, 400).stderr == pytest.approx(mean_stderr(values), rel=0.08)


def test_sums_and_values_forms_agree() -> None:
    rng = np.random.default_rng(0)
    values, keys = rng.random(70), fresh_keys(rng, 70)
    by_values = bootstrap_values(values, lambda v, w: (w @ v) / w.sum(axis=1), keys, B=333, cells=1000)
    assert mean_draws(values, keys, B=333) == pytest.approx(by_values)


def test_paired_difference_is_a_subtraction_of_replicates() -> None:
    rng = np.random.default_rng(0)
    keys, a = fresh_keys(rng, 500), rng.random(500)
    b = a + rng.normal(0.02, 0.05, 500)
    spread = np.std(mean_draws(b, keys) - mean_draws(a, keys), ddof=1)
    assert spread == pytest.approx(mean_stderr(b - a), rel=0.1)


def test_order_of_docs_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    values, keys = rng.random(40), fresh_keys(rng, 40)
    order = rng.permutation(40)
    assert mean_draws(values, keys) == pytest.approx(mean_draws(values[order], keys[order]))


def test_nothing_to_draw_from() -> None:
    empty = np.empty(0, dtype=np.uint64)
    assert np.isnan(mean_draws(np.empty(0), empty)).all()
    assert bootstrap_estimate(0.5, np.empty(0), 10).method == "no replicates"
    assert bootstrap_values(np.ones(3), lambda v, w: w @ v, fresh_keys(np.random.default_rng(0), 3), B=0).size == 0


def test_one_doc_or_one_cluster_has_no_error_bar() -> None:
    draws = np.ones(B_DEFAULT)
    assert bootstrap_estimate(1.0, draws, 1).stderr is None
    assert bootstrap_estimate(1.0, draws, 10, units=1).method == "one cluster"


def test_rare_undefined_replicates_are_left_out_and_many_are_an_honest_gap() -> None:
    draws = np.linspace(0, 1, 1000)
    draws[:10] = np.nan
    some = bootstrap_estimate(0.5, draws, 50)
    assert some.stderr is not None
    assert some.caution == "undefined in 1% of the replicates, which are left out"
    draws[:200] = np.nan
    gap = bootstrap_estimate(0.5, draws, 50)
    assert gap.stderr is None
    assert gap.method.startswith("undefined in 20% of the replicates; in the others [0.2")
    draws[:980] = np.nan
    assert bootstrap_estimate(0.5, draws, 50).method == "undefined in 98% of the replicates"


def test_rows_must_match_docs() -> None:
    with pytest.raises(ValueError, match=r"\b3 rows.*\b2 docs"):
        bootstrap_replicates(np.ones((3, 1)), lambda s: s[:, 0], np.arange(2, dtype=np.uint64))


def test_duplicated_docs_count_as_one() -> None:
    """The same content has the same weight, so copying a data set does not halve its error."""
    rng = np.random.default_rng(0)
    keys, values = fresh_keys(rng, 300), rng.random(300)
    once, twice = mean_draws(values, keys), mean_draws(np.tile(values, 2), np.tile(keys, 2))
    assert once == pytest.approx(twice)
    assert poisson_weights(np.tile(keys, 2), 5).shape == (5, 600)
