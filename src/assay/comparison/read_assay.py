"""Our own run directories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.comparison.keys import keys_of_column
from assay.comparison.views import Column, GroupView, RunView
from assay.errors import DataError, StoreError
from assay.groups import MetricKey
from assay.metrics import METRICS
from assay.report.results import Results
from assay.report.rows import estimate_of
from assay.report.withheld import withheld_in

_METRIC = "metric:"


def read_assay(path: Path) -> RunView:
    """A run directory: scores from its sample files, groups from its results."""
    results = Results.load(path)
    data, block = results.data, results.data["assay"]
    files = {task: path / name for task, name in block["samples"].items()}
    estimates = block["estimates"]
    return RunView(
        path=path,
        model=str(data.get("model_name") or block["model"].get("name", "")),
        format="assay",
        tasks=tuple(task for task in files if task in estimates),
        read=lambda task: read_columns(files[task], [MetricKey.parse(key) for key in estimates[task]]),
        reported={name: {key: estimate_of(e) for key, e in found.items()} for name, found in estimates.items()},
        directions=data.get("higher_is_better", {}),
        aggregations=aggregations_of(data.get("configs", {})),
        groups={name: groups for name, found in estimates.items() if (groups := group_views(found))},
        tree=tuple((node["depth"], node["name"]) for node in block["tree"]),
        aliases={node["name"]: node["alias"] for node in block["tree"]},
        repeats={task: int(config.get("repeats") or 1) for task, config in data.get("configs", {}).items()},
        stopped=block.get("stop_reasons", {}),
        withheld=withheld_in(block),
        show_docs=lambda task, ids: read_docs(files[task], ids),
    )


def group_views(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, GroupView]:
    """Groups say of what their numbers were made; tasks do not."""
    return {
        key: GroupView(entry["aggregator"], {child["name"]: child["weight"] for child in entry["children"]})
        for key, entry in entries.items()
        if "aggregator" in entry
    }


def aggregations_of(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Metrics that are not averaged, by task: what the task's file says, else what the metric itself has."""
    found: dict[str, dict[str, str]] = {}
    for task, config in configs.items():
        for entry in config.get("metric_list") or []:
            name = entry.get("metric") if isinstance(entry, Mapping) else entry
            said = entry.get("aggregation") if isinstance(entry, Mapping) else None
            if said is None and isinstance(name, str) and name in METRICS:
                said = METRICS[name].aggregation
            if isinstance(name, str) and said is not None and said != "mean":
                found.setdefault(task, {})[name] = str(said)
        if not config.get("metric_list") and config.get("output_type") == "loglikelihood_rolling":
            found[task] = {n: METRICS[n].aggregation for n in ("word_perplexity", "byte_perplexity", "bits_per_byte")}
    return found


def read_columns(path: Path, wanted: list[MetricKey]) -> dict[str, Column]:
    """The wanted metrics of a sample file, filter by filter."""
    table = _read(path, wanted)
    filters = np.asarray(table.column("filter").to_numpy(zero_copy_only=False))
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(key.filter for key in wanted):
        rows = np.flatnonzero(filters == name)
        part = table if len(rows) == len(table) else table.take(rows)
        shared = _shared(part)
        other = _others(part) if "other" in part.column_names else []
        for key in (key for key in wanted if key.filter == name):
            values = _values(part, key.metric, other)
            if values is not None:
                columns[str(key)] = Column(shared.docs, shared.requests, values, shared.doc_ids, shared.clusters)
    return columns


def _read(path: Path, wanted: list[MetricKey]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise StoreError(f"{path} is missing", hint="Run the evaluation again: answers are in the store.")
    try:
        names = pq.read_schema(path).names
        metrics = [_METRIC + m for m in dict.fromkeys(key.metric for key in wanted) if _METRIC + m in names]
        rest = ["other"] if len(metrics) < len({key.metric for key in wanted}) and "other" in names else []
        columns = ["doc_id", "doc_hash", "request_hash", "filter", "cluster", *metrics, *rest]
        return pq.read_table(path, columns=columns).combine_chunks()
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{path} cannot be read: {error}", hint="The file is cut off or damaged; run the evaluation again: answers are in the store."
        ) from error  # fmt: skip


def _shared(table: Any) -> Column:
    clusters = table.column("cluster")
    return Column(
        docs=keys_of_column(table.column("doc_hash")),
        requests=keys_of_column(table.column("request_hash")),
        values=np.empty(len(table)),
        doc_ids=table.column("doc_id").to_numpy().astype(np.int64),
        clusters=None if clusters.null_count == len(clusters) else clusters.to_numpy(zero_copy_only=False),
    )


def _others(table: Any) -> list[dict[str, Any]]:
    return [json.loads(text) if text else {} for text in table.column("other").to_pylist()]


def _values(table: Any, metric: str, other: list[dict[str, Any]]) -> NDArray[Any] | None:
    if _METRIC + metric in table.column_names:
        return np.asarray(table.column(_METRIC + metric).to_numpy(zero_copy_only=False), dtype=np.float64)
    if not any(metric in row for row in other):
        return None
    values = np.empty(len(other), dtype=object)
    values[:] = [row.get(metric) for row in other]
    return values


def read_docs(path: Path, doc_ids: NDArray[np.int64]) -> list[dict[str, Any]]:
    """What was asked and answered on these docs, in their order; the first filter's row of each."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    columns = ["doc_id", "filter", "doc", "target", "resps", "filtered_resps"]
    table = ds.dataset(path).to_table(columns=columns, filter=pc.field("doc_id").isin(doc_ids.tolist()))
    rows: dict[int, dict[str, Any]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["doc_id"], row)
    return [rows.get(int(i), {}) for i in doc_ids]
