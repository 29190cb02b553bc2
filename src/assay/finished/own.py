"""Our own run directories, read and written."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.config import RunConfig
from assay.errors import DataError, StoreError
from assay.finished.estimating import with_our_estimates
from assay.finished.formats import RunFormat
from assay.finished.run import AnsweredDoc, Columns, DocColumn, Keys, Run, SentRequest
from assay.results import (
    FIXED_COLUMNS,
    GOLD_COLUMN,
    GOLD_WEIGHT,
    LABEL_COLUMN,
    LAYOUT,
    METRIC_COLUMN,
    MetricKey,
    RunDirectory,
    RunResult,
    SampleRow,
    kept_arguments,
    numbers_of,
    pack_arguments,
    read_columns,
    read_samples,
    to_json,
    write_samples,
)
from assay.stats import GoldChecked, cluster_key, doc_keys


def runs_at(path: Path) -> list[Path]:
    """The run directory that this is or that a results file lies in, or all below an `--output_path` (MODEL/DATE), the newest last."""
    if path.is_file():  # other runs below the directory of a file are not the run of that file
        folder = path.resolve().parent
        is_ours = path.name.startswith("results") and path.suffix == ".json" and (folder / "run.json").is_file()
        return [folder] if is_ours else []
    if (path / "run.json").is_file():
        return [path]
    runs = [file.parent for pattern in ("*/run.json", "*/*/run.json") for file in path.glob(pattern)]
    return sorted((run for run in runs if (run / "results.json").is_file()), key=lambda run: (run.name, run))


def read_assay(path: Path) -> Run:
    """A run directory: scores from its results, values of docs from its sample files."""
    path = (runs_at(path) or [path])[-1]
    result = RunResult.load(path)
    files = {name: path / task.sample_file for name, task in result.tasks.items() if task.sample_file is not None}
    return Run(
        result,
        path,
        tuple(files),
        read_docs=lambda task, ids: read_answered(files[task], ids),
        read_columns=lambda task: read_sample_columns(
            files[task], result.tasks[task].scores, str(result.tasks[task].config.get("cluster") or "")
        ),
    )


def write_assay(run: Run, folder: Path) -> list[Path]:
    """Any run as a run directory: its samples, and its scores with error bars of ours where the samples give them."""
    directory = RunDirectory.create(RunConfig(run_dir=str(folder)), "")
    assert directory is not None
    files = {task: write_sample_file(run, task, directory.sample_file(task)) for task in run.tasks}
    names = {task: str(file.relative_to(directory.path)) for task, file in files.items() if file.is_file()}
    result = with_our_estimates(run)
    about = RunDirectory(run.path).read_json("run.json")
    if about is None:
        about = {"format": LAYOUT, "status": "imported", "config": result.config, "model": result.model}
        about |= {"imported_from": str(run.path), "date": time.time(), "seconds": {}, "counts": {}}
    tasks = {name: replace(task, sample_file=names.get(name)) for name, task in result.tasks.items()}
    found = replace(result, tasks=tasks).to_dict()
    directory.write_json("run.json", about)
    # What a harness with our schema wrote stays as it wrote it; our block stands beside it.
    written = found if run.written is None else {"n-shot": {}, **run.written, "assay": found["assay"]}
    directory.write_json("results.json", written)
    return [directory.path / name for name in ("results.json", "run.json", *names.values())]


def write_sample_file(run: Run, task: str, path: Path) -> Path:
    """A task's samples as one of our sample files; no file where it has none."""
    if (file := _own_file(run, task)) is not None:
        shutil.copyfile(file, path)
        return path
    return write_samples(path, map(sample_row, run.docs(task)))


def _own_file(run: Run, task: str) -> Path | None:
    file = run.result.tasks[task].sample_file
    return run.path / file if run.is_ours and file is not None else None


def sample_row(doc: AnsweredDoc) -> SampleRow:
    """A doc of any harness as a row of our sample files."""
    numbers = {name: float(value) for name, value in doc.metrics.items() if isinstance(value, int | float)}
    return SampleRow(
        doc_id=doc.doc_id,
        doc_hash=doc.doc_hash,
        request_hash=doc.request_hash or "",
        filter=doc.filter,
        doc=to_json(doc.doc),
        target=to_json(doc.target),
        arguments=pack_arguments(doc.requests),
        resps=to_json(doc.responses),
        filtered_resps=to_json(doc.filtered),
        metrics=numbers,
        other={name: value for name, value in doc.metrics.items() if name not in numbers and value is not None},
        cluster=doc.cluster,
        failure=doc.failure,
        extras=_conversations(doc),
    )


