"""Which step decided: intervals that hold together, held against the truth by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from assay.analyses.explain.branches import first_apart, tell_apart
from assay.finished import DocColumn
from assay.results import MetricKey


def columns(chances: list[float], docs: int, draws: int, rng: np.random.Generator) -> dict[int, DocColumn]:
    """Docs of unequal difficulty; later steps have fewer of them."""
    ease = rng.normal(0, 1, docs)
    made = {}
    for step, chance in enumerate(chances, 1):
        there = docs - 2 * (step - 1)
        right = 1 / (1 + np.exp(-(np.log(chance / (1 - chance)) + ease[:there])))
        values = rng.binomial(draws, right) / draws
        ids = np.arange(there, dtype=np.int64)
        made[step] = DocColumn(MetricKey("m", "none"), ids.astype(np.uint64), None, values, ids)
    return made


@pytest.mark.parametrize("draws", [1, 8])
def test_a_step_is_seldom_named_where_none_decides(draws: int) -> None:
    rng = np.random.default_rng(5)
    named = sum(first_apart(tell_apart(columns([0.5] * 6, 30, draws, rng))) is not None for _ in range(150))
    assert named <= 15  # 7.5 expected at most, of 150


def test_the_step_that_decides_is_found_and_none_before_it() -> None:
    rng = np.random.default_rng(6)
    found = [first_apart(tell_apart(columns([0.6, 0.6, 0.6, 0.1, 0.1], 40, 8, rng))) for _ in range(60)]
    assert found.count(4) >= 54
    assert sum(each in (2, 3) for each in found) <= 6


def test_docs_without_the_step_count_for_neither_side() -> None:
    ids = np.arange(4, dtype=np.int64)
    key = MetricKey("m", "none")
    first = DocColumn(key, ids.astype(np.uint64), None, np.array([0.0, 0.0, 1.0, 1.0]), ids)
    second = DocColumn(key, ids[2:].astype(np.uint64), None, np.array([1.0, 1.0]), ids[2:])
    (_, step) = tell_apart({1: first, 2: second})
    assert (step.estimate.value, step.docs) == (1.0, 2)
    assert step.difference is not None
    assert step.difference.value == 0.0


def test_without_a_first_step_there_is_nothing_to_tell() -> None:
    assert tell_apart({}) == ()
