"""Interval methods are registry rows: which one holds, one from outside, one that a task names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import assay
from assay.errors import UnknownName
from assay.metrics import AGGREGATIONS
from assay.results import MetricKey
from assay.scoring import estimate
from assay.stats import INTERVAL_METHODS, Basis, Estimate, IntervalMethod
from assay.stats.intervals import methods_of


def made(
    values: list[float], aggregation: str = "mean", clusters: list[int] | None = None, **changes: str | None
) -> Estimate:
    keys = np.arange(len(values), dtype=np.uint64)
    return estimate(values, replace(AGGREGATIONS[aggregation], **changes), keys, clusters).estimate


def whole(evidence: object, level: float) -> Estimate:
    return Estimate(0.5, 0.1, 0.0, 1.0, 4, "whole", level=level)


@pytest.fixture
def add() -> Iterator[object]:
    """Rows that are gone when the test is."""
    before = dict(INTERVAL_METHODS._entries)
    yield lambda row: INTERVAL_METHODS.add(row.name, row)
    INTERVAL_METHODS._entries = before


@pytest.mark.parametrize("kind", ["docs", "children"])
def test_ranks_decide_without_ties(kind: str) -> None:
    ranks = [row.rank for row in methods_of(kind)]
    assert ranks == sorted(set(ranks))
    assert all(row.when for row in methods_of(kind))


@pytest.mark.parametrize(
    ("values", "aggregation", "clusters", "method", "basis"),
    [
        ([0, 1, 1, 0], "mean", None, "wilson", Basis.COUNTS),
        ([0, 1, 1, 0], "mean", [1, 1, 2, 2], "clustered score", Basis.DOCS),
        ([0.5, 1, 0.2, 0], "mean", None, "score", Basis.DOCS),
        ([5, -1, 0.2, 0], "mean", None, "t", Basis.DOCS),
        ([5, -1, 0.2, 0], "median", None, "bootstrap", Basis.DOCS),
        ([-1.0, -2.0, -1.5], "perplexity", None, "t", Basis.DOCS),
    ],
)
def test_the_first_method_that_holds(
    values: list[float], aggregation: str, clusters: list[int] | None, method: str, basis: Basis
) -> None:
    found = made(values, aggregation, clusters)
    assert (found.method, found.basis) == (method, basis)


def test_a_method_from_outside_applies_by_its_condition(add) -> None:
    add(IntervalMethod("whole", "few docs", lambda evidence: evidence.n < 5, whole))
    assert made([0, 1, 1, 0]).method == "whole"
    assert made([0, 1, 1, 0, 1]).method == "wilson"
    assert not made([0, 1, 1, 0]).is_recomputable


def test_one_cluster_has_no_interval_and_says_so() -> None:
    found = made([0, 1, 1], clusters=[1, 1, 1])
    assert (found.withheld_reason, found.basis) == ("one cluster", Basis.DOCS)


@pytest.mark.parametrize(
    ("method", "recomputable"), [(None, True), ("wilson", True), ("bootstrap", False), ("score", False)]
)
def test_only_the_method_that_would_be_chosen_can_be_recomputed_from_the_docs(
    method: str | None, recomputable: bool
) -> None:
    found = made([0, 1, 1, 0], interval=method)
    assert found.is_recomputable is recomputable
    assert Estimate.from_dict(found.to_dict()).is_recomputable is recomputable


def test_a_method_from_outside_applies_where_it_is_named(add) -> None:
    add(IntervalMethod("whole", "never by itself", lambda evidence: evidence.n < 5, whole, rank=200))
    assert made([0, 1, 1, 0]).method == "wilson"
    assert made([0, 1, 1, 0], interval="whole").method == "whole"
    withheld = made([0, 1, 1, 0, 1], interval="whole")
    assert withheld.low is None
    assert "never by itself" in withheld.withheld_reason


def test_a_task_names_the_method_of_a_metric(add, tmp_path: Path) -> None:
    task = {
        "task": "sums",
        "output_type": "generate_until",
        "custom_dataset": lambda **_: {"test": [{"q": str(i), "a": "x"} for i in range(4)]},
        "test_split": "test",
        "doc_to_text": "q",
        "doc_to_target": "a",
        "metric_list": [{"metric": "exact_match", "interval": "whole"}],
    }
    with pytest.raises(UnknownName, match="whole"):
        assay.evaluate(model="dummy", tasks=[task], store=str(tmp_path / "s"))
    add(IntervalMethod("whole", "named", lambda evidence: True, whole, rank=200))
    result = assay.evaluate(model="dummy", tasks=[task], store=str(tmp_path / "s"))
    assert result["sums"].scores[MetricKey("exact_match")].estimate.method == "whole"


@pytest.mark.parametrize("basis", [basis for basis in Basis if basis not in (Basis.DOCS, Basis.OTHER)])
def test_what_code_branches_on_survives_the_file(basis: Basis) -> None:
    found = Estimate(0.5, 0.1, 0.3, 0.7, 9, basis.value, basis=basis)
    assert "basis" not in found.to_dict()
    assert Estimate.from_dict(found.to_dict()).basis is basis
    assert Estimate.from_dict({**found.to_dict(), "method": f"{basis.value} (assay, from samples)"}).basis is basis


def test_why_there_is_no_interval_survives_the_file() -> None:
    bare = Estimate.bare(0.5, 9, "no interval: the docs do not say")
    assert bare.withheld_reason == "the docs do not say"
    assert Estimate.from_dict(bare.to_dict()).withheld_reason == "the docs do not say"
    assert Estimate.from_dict(Estimate.missing("no docs").to_dict()).withheld_reason is None
