"""A run in the files of lm-evaluation-harness."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from assay.report import file_name, sample_files, sample_objects, write_jsonl
from assay.results import RunResult, sanitize, write_whole


def to_lm_eval(result: RunResult, folder: Path) -> list[Path]:
    """`<model>/results_<date>.json` and `samples_<task>_<date>.jsonl`, as that harness names them."""
    stamp = datetime.fromtimestamp(result.date, UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
    folder = folder / sanitize(result.model_name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_{stamp}.json"
    write_whole(path, result.to_json().encode("utf-8", "surrogatepass"))
    samples = [(folder / f"samples_{file_name(task)}_{stamp}.jsonl", file) for task, file in sample_files(result)]
    return [path, *(write_jsonl(target, sample_objects(file)) for target, file in samples)]
