"""A run in other harnesses' files: lm-evaluation-harness, inspect_ai, or plain CSV and JSONL of all samples."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.report.jsonl import sample_objects, write_jsonl
from assay.report.results import Results
from assay.report.withheld import withheld_in
from assay.run import RunDirectory, plain, read_samples, unpack_arguments, write_whole

_SURROGATE = re.compile("[\ud800-\udfff]")


def export_run(run: str | Path, to: str, output: str | Path) -> list[Path]:
    """Write the run in the named form below `output`; the files that were written."""
    results = Results.load(run)
    folder = Path(output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return EXPORTS[to](results, folder)
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror or error}", hint="Give another directory with -o.") from error  # fmt: skip


def to_lm_eval(results: Results, folder: Path) -> list[Path]:
    """`<model>/results_<date>.json` and `samples_<task>_<date>.jsonl`, as that harness names them."""
    stamp = datetime.fromtimestamp(results.data["date"], UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
    folder = folder / str(results.data["model_name_sanitized"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_{stamp}.json"
    write_whole(path, results.to_json().encode("utf-8", "surrogatepass"))
    return [path, *(write_jsonl(folder / f"samples_{_file_name(task)}_{stamp}.jsonl", sample_objects(file)) for task, file in _files(results))]  # fmt: skip


def to_jsonl(results: Results, folder: Path) -> list[Path]:
    return [write_jsonl(folder / f"{_file_name(task)}.jsonl", sample_objects(file)) for task, file in _files(results)]


def to_csv(results: Results, folder: Path) -> list[Path]:
    """One row a doc and filter; texts as JSON."""
    written = []
    for task, file in _files(results):
        path = folder / f"{_file_name(task)}.csv"
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as out:
            writer: csv.DictWriter[str] | None = None
            for row in read_samples(file):
                row["flags"] = " ".join(row["flags"] or ())
                row["arguments"] = json.dumps(unpack_arguments(row["arguments"]), ensure_ascii=False)
                if writer is None:
                    writer = csv.DictWriter(out, fieldnames=list(row))
                    writer.writeheader()
                writer.writerow(row)
        written.append(path)
    return written


def to_inspect(results: Results, folder: Path) -> list[Path]:
    """One `.eval` log a task: a zip with a header and a file a sample, readable by inspect's viewer and dataframes."""
    return [_write_eval(results, task, file, folder / f"{_file_name(task)}.eval") for task, file in _files(results)]


def _write_eval(results: Results, task: str, file: Path, path: Path) -> Path:
    created = datetime.fromtimestamp(results.data["date"], UTC).isoformat()
    spec = {
        "eval_id": results.data["task_hashes"].get(task, "")[:22],
        "run_id": results.data["task_hashes"].get(task, "")[:22],
        "created": created,
        "task": task,
        "task_id": task,
        "task_version": 0,
        "task_args": {},
        "model": results.data["model_name"],
        "model_args": {},
        "dataset": {"name": task, "samples": results.data["n-samples"][task]["effective"], "shuffled": False},
        "config": {},
    }
    withheld = withheld_in(results.data["assay"])
    scores = [
        {
            "name": key,
            "scorer": key,
            "params": {},
            "metrics": {
                "mean": {"name": "mean", "value": entry["value"], "params": {}},
                **(
                    {"stderr": {"name": "stderr", "value": entry["stderr"], "params": {}}}
                    if entry["stderr"] is not None
                    else {}
                ),
            },
        }
        for key, entry in results.data["assay"]["estimates"][task].items()
        if (task, key) not in withheld and entry["value"] is not None
    ]
    count = results.data["n-samples"][task]["effective"]
    header = {
        "version": 2,
        "status": "success",
        "eval": spec,
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {"total_samples": count, "completed_samples": count, "scores": scores},
        "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
    }
    summaries = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", _json({"version": 2, "eval": spec, "plan": header["plan"]}))
        for sample in _inspect_samples(file):
            archive.writestr(f"samples/{sample['id']}_epoch_1.json", _json(sample))
            summaries.append({k: sample[k] for k in ("id", "epoch", "input", "target", "scores")})
        archive.writestr("summaries.json", _json(summaries))
        archive.writestr("header.json", _json(header))
    return path


def _inspect_samples(file: Path) -> Iterator[dict[str, Any]]:
    """One sample a doc; each filter's metrics are scores of it."""
    samples: dict[int, dict[str, Any]] = {}
    for row in read_samples(file):
        arguments = unpack_arguments(row["arguments"])
        resps = json.loads(row["resps"])
        sample = samples.setdefault(
            row["doc_id"],
            {
                "id": row["doc_id"],
                "epoch": 1,
                "input": str(arguments[0][0]) if arguments else "",
                "choices": [str(request[1]) for request in arguments] if len(arguments) > 1 else None,
                "target": str(json.loads(row["target"])),
                "messages": [],
                "output": {
                    "model": "",
                    "choices": [{"message": {"role": "assistant", "content": _text(resps)}, "stop_reason": "stop"}],
                },
                "scores": {},
                "metadata": {"doc_hash": row["doc_hash"], "request_hash": row["request_hash"]},
                "store": {},
                "events": [],
                "attachments": {},
            },
        )
        for name, value in row.items():
            if name.startswith("metric:") and value is not None:
                key = f"{name.removeprefix('metric:')},{row['filter']}"
                sample["scores"][key] = {"value": value, "answer": _text(json.loads(row["filtered_resps"]))}
    yield from samples.values()


def _text(responses: Any) -> str:
    while isinstance(responses, list) and len(responses) == 1:
        responses = responses[0]
    return responses if isinstance(responses, str) else json.dumps(responses, ensure_ascii=False)


def _json(value: Any) -> bytes:
    """UTF-8 has no place for a lone surrogate, and inspect reads nothing else."""
    return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False, default=plain)).encode()


def _files(results: Results) -> Iterator[tuple[str, Path]]:
    assert isinstance(results.directory, RunDirectory)
    for task, file in results.data["assay"]["samples"].items():
        yield task, results.directory.path / file


def _file_name(task: str) -> str:
    return task.replace("/", "__")


EXPORTS: dict[str, Callable[[Results, Path], list[Path]]] = {
    "lm-eval": to_lm_eval,
    "inspect": to_inspect,
    "csv": to_csv,
    "jsonl": to_jsonl,
}
