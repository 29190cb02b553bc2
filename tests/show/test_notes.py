"""The notes column: nothing stays blank without a reason."""

from __future__ import annotations

import pytest

from assay.results import Health, MetricKey, RunResult, Score, TaskResult
from assay.show import result_text, run_findings
from assay.stats import Estimate


def result_with(estimate: Estimate) -> RunResult:
    task = TaskResult("t", "t", {MetricKey("acc", "none"): Score(estimate, estimate.n)}, health=Health(docs=estimate.n))
    return RunResult({"t": task}, {}, roots=("t",))


@pytest.mark.parametrize(
    "table",
    [
        lambda result: run_findings(result).to_csv(),
        lambda result: run_findings(result).to_markdown().replace("\\", ""),
        lambda result: result_text(result, width=200),
    ],
)
def test_a_number_without_an_interval_says_why_in_every_table(table) -> None:  # type: ignore[no-untyped-def]
    assert "no interval: one doc" in table(result_with(Estimate.bare(1.0, 1, "one doc")))
    gap = "undefined in 30% of the replicates; in the others [0.2000, 0.7000]"
    assert f"no interval: {gap}" in table(result_with(Estimate.bare(0.5, 6, gap)))


def test_an_undefined_number_has_its_own_reason_alone() -> None:
    text = run_findings(result_with(Estimate.missing("no docs"))).to_markdown()
    assert "no docs" in text
    assert "no interval" not in text
