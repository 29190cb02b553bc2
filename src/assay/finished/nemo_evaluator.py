"""Bundles of nemo-evaluator: `eval-<date>-<benchmark>.json` with the scores, and `results.jsonl` beside it with a line for each draw.

Repeats of a problem are draws of one doc. A line whose scoring ended in an error, the endpoint's or a tool's, is a failed
request; nemo-evaluator itself counts it with a reward of 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.finished.formats import RunFormat
from assay.finished.run import AnsweredDoc, Run, SentRequest, run_of_docs, timestamp
from assay.finished.trials import Trial, doc_of_trials, json_object, rows_by_doc
from assay.instance import Message

RESULTS = "results.jsonl"


def find_bundles(path: Path) -> list[Path]:
    """Bundles in a directory or below it, each beside its results."""
    if not path.is_dir():
        return []
    return [file for file in sorted(path.rglob("eval-*.json")) if file.is_file() and (file.parent / RESULTS).is_file()]


def read_bundles(path: Path) -> Run:
    """One bundle is one task; the newest of each benchmark counts."""
    bundles = {file: json_object(file.read_bytes(), str(file)) for file in find_bundles(path)}
    by_task: dict[str, Path] = {}
    for file in sorted(bundles, key=lambda each: str(bundles[each].get("timestamp", ""))):
        by_task[str((bundles[file].get("benchmark") or {}).get("name") or file.stem)] = file.parent / RESULTS
    first = bundles[next(iter(bundles))]
    model = (first.get("config") or {}).get("model")
    return run_of_docs(
        list(by_task),
        lambda task, ids: map(_doc, rows_by_doc(by_task[task], lambda row: int(row["problem_idx"]))),
        path=path,
        model=str(model.get("id") or model.get("name") if isinstance(model, Mapping) else model or ""),
        date=timestamp(str(first.get("timestamp", ""))),
        origin="nemo-evaluator",
        lacks=LACKS,
    )


def _doc(rows: list[dict[str, Any]]) -> AnsweredDoc:
    rows = sorted(rows, key=lambda row: int(row.get("repeat") or 0))
    first = rows[0]
    return doc_of_trials(
        int(first["problem_idx"]),
        [_trial(row) for row in rows],
        doc={"prompt": first.get("prompt"), **(first.get("metadata") or {})},
        content=[first.get("prompt"), first.get("expected_answer")],
        request=SentRequest(str(first.get("prompt") or "")),
        sent=[first.get("prompt")],
        target=first.get("expected_answer"),
        filtered=[row.get("extracted_answer") for row in rows],
    )


def _trial(row: Mapping[str, Any]) -> Trial:
    details = row.get("scoring_details") or {}
    error = details.get("error")
    scores = {"reward": float(row["reward"])} if row.get("reward") is not None else {}
    scores |= {name: float(value) for name, value in (row.get("scorer_rewards") or {}).items()}
    said = [turn for turn in row.get("trajectory") or () if isinstance(turn, Mapping) and "role" in turn]
    return Trial(
        scores,
        row.get("model_response"),
        None if error is None else f"{details.get('error_category') or 'error'}: {error}",
        tuple(Message.from_dict(turn) for turn in said),
        _spent(row),
    )


def _spent(row: Mapping[str, Any]) -> dict[str, float]:
    """nemo-evaluator writes 0 where a solver did not count."""
    spent = {"tokens": float(row.get("tokens") or 0), "seconds": float(row.get("latency_ms") or 0) / 1000}
    return {name: value for name, value in spent.items() if value}


LACKS = {"groups": "nemo-evaluator has no groups of tasks."}
FORMAT = RunFormat(
    files="eval-*.json with results.jsonl",
    finds=lambda path: bool(find_bundles(path)),
    read=read_bundles,
    lacks=LACKS,
    places=lambda folder, names: iter(
        [folder] if RESULTS in names and any(name.startswith("eval-") for name in names) else []
    ),
)