def _conversations(doc: AnsweredDoc) -> str | None:
    """All that was said in each draw, beside its answer, where that is more than a question and an answer."""
    if not any(len(said) > 2 for said in doc.conversations):
        return None
    return to_json([[{"conversation": [turn.to_dict() for turn in said]} for said in doc.conversations]])


def sample_rows(run: Run, task: str, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of our sample files, or these columns of them: as they are on disk, or as any other run would have them."""
    if (file := _own_file(run, task)) is not None:
        yield from read_samples(file, columns)
        return
    metrics = run.columns(task) if columns is None else {}
    numbers = {METRIC_COLUMN + key.metric: None for key, column in metrics.items() if column.is_numeric}
    for doc in run.docs(task):
        row = sample_row(doc)
        fixed = {name: getattr(row, name) for name in FIXED_COLUMNS}
        other = to_json(row.other) if row.other else None
        whole = {**fixed, "other": other, **numbers, **row.numbers()}
        yield whole if columns is None else {name: whole[name] for name in columns}


def read_sample_columns(path: Path, keys: Iterable[MetricKey], cluster: str = "") -> Columns:
    """These metrics of a sample file, filter by filter. `cluster` is the column that the task's clusters are named by."""
    import pyarrow.compute as pc

    wanted = list(keys)
    table = _read_table(path, {key.metric for key in wanted})
    filters = np.asarray(table.column("filter").to_numpy(zero_copy_only=False))
    columns: Columns = {}
    for name in dict.fromkeys(key.filter for key in wanted):
        rows = np.flatnonzero(filters == name)
        part = table if len(rows) == len(table) else table.take(rows)
        other = part.column("other").to_pylist() if "other" in part.column_names else []
        other_values = [json.loads(text) if text else {} for text in other]
        docs, requests = keys_of_column(part.column("doc_hash")), part.column("request_hash")
        prompts = keys_of_column(requests) if pc.any(pc.not_equal(requests, "")).as_py() else None
        doc_ids = part.column("doc_id").to_numpy().astype(np.int64)
        clusters = part.column("cluster")
        cluster_keys = None if clusters.null_count == len(clusters) else keys_of_labels(clusters.to_pylist(), cluster)
        for key in (key for key in wanted if key.filter == name):
            values = _values(part, key.metric, other_values)
            if values is not None:
                labels = _labels(part, key.metric)
                gold = _gold(part, key.metric, values)
                columns[key] = DocColumn(key, docs, prompts, values, doc_ids, cluster_keys, gold=gold, labels=labels)
    return columns


def keys_of_labels(labels: list[str | None], column: str) -> Keys:
    """The clusters' keys, as the run itself made them."""
    known = {label: cluster_key(column, label) for label in set(labels)}
    return np.array([known[label] for label in labels], dtype=np.uint64)


def _read_table(path: Path, metrics: set[str]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise StoreError(f"{path} is missing", hint="Run the evaluation again; answers are in the store.")
    try:
        names = pq.read_schema(path).names
        numeric = [METRIC_COLUMN + metric for metric in metrics if METRIC_COLUMN + metric in names]
        beside = (LABEL_COLUMN, GOLD_COLUMN)
        labels = [start + metric for start in beside for metric in metrics if start + metric in names]
        labels += [GOLD_WEIGHT] if GOLD_WEIGHT in names else []
        rest = ["other"] if len(numeric) < len(metrics) and "other" in names else []
        columns = ["doc_id", "doc_hash", "request_hash", "filter", "cluster", *numeric, *labels, *rest]
        return pq.read_table(path, columns=columns).combine_chunks()
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{path} cannot be read: {error}",
            hint="The file is cut off or damaged. Run the evaluation again; answers are in the store.",
        ) from error


def _labels(table: Any, metric: str) -> NDArray[np.float64] | None:
    """What people say of the docs; None where they said nothing."""
    if LABEL_COLUMN + metric not in table.column_names:
        return None
    labels = np.asarray(table.column(LABEL_COLUMN + metric).to_numpy(zero_copy_only=False), dtype=np.float64)
    return None if np.isnan(labels).all() else labels


def _gold(table: Any, metric: str, values: NDArray[Any]) -> GoldChecked | None:
    """The values under the right gold answers; None where nobody checked any."""
    if GOLD_WEIGHT not in table.column_names or values.dtype != np.float64:
        return None
    weights = np.nan_to_num(np.asarray(table.column(GOLD_WEIGHT).to_numpy(zero_copy_only=False), dtype=np.float64))
    checked = np.full(len(values), np.nan)
    if GOLD_COLUMN + metric in table.column_names:
        checked = np.asarray(table.column(GOLD_COLUMN + metric).to_numpy(zero_copy_only=False), dtype=np.float64)
    return GoldChecked(values, checked, weights) if weights.any() else None


def _values(table: Any, metric: str, other: list[dict[str, Any]]) -> NDArray[Any] | None:
    if METRIC_COLUMN + metric in table.column_names:
        return np.asarray(table.column(METRIC_COLUMN + metric).to_numpy(zero_copy_only=False), dtype=np.float64)
    if not any(metric in row for row in other):
        return None
    values = np.empty(len(other), dtype=object)
    values[:] = [row.get(metric) for row in other]
    return values


def read_answered(path: Path, ids: Sequence[int] | None = None) -> Iterator[AnsweredDoc]:
    """The docs of a sample file under every filter, a batch in memory at a time; or only those with these ids."""
    for row in read_samples(path) if ids is None else _rows_of(path, ids):
        requests = kept_arguments(row["arguments"])
        counts = json.loads(row["tokens"]) if row.get("tokens") else [()] * len(requests)
        yield AnsweredDoc(
            doc_id=row["doc_id"],
            doc_hash=row["doc_hash"],
            doc=json.loads(row["doc"]),
            target=json.loads(row["target"]),
            requests=tuple(
                SentRequest.of_arguments(each, count[0][0] if count and count[0] else None)  # all draws have one prompt
                for each, count in zip(requests, counts, strict=True)
            ),
            responses=tuple(tuple(draws) for draws in json.loads(row["resps"])),
            filtered=json.loads(row["filtered_resps"]),
            filter=row["filter"],
            request_hash=row["request_hash"] or None,
            metrics=numbers_of(row) | (json.loads(row["other"]) if row.get("other") else {}),
            cluster=row.get("cluster"),
            failure=row.get("failure"),
        )


STORED = ("doc_hash", "request_hash", "doc", "arguments", "resps", "stops", "tokens", "extras", "failure")
"""What an answer is given again by, as it is in the file: most texts are JSON that need not be read."""


def stored_docs(path: Path) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Doc id and what is stored (`STORED`), once for each doc: the rows of its filters stand together and differ in nothing of it."""
    last = None
    for doc_id, *stored in read_columns(path, ("doc_id", *STORED)):
        if doc_id != last:
            last = doc_id
            yield doc_id, tuple(stored)


def stored_questions(path: Path) -> Iterator[tuple[int, str, str]]:
    """Doc id, doc hash and, as JSON, what was sent to other models about the answers; rows without questions are left out."""
    for doc_id, doc_hash, questions in read_columns(path, ("doc_id", "doc_hash", "questions")):
        if questions:
            yield doc_id, doc_hash, questions


def _rows_of(path: Path, ids: Sequence[int]) -> list[dict[str, Any]]:
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    rows: list[dict[str, Any]] = ds.dataset(path).to_table(filter=pc.field("doc_id").isin(list(ids))).to_pylist()
    return rows


_NIBBLE = np.full(256, 255, dtype=np.uint8)
_NIBBLE[list(b"0123456789abcdef")] = range(16)
_NIBBLE[list(b"ABCDEF")] = range(10, 16)


def keys_of_column(column: Any) -> Keys:
    """The 64-bit keys of an Arrow column of hex digests, without a loop over docs; of any other texts, one by one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if len(array) == 0:
        return np.empty(0, dtype=np.uint64)
    if array.null_count == 0 and pa.types.is_string(array.type):
        shortest, longest = pc.min_max(pc.binary_length(array)).as_py().values()
        if shortest == longest and shortest >= 16:
            text = np.frombuffer(array.buffers()[2], dtype=np.uint8)
            text = text[array.offset * shortest : (array.offset + len(array)) * shortest].reshape(len(array), shortest)
            nibbles = _NIBBLE[text[:, :16]]
            if (nibbles < 16).all():
                pairs = (nibbles[:, 0::2] << 4) | nibbles[:, 1::2]
                return np.ascontiguousarray(pairs).view(">u8").ravel().astype(np.uint64)
    return doc_keys(str(text) for text in array.to_pylist())


FORMAT = RunFormat(
    files="a directory with run.json",
    finds=lambda path: bool(runs_at(path)),
    read=read_assay,
    read_all=lambda path: [*map(read_assay, runs_at(path))],
    write=write_assay,
)
