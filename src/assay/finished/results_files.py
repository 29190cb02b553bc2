"""A results file by itself, of ours or of lm-evaluation-harness: scores and standard errors, no docs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.finished.lm_eval.results import to_run_result
from assay.finished.run import Run, without_samples
from assay.results import RunResult


def open_results(data: Mapping[str, Any], path: Path) -> Run:
    """The run of a parsed results file."""
    result = RunResult.from_dict(data) if "assay" in data else to_run_result(data)
    why = "A results file has scores alone; use the directory of the run."
    return Run(result, path, (), format="results", lacks=without_samples(why))
