"""Results without a run directory, and runs under the names of lm-evaluation-harness."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

import assay
from assay.finished import open_run, open_runs


def test_results_without_a_directory_can_be_compared_and_read_while_they_are_held() -> None:
    a = assay.evaluate(model="dummy", tasks=["demo_agreement"], limit=20)
    b = assay.evaluate(model="dummy", model_args={"seed": 3}, tasks=["demo_agreement"], limit=20)
    assert a.path is None
    (row,) = assay.compare(a, b).rows
    by_scores = b["demo_agreement"]["acc"].value - a["demo_agreement"]["acc"].value
    assert row.difference.estimate.value == pytest.approx(by_scores)
    assert len(a.samples("demo_agreement")) == 20
    place = a.place
    assert place is not None
    assert place.is_dir()
    del a
    gc.collect()
    assert not place.exists()
    assert assay.evaluate(model="dummy", tasks=["demo_agreement"], limit=2, keep_samples=False).place is None


def test_a_result_shows_its_numbers() -> None:
    result = assay.evaluate(model="dummy", tasks=["demo_agreement", "demo_capitals"], limit=5)
    assert f"demo_agreement: acc,none {result['demo_agreement']['acc']}" in repr(result)
    assert "demo_capitals: " in repr(result)
    assert "demo_capitals_en" not in repr(result)


def test_globs_of_lm_evaluation_harness_find_the_results_of_an_output_path(tmp_path: Path) -> None:
    for seed in (1, 2):
        assay.evaluate(
            model="dummy",
            model_args={"seed": seed},
            tasks=["demo_agreement"],
            limit=4,
            output_path=str(tmp_path),
            log_samples=True,
        )
    results = sorted(tmp_path.glob("*/results_*.json"))
    assert len(results) == 2
    assert len([*tmp_path.glob("*/samples_demo_agreement_*.jsonl")]) == 2
    runs = [open_run(file) for file in results]
    assert [run.format for run in runs] == ["assay", "assay"]
    assert open_run(tmp_path).path == runs[1].path
    assert [run.path for run in open_runs(tmp_path)] == [run.path for run in runs]
    assert open_run(tmp_path / "dummy").path.resolve() == results[1].resolve().parent
