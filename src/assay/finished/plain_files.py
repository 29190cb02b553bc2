"""Plain tables of all samples: CSV, JSONL and Parquet."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from assay.finished.formats import RunFormat
from assay.finished.jsonl import file_name, sample_objects, write_jsonl
from assay.finished.own import sample_rows, write_sample_file
from assay.finished.run import Run
from assay.results import to_pandas, unpack_arguments
from assay.terminal_text import csv_cell


def to_jsonl(run: Run, folder: Path) -> list[Path]:
    """One file a task, one object a doc and filter, as lm-evaluation-harness has them."""
    return [write_jsonl(folder / f"{file_name(task)}.jsonl", sample_objects(run, task)) for task in run.tasks]


def to_csv(run: Run, folder: Path) -> list[Path]:
    """One row a doc and filter; texts as JSON."""
    written = []
    for task in run.tasks:
        path = folder / f"{file_name(task)}.csv"
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as out:
            writer = None
            for row in sample_rows(run, task):
                row["flags"] = " ".join(row["flags"] or ())
                row["arguments"] = json.dumps(unpack_arguments(row["arguments"]), ensure_ascii=False)
                if writer is None:
                    writer = csv.writer(out)
                    writer.writerow(map(csv_cell, row))
                writer.writerow(map(csv_cell, row.values()))
        written.append(path)
    return written


def to_parquet(run: Run, folder: Path) -> list[Path]:
    """`scores.parquet` with one row a number, and the samples of each task as a run directory has them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    scores = folder / "scores.parquet"
    pq.write_table(pa.Table.from_pandas(to_pandas(run.result), preserve_index=False), scores)
    return [
        scores,
        *(write_sample_file(run, task, folder / f"samples_{file_name(task)}.parquet") for task in run.tasks),
    ]


CSV, JSONL = (RunFormat(write=write, needs=("samples",)) for write in (to_csv, to_jsonl))
PARQUET = RunFormat(write=to_parquet)
