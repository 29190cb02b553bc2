"""Plans for a comparison without runs: 80 % are found where 80 % are promised."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.analyses.power import PowerOptions, plan_without_runs
from assay.stats import mcnemar, wilson


@pytest.mark.parametrize(("accuracy", "effect", "correlation"), [(0.9, 0.05, 0.5), (0.95, 0.05, 0.5), (0.7, 0.1, 0.3)])
def test_a_plan_without_runs_finds_what_it_promises(accuracy: float, effect: float, correlation: float) -> None:
    """With A's own p(1 − p) for both runs, 27 to 36 % were missed where B is worse."""
    wish = PowerOptions(effect=effect, accuracy=accuracy, correlation=correlation)
    n, other = plan_without_runs("t", None, wish).needed, accuracy - effect
    both = accuracy * other + correlation * math.sqrt(accuracy * (1 - accuracy) * other * (1 - other))
    chances = [other - both, accuracy - both, 1 - accuracy - other + 2 * both]
    won, lost, _ = np.random.default_rng(0).multinomial(n, chances, 500).T
    missed = sum(not mcnemar(int(up), int(down)) < 0.05 for up, down in zip(won, lost, strict=True))
    assert wilson(missed, 500, level=0.99)[0] < 0.2
