"""From collected values to scores."""

from __future__ import annotations

import numpy as np
import pytest

from assay.metrics import AGGREGATIONS, Aggregation
from assay.results import DocIds, Numbers
from assay.run.task_scores import places_of
from assay.scoring import estimate


@pytest.mark.parametrize(
    ("asked", "scored"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3]),
        ([0, 1, 2, 3], [1, 3]),
        ([4, 5, 6], [5, 6]),
        ([7, 2, 9, 0], [0, 2, 7, 9]),
        ([7, 2, 9, 0], [2, 9]),
        ([], []),
    ],
)
def test_docs_that_have_a_value_are_found_among_those_that_were_asked(asked: list[int], scored: list[int]) -> None:
    keys = np.array(asked, dtype=np.uint64) * 10
    assert keys[places_of(DocIds(scored), DocIds(asked))].tolist() == [10 * doc_id for doc_id in scored]


@pytest.mark.parametrize("name", ["mean", "nanmean", "median", "perplexity"])
@pytest.mark.parametrize("values", [[0.0, 1.0, 1.0] * 2000, [0.1 * i for i in range(5000)]], ids=["counts", "numbers"])
def test_values_in_blocks_give_the_estimate_of_a_list(name: str, values: list[float]) -> None:
    keys = np.arange(len(values), dtype=np.uint64)
    blocks: Numbers[float] = Numbers("d", values)
    found = estimate(blocks, AGGREGATIONS[name], keys, bootstrap_iters=100)
    assert found.estimate == estimate(values, AGGREGATIONS[name], keys, bootstrap_iters=100).estimate
    assert found.bounds(0.8) == estimate(values, AGGREGATIONS[name], keys, bootstrap_iters=100).bounds(0.8)


def test_an_aggregation_of_a_task_gets_a_list() -> None:
    own = Aggregation("own", lambda values: values.count(1.0) if isinstance(values, list) else -1)
    keys = np.arange(3, dtype=np.uint64)
    assert estimate(Numbers("d", [1.0, 0.0, 1.0]), own, keys, bootstrap_iters=4).estimate.value == 2
