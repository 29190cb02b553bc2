"""Our own run directories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import DataError, StoreError
from assay.finished.run import AskedDoc, AskedRequest, Columns, DocColumn, Keys, Run, RunReader
from assay.results import MetricKey, RunResult, kept_arguments, read_columns
from assay.stats import cluster_key, doc_keys

_METRIC = "metric:"
_LABEL = "label:"


def read_assay(path: Path) -> Run:
    """A run directory: scores from its results, values of docs from its sample files."""
    result = RunResult.load(path)
    files = {name: path / task.sample_file for name, task in result.tasks.items() if task.sample_file is not None}
    return Run(
        result,
        path,
        tuple(files),
        read=lambda task: read_sample_columns(
            files[task], result.tasks[task].scores, str(result.tasks[task].config.get("cluster") or "")
        ),
        show_docs=lambda task, ids, name: read_docs(files[task], ids, name),
        asked=lambda task, filter_name: read_asked(files[task], filter_name),
    )


READER = RunReader(finds=lambda path: (path / "run.json").is_file(), read=read_assay)


def read_sample_columns(path: Path, keys: Iterable[MetricKey], cluster: str = "") -> Columns:
    """These metrics of a sample file, filter by filter. `cluster` is the column that the task's clusters are named by."""
    wanted = list(keys)
    table = _read_table(path, {key.metric for key in wanted})
    filters = np.asarray(table.column("filter").to_numpy(zero_copy_only=False))
    columns: Columns = {}
    for name in dict.fromkeys(key.filter for key in wanted):
        rows = np.flatnonzero(filters == name)
        part = table if len(rows) == len(table) else table.take(rows)
        other = part.column("other").to_pylist() if "other" in part.column_names else []
        other_values = [json.loads(text) if text else {} for text in other]
        docs, requests = keys_of_column(part.column("doc_hash")), keys_of_column(part.column("request_hash"))
        doc_ids = part.column("doc_id").to_numpy().astype(np.int64)
        clusters = part.column("cluster")
        cluster_keys = None if clusters.null_count == len(clusters) else keys_of_labels(clusters.to_pylist(), cluster)
        for key in (key for key in wanted if key.filter == name):
            values = _values(part, key.metric, other_values)
            if values is not None:
                labels = _labels(part, key.metric)
                columns[key] = DocColumn(key, docs, requests, values, doc_ids, cluster_keys, labels=labels)
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
        numeric = [_METRIC + metric for metric in metrics if _METRIC + metric in names]
        labels = [_LABEL + metric for metric in metrics if _LABEL + metric in names]
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
    if _LABEL + metric not in table.column_names:
        return None
    labels = np.asarray(table.column(_LABEL + metric).to_numpy(zero_copy_only=False), dtype=np.float64)
    return None if np.isnan(labels).all() else labels


def _values(table: Any, metric: str, other: list[dict[str, Any]]) -> NDArray[Any] | None:
    if _METRIC + metric in table.column_names:
        return np.asarray(table.column(_METRIC + metric).to_numpy(zero_copy_only=False), dtype=np.float64)
    if not any(metric in row for row in other):
        return None
    values = np.empty(len(other), dtype=object)
    values[:] = [row.get(metric) for row in other]
    return values


def read_docs(path: Path, doc_ids: NDArray[np.int64], filter_name: str) -> list[dict[str, Any]]:
    """What was asked and answered on these docs, in their order, as one filter left it."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    columns = ["doc_id", "filter", "doc", "target", "resps", "filtered_resps"]
    table = ds.dataset(path).to_table(columns=columns, filter=pc.field("doc_id").isin(doc_ids.tolist()))
    rows: dict[int, dict[str, Any]] = {}
    for row in table.to_pylist():
        if row["filter"] == filter_name or row["doc_id"] not in rows:
            rows[row["doc_id"]] = row
    return [rows.get(int(i), {}) for i in doc_ids]


def read_asked(path: Path, filter_name: str) -> list[AskedDoc]:
    """Requests and answers of all docs, with what one filter left of them."""
    names = ("doc_id", "filter", "doc", "target", "arguments", "resps", "filtered_resps", "tokens")
    docs = []
    for doc_id, name, doc, target, arguments, resps, filtered, tokens in read_columns(path, names):
        if name == filter_name:
            asked = kept_arguments(arguments)
            counts = json.loads(tokens) if tokens else [()] * len(asked)
            requests = tuple(
                replace(as_request(each), tokens=_prompt_tokens(count))
                for each, count in zip(asked, counts, strict=True)
            )
            answers = tuple(tuple(draws) for draws in json.loads(resps))
            docs.append(AskedDoc(doc_id, json.loads(doc), json.loads(target), requests, answers, json.loads(filtered)))
    return docs


def _prompt_tokens(counts: Sequence[Sequence[int] | None]) -> int | None:
    """Of the first draw: all draws have the same prompt."""
    return counts[0][0] if counts and counts[0] else None


def as_request(arguments: Sequence[Any]) -> AskedRequest:
    """(context, continuation), (context, settings) or (text,)."""
    context, rest = arguments[0], arguments[1] if len(arguments) > 1 else None
    if isinstance(rest, Mapping):
        return AskedRequest(context, settings=rest)
    return AskedRequest(context, None if rest is None else str(rest))


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
