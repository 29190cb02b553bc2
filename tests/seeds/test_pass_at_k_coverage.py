"""pass@k of a group whose tasks drew unequally often: its 95 % interval covers the truth as often as it says."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest

from assay.groups import GroupManager
from assay.metrics import AGGREGATIONS
from assay.results import MetricKey
from assay.scoring import estimate

RUNS = 600
K = 3
TASKS = {"few_draws": (60, 0.25, 3, 5), "many_draws": (150, 0.6, 20, 21), "mixed_draws": (90, 0.8, 3, 30)}
"""Docs, mean chance, and the range of the number of draws of a problem."""


class Leaf:
    def __init__(self, name: str) -> None:
        self.task_name, self.groups, self.tags = name, [], []


def truth() -> float:
    """E[1 − (1−X)³] of each task's Beta, weighted by docs."""

    def chance(p: float) -> float:
        a, b = 2 * p, 2 * (1 - p)
        return 1 - b * (b + 1) * (b + 2) / ((a + b) * (a + b + 1) * (a + b + 2))

    return sum(n * chance(p) for n, p, *_ in TASKS.values()) / sum(n for n, *_ in TASKS.values())


def group(**entry: Any) -> GroupManager:
    manager = GroupManager()
    for name in TASKS:
        manager.register_task(Leaf(name))  # type: ignore[arg-type]
    listed = {"metric": f"pass@{K}", "aggregation": "pass@k", **entry}
    manager.build_hierarchy({"g": {"group": "g", "task": list(TASKS), "aggregate_metric_list": [listed]}})
    return manager


def one_run(rng: np.random.Generator) -> dict[str, Any]:
    scores = {}
    for name, (docs, p, fewest, most) in TASKS.items():
        draws = rng.integers(fewest, most, docs)
        right = rng.binomial(draws, rng.beta(2 * p, 2 * (1 - p), docs))
        keys = rng.integers(0, 2**63, docs, dtype=np.uint64)
        shares = (right / draws).tolist()
        counts = list(zip(draws.tolist(), right.tolist()))
        scores[name] = {MetricKey("exact_match"): estimate(shares, AGGREGATIONS["mean"], keys, counts=counts)}
    return scores


@pytest.mark.parametrize("entry", [{}, {"kwargs": {"of": "exact_match"}}], ids=["by size", "named"])
def test_intervals_of_pass_at_k_cover_where_draws_are_unequal(entry: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    manager, true, hits, values = group(**entry), truth(), 0, []
    for _ in range(RUNS):
        (score,) = manager.score_groups(one_run(rng))["g"].values()
        found = score.estimate
        assert found.value is not None
        assert found.low is not None
        assert found.high is not None
        values.append(found.value)
        hits += found.low <= true <= found.high
    assert np.mean(values) == pytest.approx(true, abs=4 * np.std(values) / RUNS**0.5)
    # Three standard deviations of a binomial of 600 runs: 2.7 points.
    assert 0.923 <= hits / RUNS <= 0.977


def test_the_number_of_one_problem_is_worked_out_by_hand() -> None:
    manager = GroupManager()
    manager.register_task(Leaf("t"))  # type: ignore[arg-type]
    entry = {"metric": "pass@2", "aggregation": "pass@k"}
    manager.build_hierarchy({"g": {"group": "g", "task": ["t"], "aggregate_metric_list": [entry]}})
    keys = np.arange(2, dtype=np.uint64)
    score = estimate([0.25, 0.5], AGGREGATIONS["mean"], keys, counts=[(4, 1), (6, 3)])
    (found,) = manager.score_groups({"t": {MetricKey("exact_match"): score}})["g"].values()
    assert found.estimate.value == pytest.approx(((1 - comb(3, 2) / comb(4, 2)) + (1 - comb(3, 2) / comb(6, 2))) / 2)
