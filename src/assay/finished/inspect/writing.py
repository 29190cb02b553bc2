"""Runs as logs of inspect: one `.eval` a task, readable by inspect's viewer and dataframes."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay.finished.jsonl import file_name
from assay.finished.own import sample_rows
from assay.finished.run import Run
from assay.results import MetricKey, RunResult, TaskResult, numbers_of, plain, unpack_arguments, write_key

_SURROGATE = re.compile("[\ud800-\udfff]")


def write_inspect(run: Run, folder: Path) -> list[Path]:
    """One `.eval` log a task: a zip with a header and a file a sample, readable by inspect's viewer and dataframes."""
    return [_write_eval(run, task, folder / f"{file_name(task)}.eval") for task in run.tasks]


def _write_eval(run: Run, task: str, path: Path) -> Path:
    header = _eval_header(run.result, task)
    summaries = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", _encoded({name: header[name] for name in ("version", "eval", "plan")}))
        for sample in _inspect_samples(sample_rows(run, task)):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", _encoded(sample))
            summaries.append({k: sample[k] for k in ("id", "epoch", "input", "target", "scores")})
        archive.writestr("summaries.json", _encoded(summaries))
        archive.writestr("header.json", _encoded(header))
    return path


def _eval_header(result: RunResult, task: str) -> dict[str, Any]:
    about, created = result.tasks[task], datetime.fromtimestamp(result.date, UTC).isoformat()
    spec = {
        "eval_id": about.task_hash[:22],
        "run_id": about.task_hash[:22],
        "created": created,
        "task": task,
        "task_id": task,
        "task_version": 0,
        "task_args": {},
        "model": result.model_name,
        "model_args": {},
        "dataset": {"name": task, "samples": about.sample_len, "shuffled": False},
        "config": {},
    }
    count = about.sample_len
    return {
        "version": 2,
        "status": "success",
        "eval": spec,
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {"total_samples": count, "completed_samples": count, "scores": _scores_in_header(about)},
        "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
    }


def _scores_in_header(about: TaskResult) -> list[dict[str, Any]]:
    return [
        {
            "name": write_key(key),
            "scorer": write_key(key),
            "params": {},
            "metrics": {
                name: {"name": name, "value": value, "params": {}}
                for name, value in (
                    (score.aggregation or "mean", score.estimate.value),
                    ("stderr", score.estimate.stderr),
                )
                if value is not None
            },
        }
        for key, score in about.scores.items()
        if score.withheld is None and score.estimate.value is not None
    ]


def _inspect_samples(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """One sample a doc; each filter's metrics are scores of it."""
    samples: dict[int, dict[str, Any]] = {}
    for row in rows:
        sample = samples.get(row["doc_id"]) or samples.setdefault(row["doc_id"], _unscored_sample(row))
        answer = _plain_text(json.loads(row["filtered_resps"]))
        for metric, value in numbers_of(row).items():
            sample["scores"][write_key(MetricKey(metric, row["filter"]))] = {"value": value, "answer": answer}
    yield from samples.values()


def _unscored_sample(row: Mapping[str, Any]) -> dict[str, Any]:
    arguments = unpack_arguments(row["arguments"])
    message = _message(json.loads(row["resps"]), row.get("extras"))
    return {
        "id": row["doc_id"],
        "epoch": 1,
        "input": str(arguments[0][0]) if arguments else "",
        "choices": [str(request[1]) for request in arguments if len(request) > 1] if len(arguments) > 1 else None,
        "target": str(json.loads(row["target"])),
        "messages": [],
        "output": {"model": "", "choices": [{"message": message, "stop_reason": "stop"}]},
        "scores": {},
        "metadata": {"doc_hash": row["doc_hash"], "request_hash": row["request_hash"]},
        "store": {},
        "events": [],
        "attachments": {},
    }


def _message(responses: Any, extras: str | None) -> dict[str, Any]:
    """The answer; thoughts before it as a part of its content, as inspect has them, and the rest as metadata."""
    text = _plain_text(responses)
    given = json.loads(extras) if extras else []
    first: dict[str, Any] = next((each for draws in given for each in draws if each), {})
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thoughts := first.get("reasoning"):
        message["content"] = [{"type": "reasoning", "reasoning": thoughts}, {"type": "text", "text": text}]
    rest = {name: value for name, value in first.items() if name != "reasoning"}
    return {**message, "metadata": rest} if rest else message


def _plain_text(responses: Any) -> str:
    while isinstance(responses, list) and len(responses) == 1:
        responses = responses[0]
    return responses if isinstance(responses, str) else json.dumps(responses, ensure_ascii=False)


def _encoded(value: Any) -> bytes:
    """UTF-8 has no place for a lone surrogate, and inspect reads nothing else."""
    return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False, default=plain)).encode()
