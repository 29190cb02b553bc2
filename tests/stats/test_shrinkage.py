"""Many small tasks, drawn towards each other as far as they are alike."""

from __future__ import annotations

import numpy as np
import pytest

from assay.stats import mean_estimate, shrunken


@pytest.mark.parametrize(("middle", "spread"), [(0.7, 0.05), (0.7, 0.15), (0.9, 0.05), (0.5, 0.25)])
def test_shrunken_scores_are_nearer_and_hold_on_average(middle: float, spread: float) -> None:
    rng, held, near, raw = np.random.default_rng(0), [], [], []
    size = middle * (1 - middle) / spread**2 - 1
    for _ in range(40):
        truth = rng.beta(middle * size, (1 - middle) * size, 57)
        tasks = [mean_estimate((rng.random(20) < p).astype(float)) for p in truth]
        found = shrunken(tasks)
        assert found is not None
        held += [each.low <= p <= each.high for each, p in zip(found, truth, strict=True)]
        near += [(each.value - p) ** 2 for each, p in zip(found, truth, strict=True)]
        raw += [(each.value - p) ** 2 for each, p in zip(tasks, truth, strict=True)]
    assert np.mean(held) > 0.93
    assert np.mean(near) < np.mean(raw)


def test_few_tasks_and_other_numbers_are_left_as_they_are() -> None:
    task = mean_estimate([1.0, 0.0, 1.0])
    assert shrunken([task] * 9) is None
    assert shrunken([task] * 10) is not None
    assert shrunken([*[task] * 10, mean_estimate([3.0, 7.0])]) is None
