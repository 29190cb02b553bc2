"""A run scored again, as results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.report.jsonl import write_sample_files
from assay.report.results import Results
from assay.report.schema import results_dict
from assay.run import LAYOUT, Progress, RunDirectory, rescore


def rescored(
    run: str | Path,
    changes: dict[str, Any] | None = None,
    *,
    run_dir: str | Path | None = None,
    log_samples: bool = False,
    progress: Progress | None = None,
) -> Results:
    """Score a run directory again; `changes` are fields of its config to replace. Kept in `run_dir` if one is given."""
    source = RunDirectory.open(run)
    recorded = (source.read_json("run.json") or {})["config"]
    try:
        config = RunConfig(**{**recorded, "run_dir": None, "output_path": None, **(changes or {})})
    except ValidationError as error:
        raise ConfigError(f"{source.path}/run.json: {error.errors()[0]['msg']}") from error
    target = None
    if run_dir is not None:
        if Path(run_dir).resolve() == source.path.resolve():
            raise ConfigError("--run_dir is the run itself", hint="Give another directory: a run is never overwritten.")
        target = RunDirectory.create(config.model_copy(update={"run_dir": str(run_dir)}), "")
    outcome = rescore(source, config, target=target, progress=progress)
    results = Results(results_dict(outcome), target)
    if target is not None:
        run_file = source.read_json("run.json") or {}
        target.write_json("run.json", {**run_file, "format": LAYOUT, "config": config.model_dump(mode="json"), "date": time.time(), "rescored_from": str(source.path)})  # fmt: skip
        target.write_json("results.json", results.data)
        if log_samples:
            write_sample_files(target, list(outcome.tasks))
    return results
