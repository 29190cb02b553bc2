"""Whose run is it? Finds out by what lies in the directory, and reads it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.comparison.runs import Columns, ComparedRun, RunReader
from assay.errors import ConfigError
from assay.registry import Registry
from assay.results import RunResult

LM_EVAL = "lm-evaluation-harness"

RUN_READERS = Registry[RunReader](
    "run reader",
    group="assay.run_readers",
    lazy={
        "assay": "assay.comparison.read_assay:READER",
        "inspect": "assay.compat.inspect_ai:READER",
        "lighteval": "assay.compat.lighteval:READER",
        LM_EVAL: "assay.compat.lm_eval.run_files:READER",
    },
)
"""Formats of runs, by the harness that writes them. The first that finds its files reads them."""


def open_run(path: str | Path) -> ComparedRun:
    """A run directory of ours, or what lm-evaluation-harness, lighteval or inspect wrote (also a single file of theirs)."""
    where = Path(path)
    if not where.exists():
        raise ConfigError(f"{path} does not exist", hint="Use the directory of a finished run.")
    for name in RUN_READERS:
        reader = RUN_READERS.get_installed(name)
        if reader is not None and reader.finds(where):
            return reader.read(where)
    raise ConfigError(
        f"{path} contains no run that can be read",
        hint="Known: run directories of Assay, results and samples of lm-evaluation-harness, details of lighteval (Parquet), .eval logs of inspect.",
    )


def open_results(data: Mapping[str, Any], path: Path) -> ComparedRun:
    """A results file by itself, of ours or of lm-evaluation-harness: scores and standard errors, no docs."""

    def no_columns(task: str) -> Columns:
        raise ConfigError(f"{path} has no samples")

    if "assay" in data:
        result = RunResult.from_dict(data)
    else:
        from_results = RUN_READERS[LM_EVAL].from_results
        assert from_results is not None
        result = from_results(data)
    return ComparedRun(result, path, (), no_columns, format="results")
