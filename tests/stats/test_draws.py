"""pass^k beyond the draws, its forecast, and budgets of docs and draws, against the truth by simulation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from assay.stats import beta_model, forecast, power_bounds, right_in_all, splits

Rng = np.random.Generator
SPREADS: dict[str, tuple[Callable[[Rng, int], np.ndarray], Callable[[int], float]]] = {
    "two kinds": (lambda rng, n: np.where(rng.random(n) < 0.5, 0.9, 0.3), lambda k: (0.9**k + 0.3**k) / 2),
    "all alike": (lambda rng, n: np.full(n, 0.8), lambda k: 0.8**k),
    "never or always": (lambda rng, n: (rng.random(n) < 0.4).astype(float), lambda k: 0.4),
    "uniform": (lambda rng, n: rng.random(n), lambda k: 1 / (k + 1)),
}


@pytest.mark.parametrize("name", SPREADS)
def test_bounds_hold_the_truth_whatever_the_spread(name: str) -> None:
    draw, truth = SPREADS[name]
    rng, n, held = np.random.default_rng(3), np.full(60, 4), 0
    for _ in range(40):
        low, high = power_bounds(n, rng.binomial(n, draw(rng, 60)), 8)
        held += low <= truth(8) <= high
    assert held >= 38


def test_bounds_narrow_with_docs_and_with_draws() -> None:
    rng = np.random.default_rng(4)
    widths = []
    for docs, draws in ((60, 4), (600, 4), (600, 8)):
        n = np.full(docs, draws)
        low, high = power_bounds(n, rng.binomial(n, rng.random(docs)), 10)
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]


def test_the_model_forecasts_what_it_is_true_of_and_is_withheld_where_it_is_not() -> None:
    rng, n = np.random.default_rng(5), np.full(200, 4)
    held = shown = rejected = 0
    for seed in range(60):
        keys = np.arange(200, dtype=np.uint64) + np.uint64(1_000_003 * seed)
        c = rng.binomial(n, rng.beta(0.8, 0.8, 200))
        model = beta_model(n, c)
        assert model is not None
        if not model.is_rejected:
            found = forecast(n, c, 8, model, keys)
            assert found.low is not None
            assert found.high is not None
            shown += 1
            held += found.low <= np.prod([(0.8 + j) / (1.6 + j) for j in range(8)]) <= found.high
        other = beta_model(n, rng.binomial(n, SPREADS["two kinds"][0](rng, 200)))
        assert other is not None
        rejected += other.is_rejected
    assert held / shown > 0.85
    assert shown > 36
    assert rejected > 30
    assert forecast(n, c, 8, type(model)(0.5, 0.1, p_value=0.01), keys).undefined


def test_docs_drawn_twice_have_no_model_that_could_be_checked() -> None:
    assert beta_model(np.full(50, 2), np.full(50, 1)) is None


def test_errors_of_a_split_are_those_of_runs_that_were_made_so() -> None:
    rng, docs, k = np.random.default_rng(6), 400, 2
    n = np.full(docs, 8)
    plans = {each.draws: each for each in splits(n, rng.binomial(n, rng.beta(1, 1, docs)), 240, k, None)}
    assert plans[1].power is None
    for draws in (2, 4):
        of_mean, of_power = [], []
        many = np.full(plans[draws].docs, draws)
        for _ in range(400):
            c = rng.binomial(many, rng.beta(1, 1, len(many)))
            of_mean.append((c / many).mean())
            of_power.append(right_in_all(many, c, k).mean())
        assert plans[draws].mean == pytest.approx(np.std(of_mean), rel=0.15)
        assert plans[draws].power == pytest.approx(np.std(of_power), rel=0.15)


def test_docs_that_cannot_be_had_become_draws() -> None:
    n = np.full(20, 4)
    c = np.arange(20) % 5
    assert [(each.draws, each.docs) for each in splits(n, c, 80, 1, None, most=20)][:3] == [(1, 20), (2, 20), (4, 20)]
