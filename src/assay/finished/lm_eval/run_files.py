"""Output directories of lm-evaluation-harness, read and written: `results_*.json` and `samples_*.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.data import doc_hash
from assay.errors import ConfigError, DataError
from assay.finished.exporting import sample_files as kept_samples
from assay.finished.jsonl import file_name, sample_objects, write_jsonl
from assay.finished.lm_eval.results import (
    newest_results,
    read_results,
    sample_files,
    sample_instances,
    to_run_result,
    with_bare_names,
)
from assay.finished.own import as_request
from assay.finished.run import AskedDoc, ColumnBuilder, Columns, Run, RunReader
from assay.paths import parse_json
from assay.results import RunResult, sanitize, write_whole
from assay.store import request_hash


def find_results(path: Path) -> Path | None:
    """The newest results file at or below a path, if it is that harness's.

    lighteval names its results alike, but they have `config_general` and no task configs beside the scores.
    """
    if path.is_file():
        results = path if path.name.startswith("results") else None
    else:
        results = newest_results(path)
    if results is None or results.suffix != ".json":
        return None
    with open(results, encoding="utf-8", errors="replace") as file:
        return None if "config_general" in file.read(4096) else results


def read_lm_eval(path: Path) -> Run:
    """The run of one results file, with the newest samples of each task beside it."""
    results = find_results(path)
    assert results is not None
    data = with_bare_names(read_results(results))
    result, files = to_run_result(data), dict(sample_files(results, data))
    tasks = tuple(task for task in files if task in result.tasks)
    if not tasks:
        raise ConfigError(
            f"{path} has results but no samples",
            hint="Run lm-evaluation-harness with --log_samples, which writes them.",
        )
    return Run(
        result,
        path,
        tasks,
        read=lambda task: _columns(files[task], task, result.tasks[task].output_type or "generate_until"),
        show_docs=lambda task, ids, name: _docs(files[task], ids, name),
        format=result.origin,
        asked=lambda task, name: _asked(files[task], task, result.tasks[task].output_type or "generate_until", name),
    )


READER = RunReader(lambda path: find_results(path) is not None, read_lm_eval, to_run_result)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8", errors="surrogatepass") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                sample = parse_json(line)
                if not isinstance(sample, dict):
                    raise ValueError("not an object")
            except ValueError as error:
                raise DataError(
                    f"{path}, line {number}: {error}",
                    hint="The file is cut off or damaged; use an earlier one or run again.",
                ) from error
            yield sample


def _columns(path: Path, task: str, kind: str) -> Columns:
    builder = ColumnBuilder()
    for sample in _lines(path):
        try:
            prompt = request_hash(sample_instances(sample, kind, task))
            row = builder.row(doc_hash(sample["doc"]), prompt, int(sample["doc_id"]), sample.get("filter", "none"))
            row.update({metric: sample[metric] for metric in sample.get("metrics", ())})
        except (KeyError, TypeError, ValueError) as error:
            what = f"doc {sample.get('doc_id')} is not a sample of lm-evaluation-harness"
            raise DataError(f"{path}: {what} ({type(error).__name__}: {error})") from error
    return builder.columns()


def _docs(path: Path, doc_ids: NDArray[np.int64], filter_name: str) -> list[dict[str, Any]]:
    wanted = set(doc_ids.tolist())
    names = ("doc", "target", "resps", "filtered_resps")
    rows: dict[int, dict[str, Any]] = {}
    for sample in _lines(path):
        doc_id, its_filter = sample["doc_id"], sample.get("filter")
        if doc_id in wanted and (doc_id not in rows or its_filter == filter_name):
            shown = {name: json.dumps(sample.get(name), ensure_ascii=False) for name in names}
            rows[doc_id] = {"doc_id": doc_id, "filter": its_filter, **shown}
    return [rows.get(int(i), {}) for i in doc_ids]


def _asked(path: Path, task: str, kind: str, filter_name: str) -> list[AskedDoc]:
    docs = []
    for sample in _lines(path):
        if sample.get("filter", "none") == filter_name:
            requests = tuple(as_request(instance.arguments) for instance in sample_instances(sample, kind, task))
            answers = tuple(tuple(draws) for draws in sample["resps"])
            docs.append(
                AskedDoc(
                    int(sample["doc_id"]), sample["doc"], sample["target"], requests, answers, sample["filtered_resps"]
                )
            )
    return docs


def to_lm_eval(result: RunResult, folder: Path) -> list[Path]:
    """`<model>/results_<date>.json` and `samples_<task>_<date>.jsonl`, as that harness names them."""
    stamp = datetime.fromtimestamp(result.date, UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")
    folder = folder / sanitize(result.model_name)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_{stamp}.json"
    write_whole(path, result.to_json().encode("utf-8", "surrogatepass"))
    samples = [(folder / f"samples_{file_name(task)}_{stamp}.jsonl", file) for task, file in kept_samples(result)]
    return [path, *(write_jsonl(target, sample_objects(file)) for target, file in samples)]
