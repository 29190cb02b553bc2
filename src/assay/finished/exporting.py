"""Runs in the files of other harnesses, or as plain CSV and JSONL of all samples, and theirs as runs of ours."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.finished.jsonl import file_name, sample_objects, write_jsonl
from assay.registry import Registry
from assay.results import RunResult, read_samples, to_pandas, unpack_arguments
from assay.terminal_text import csv_cell


def export_run(run: str | Path, to: str, output: str | Path, **words: Any) -> list[Path]:
    """Writes the run in the named format to `output` and returns the files. `words` are what that format needs."""
    result = RunResult.load(run)
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return EXPORTS[to](result, folder, **words)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror or error}", hint="Choose another directory with -o."
        ) from error


def to_jsonl(result: RunResult, folder: Path) -> list[Path]:
    return [
        write_jsonl(folder / f"{file_name(task)}.jsonl", sample_objects(file)) for task, file in sample_files(result)
    ]


def to_csv(result: RunResult, folder: Path) -> list[Path]:
    """One row a doc and filter; texts as JSON."""
    written = []
    for task, file in sample_files(result):
        path = folder / f"{file_name(task)}.csv"
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as out:
            writer = None
            for row in read_samples(file):
                row["flags"] = " ".join(row["flags"] or ())
                row["arguments"] = json.dumps(unpack_arguments(row["arguments"]), ensure_ascii=False)
                if writer is None:
                    writer = csv.writer(out)
                    writer.writerow(map(csv_cell, row))
                writer.writerow(map(csv_cell, row.values()))
        written.append(path)
    return written


def to_parquet(result: RunResult, folder: Path) -> list[Path]:
    """`scores.parquet` with one row a number, and the samples of each task as the run keeps them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pandas(to_pandas(result), preserve_index=False), folder / "scores.parquet")
    samples = [folder / f"samples_{file_name(task)}.parquet" for task, _ in sample_files(result)]
    for (_, file), path in zip(sample_files(result), samples):
        shutil.copyfile(file, path)
    return [folder / "scores.parquet", *samples]


def sample_files(result: RunResult) -> Iterator[tuple[str, Path]]:
    assert result.path is not None
    for name, task in result.tasks.items():
        if task.sample_file is not None:
            yield name, result.path / task.sample_file


EXPORTS: Registry[Callable[..., list[Path]]] = Registry(
    "form to export to",
    group="assay.exports",
    lazy={
        "lm-eval": "assay.finished.lm_eval.run_files:to_lm_eval",
        "inspect": "assay.finished.inspect_ai:to_inspect",
        "csv": "assay.finished.exporting:to_csv",
        "jsonl": "assay.finished.exporting:to_jsonl",
        "parquet": "assay.finished.exporting:to_parquet",
        "eval-results": "assay.finished.publishing:to_eval_results",
        "model-card": "assay.finished.publishing:to_model_card",
        "eee": "assay.finished.publishing:to_every_eval_ever",
    },
)
"""Form to a function `(result, folder)` that writes it there."""

RUN_IMPORTERS: Registry[Callable[[str | Path, str | Path], RunResult]] = Registry(
    "importer", group="assay.run_importers", lazy={"lm_eval": "assay.finished.lm_eval.results:import_lm_eval"}
)
"""Harness to a function `(its directory, the directory of the run to be made)`."""
