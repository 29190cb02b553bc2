"""Whose run is it? Finds out by what lies in the directory, and reads it."""

from __future__ import annotations

from pathlib import Path

from assay.comparison.read_assay import read_assay
from assay.comparison.read_inspect import find_logs, read_inspect
from assay.comparison.read_lighteval import find_details, read_lighteval
from assay.comparison.read_lm_eval import find_results, read_lm_eval, require_samples
from assay.comparison.views import RunView
from assay.errors import ConfigError


def open_run(path: str | Path) -> RunView:
    """A run directory of ours, or of lm-evaluation-harness, lighteval or inspect (also a single results or log file)."""
    where = Path(path)
    if not where.exists():
        raise ConfigError(f"{path} does not exist", hint="Give the directory of a finished run.")
    if (where / "run.json").is_file():
        return read_assay(where)
    if logs := find_logs(where):
        return read_inspect(logs, where)
    if (results := find_results(where)) is not None and results.suffix == ".json" and _is_lm_eval(results):
        return require_samples(read_lm_eval(results, where))
    if details := find_details(where):
        return read_lighteval(details, where)
    raise ConfigError(
        f"{path} holds no run that can be read",
        hint="Known: run directories of Assay, results and samples of lm-evaluation-harness, details of lighteval (Parquet), .eval logs of inspect.",
    )


def _is_lm_eval(results: Path) -> bool:
    """lighteval names its results alike, but they have `config_general` and no task configs beside the scores."""
    with open(results, encoding="utf-8", errors="replace") as file:
        return "config_general" not in file.read(4096)
