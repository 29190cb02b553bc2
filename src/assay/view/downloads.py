"""“Download what I see”: the rows of a page as CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assay.results import METRIC_COLUMN, RunResult
from assay.show import score_table, table_data
from assay.terminal_text import csv_cell
from assay.view.cells import read_cell
from assay.view.library import RunSummary
from assay.view.notes import Note
from assay.view.prompts import requests_of

FORMATS = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson; charset=utf-8"}


def encode(rows: Iterable[Mapping[str, Any]], form: str) -> Iterator[bytes]:
    """Rows as lines, one after the other: a download may be larger than memory."""
    return _csv(rows) if form == "csv" else _jsonl(rows)


def _jsonl(rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    for row in rows:
        yield (json.dumps(row, ensure_ascii=False, default=str) + "\n").encode("utf-8", "replace")


def _csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    names: list[str] | None = None
    for row in rows:
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\r\n")
        if names is None:
            names = list(row)
            writer.writerow(map(csv_cell, names))
        writer.writerow([csv_cell(row.get(name)) for name in names])
        yield buffer.getvalue().encode("utf-8", "replace")


def run_list(summaries: Iterable[RunSummary]) -> Iterator[dict[str, Any]]:
    for s in summaries:
        yield {
            "id": s.id,
            "run": s.name,
            "model": s.model,
            "date": s.date,
            "status": s.status,
            "seconds": s.seconds,
            "samples": s.samples,
            "tasks": list(s.tasks),
            "scores": {f"{row.alias} {row.key}": row.estimate.value for row in s.headline},
        }


def score_rows(result: RunResult) -> Iterator[dict[str, Any]]:
    """The numbers of a run, as every file of them has them."""
    return (row for row in table_data(score_table(result)) if row["metric"])


def sample_rows(rows: Iterable[Mapping[str, Any]], notes: Mapping[int, Note] | None = None) -> Iterator[dict[str, Any]]:
    """Samples with their JSON columns as values, and the prompts written out; with what people noted, if they did."""
    for row in rows:
        note = (notes or {}).get(row["doc_id"])
        said = {"tags": list(note.tags) if note else [], "note": note.note if note else ""}
        yield {
            "doc_id": row["doc_id"],
            "filter": row["filter"],
            **{
                name.removeprefix(METRIC_COLUMN): value for name, value in row.items() if name.startswith(METRIC_COLUMN)
            },
            "flags": row.get("flags") or [],
            **(said if notes else {}),
            **{name: read_cell(row.get(name), None) for name in ("target", "filtered_resps", "resps", "extras", "doc")},
            "arguments": requests_of(row, as_logged=True),
            "doc_hash": row["doc_hash"],
            "request_hash": row["request_hash"],
        }
