"""Samples on disk: one Parquet file a task, one row a doc and filter, written while the run goes on.

Columns: `doc_id`, `doc_hash`, `request_hash`, `filter`; as JSON text `doc`, `target`, `arguments`, `resps`, `filtered_resps`,
what came with the responses (`stops`, `tokens`, and `extras`: reasoning, tool calls, refusals and all else), and
`questions` to other models; `failure` (why a request has no response), `flags` (what health counts: unparsed, truncated,
empty, tied, failed), `cluster`, and `metric:<name>` with the value of every numeric metric; values that are no numbers
are JSON text in `other`; `label:<name>` is what people say of a metric that a judge gives, on docs that they judged;
`gold:<name>` is the metric under the right gold answer, on docs where somebody checked it, and `gold_weight` how many docs each of
these stands for (a doc with a weight and without a value has no right answer).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from assay.errors import StoreError
from assay.instance import Instance, Message, Response, context_text, is_chat
from assay.paths import regular
from assay.results.columns import MetricColumn
from assay.results.directory import plain, sync
from assay.secret_texts import any_known, mask

ROWS_PER_GROUP = 4096
ROWS_PER_PART = 1024
"""Rows that are held as Python objects, which take twice the memory. Parquet's writer takes as many at a time, so that the
file is the same as if the group were written at once."""
BATCH_ROWS = 1024
"""Rows that readers hold at once."""
NOTHING = Response(None)
NO_VALUE = object()
TEXT_COLUMNS = (
    *("doc", "target", "arguments", "resps", "filtered_resps", "stops", "tokens", "extras", "questions"),
    *("failure", "other"),
)


@dataclass(slots=True)
class SampleRow:
    """What is stored of one doc under one filter."""

    doc_id: int
    doc_hash: str
    request_hash: str
    filter: str
    doc: str
    target: str
    arguments: str
    resps: str
    filtered_resps: str
    stops: str | None = None
    """Why each response ended, where the backend said so."""
    tokens: str | None = None
    """Tokens of prompt and response, for each response of each request, where the backend counts."""
    extras: str | None = None
    """Reasoning, tool calls and the server's model name, where there are any."""
    questions: str | None = None
    """What was sent to other models about the answers, and what they said."""
    failure: str | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    labels: dict[str, float] = field(default_factory=dict)
    """What people say, by the metric that a judge gives."""
    gold: dict[str, float] = field(default_factory=dict)
    """By metric, under the right gold answer."""
    gold_weight: float | None = None
    other: dict[str, Any] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    cluster: str | None = None

    def numbers(self) -> dict[str, float]:
        """By column."""
        named = {METRIC_COLUMN + name: value for name, value in self.metrics.items()}
        named |= {LABEL_COLUMN + name: value for name, value in self.labels.items()}
        named |= {GOLD_COLUMN + name: value for name, value in self.gold.items()}
        return named if self.gold_weight is None else {**named, GOLD_WEIGHT: self.gold_weight}


class HasArguments(Protocol):
    """A request, sent or about to be."""

    @property
    def arguments(self) -> tuple[Any, ...]: ...


def pack_arguments(instances: Sequence[HasArguments]) -> str:
    """The requests of a doc as JSON; a context equal to the one before is written as null.

    The choices of a question share their context, which is most of the bytes. A chat is `{"messages": […]}`.
    """
    packed, previous = [], object()
    for instance in instances:
        first, *rest = instance.arguments
        context = {"messages": [message.to_dict() for message in first]} if is_chat(first) else first
        packed.append([None if first is previous or first == previous else context, *rest])
        previous = first
    return to_json(packed)


def unpack_arguments(text: str) -> list[list[Any]]:
    """The requests as they are shown and logged: a chat is the JSON text of its messages, as elsewhere in the field."""
    return [[context_text(first), *rest] if is_chat(first) else [first, *rest] for first, *rest in kept_arguments(text)]


def kept_arguments(text: str) -> list[list[Any]]:
    """The inverse of `pack_arguments`."""
    requests: list[list[Any]] = json.loads(text)
    previous = None
    for request in requests:
        if request[0] is None:
            request[0] = previous
        elif isinstance(request[0], dict) and request[0].keys() == {"messages"}:
            request[0] = tuple(Message.from_dict(message) for message in request[0]["messages"])
        previous = request[0]
    return requests


def pack_responses(instances: Sequence[Instance]) -> dict[str, str | None]:
    """What came with the responses of a doc, by column; None for a column that would say nothing."""
    if all(each is None or each.is_bare for instance in instances for each in instance.responses):
        return {"stops": None, "tokens": None, "extras": None}
    came_with = [[each or NOTHING for each in instance.responses] for instance in instances]
    columns: dict[str, list[list[Any]]] = {
        "stops": [[each.stop_reason or "" for each in draws] for draws in came_with],
        "tokens": [[each.tokens for each in draws] for draws in came_with],
        "extras": [[each.extras() for each in draws] for draws in came_with],
    }
    return {name: to_json(values) if any(map(any, values)) else None for name, values in columns.items()}


def unpack_responses(resps: str, stops: str | None, tokens: str | None, extras: str | None) -> list[list[Response]]:
    """The responses of each request, from the columns of a sample row."""
    answers = json.loads(resps)
    if stops is None and tokens is None and extras is None:  # as of most models that are not servers
        return [[Response(tuple(each) if isinstance(each, list) else each) for each in draws] for draws in answers]
    nothing: list[list[Any]] = [[None] * len(each) for each in answers]
    reasons, counts, more = (nothing if text is None else json.loads(text) for text in (stops, tokens, extras))
    return [
        [
            _response(answer, *came_with)
            for answer, *came_with in zip(
                answers[i],
                _filled(reasons[i], answers[i]),
                _filled(counts[i], answers[i]),
                _filled(more[i], answers[i]),
            )
        ]
        for i in range(len(answers))
    ]


def _filled(values: list[Any], answers: list[Any]) -> list[Any]:
    """As long as the answers: a request that was never answered has nothing that came with it."""
    return [*values, *[None] * (len(answers) - len(values))]


def _response(answer: Any, reason: str | None, counts: list[int] | None, extras: dict[str, Any] | None) -> Response:
    bare = Response(
        tuple(answer) if isinstance(answer, list) else answer,
        reason or None,
        tokens=(counts[0], counts[1]) if counts else None,
    )
    return bare.with_extras(extras)


def pack_questions(instances: Sequence[Instance]) -> str | None:
    """What scoring sent to other models about these requests, with the answers; None where it sent nothing."""
    sent = [
        {
            "about": instance.idx,
            "role": question.role,
            "arguments": [context_text(part) if is_chat(part) else part for part in question.arguments],
            "resps": question.resps,
            "failure": question.failure,
            **({"stops": stops} if any(stops := [each and each.stop_reason for each in question.responses]) else {}),
            **({"note": question.note} if question.note else {}),
        }
        for instance in instances
        for question in instance.questions
    ]
    return to_json(sent) if sent else None


to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=plain).encode


class SampleWriter:
    """Appends rows to a task's Parquet file; the file gets its name only when it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._narrow = self._partial.with_suffix(".narrow")
        self._writer: Any = None
        self._numbers: tuple[str, ...] = ()
        self._rows: list[SampleRow] = []
        self._values: dict[str, dict[int, float]] = {}
        """By column of numbers, its values by the place of their rows in `_rows`."""
        self._parts: list[Any] = []
        """Of the present row group, as tables."""

    def add(self, row: SampleRow) -> None:
        """A row with its own numbers."""
        for name, value in row.numbers().items():
            self._values.setdefault(name, {})[len(self._rows)] = value
        self._append(row)

    def add_docs(self, rows: Iterable[SampleRow], columns: Iterable[MetricColumn]) -> None:
        """Rows of some docs, and the columns that the scorer gave for them."""
        by_filter: dict[str, list[tuple[MetricColumn, dict[int, Any]]]] = {}
        for column in columns:
            by_filter.setdefault(column.key.filter, []).append((column, dict(zip(column.doc_ids, column.values))))
        for row in rows:
            place, other = len(self._rows), {}
            for column, values in by_filter.get(row.filter, ()):
                metric, labels = column.key.metric, column.labels or {}
                value = values.get(row.doc_id, NO_VALUE)
                if isinstance(value, int | float):
                    self._values.setdefault(f"metric:{metric}", {})[place] = float(value)
                elif value is not NO_VALUE:
                    other[metric] = value
                if row.doc_id in labels:
                    self._values.setdefault(f"label:{metric}", {})[place] = labels[row.doc_id]
                if column.gold is not None and (gold := column.gold.get(row.doc_id)) is not None:
                    self._values.setdefault(GOLD_WEIGHT, {})[place] = gold.weight
                    if gold.value is not None:
                        self._values.setdefault(f"{GOLD_COLUMN}{metric}", {})[place] = gold.value
            row.other = {**other, **row.other}
            self._append(row)

    def _append(self, row: SampleRow) -> None:
        if any_known():
            texts = {name: getattr(row, name) for name in (*TEXT_COLUMNS, "other")}
            row = replace(row, **{name: mask(text) for name, text in texts.items()})
        self._rows.append(row)
        if len(self._rows) >= ROWS_PER_PART:
            self._end_part()
            if sum(map(len, self._parts)) >= ROWS_PER_GROUP:
                self._flush()

    def close(self) -> None:
        """Complete the file. Metrics that first appear in later rows make the file be written anew with all columns."""
        self._end_part()
        self._flush()
        if self._writer is not None:
            try:
                self._writer.close()
                sync(self._partial)
                os.replace(self._partial, self.path)
            except OSError as error:
                raise self._failed(error) from error

    def discard(self) -> None:
        if self._writer is not None:
            with suppress(OSError):  # a full disk; the file goes anyway
                self._writer.close()
        self._partial.unlink(missing_ok=True)
        self._narrow.unlink(missing_ok=True)

    def _end_part(self) -> None:
        if self._rows:
            self._parts.append(_table(self._rows, self._values))
            self._rows, self._values = [], {}

    def _flush(self) -> None:
        if not self._parts:
            return
        import pyarrow as pa

        parts, self._parts = self._parts, []
        names = tuple(dict.fromkeys(name for part in parts for name in part.column_names if name not in FIXED_COLUMNS))
        try:
            if self._writer is None:
                self._open(names)
            elif not set(names) <= set(self._numbers):
                self._widen(names)
            schema = _schema(self._numbers)
            self._writer.write_table(pa.concat_tables([_with_all(part, schema) for part in parts]))
        except OSError as error:
            raise self._failed(error) from error

    def _open(self, numbers: Sequence[str]) -> None:
        import pyarrow.parquet as pq

        self._numbers = tuple(numbers)
        self._writer = pq.ParquetWriter(self._partial, _schema(self._numbers), compression="zstd")

    def _widen(self, numbers: Sequence[str]) -> None:
        """Copy what was written so far into a file that also has the new columns of numbers."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._writer.close()
        os.replace(self._partial, self._narrow)
        self._open(tuple(dict.fromkeys([*self._numbers, *numbers])))
        for batch in pq.ParquetFile(self._narrow).iter_batches():
            self._writer.write_table(_with_all(pa.Table.from_batches([batch]), _schema(self._numbers)))
        self._narrow.unlink()

    def _failed(self, error: OSError) -> StoreError:
        return StoreError(
            f"cannot write samples to {self.path}: {error.strerror or error}",
            hint="Nothing is lost; answers are in the store. Free some space and run again.",
        )


def write_samples(path: Path, rows: Iterable[SampleRow]) -> Path:
    """All rows of a file; none is left behind where they break off."""
    writer = SampleWriter(path)
    try:
        for row in rows:
            writer.add(row)
        writer.close()
    except BaseException:
        writer.discard()
        raise
    return path


METRIC_COLUMN, LABEL_COLUMN, GOLD_COLUMN = "metric:", "label:", "gold:"
"""How the columns of numbers begin: what a metric gives, what people say of it, and what it gives under the right gold answer."""
GOLD_WEIGHT = "gold_weight"
REQUIRED_COLUMNS = (
    *("doc_id", "doc_hash", "request_hash", "filter"),
    *("doc", "target", "arguments", "resps", "filtered_resps"),
)
"""Those without which a file is no sample file; older ones lack others."""
FIXED_COLUMNS = ("doc_id", "doc_hash", "request_hash", "filter", *TEXT_COLUMNS, "flags", "cluster")
"""Those that every file has; numbers follow."""


def _schema(numbers: Sequence[str]) -> Any:
    import pyarrow as pa

    others = {"doc_id": pa.int64(), "flags": pa.list_(pa.string())}
    fixed = [pa.field(name, others.get(name, pa.string())) for name in FIXED_COLUMNS]
    return pa.schema([*fixed, *[pa.field(name, pa.float64()) for name in numbers]])


def _table(rows: Sequence[SampleRow], numbers: Mapping[str, Mapping[int, float]]) -> Any:
    """The rows, and beside them the numbers that any of them has: by column, those of rows at a place."""
    import pyarrow as pa

    columns: dict[str, list[Any]] = {name: [*map(attrgetter(name), rows)] for name in FIXED_COLUMNS}
    columns["other"] = [to_json(row.other) if row.other else None for row in rows]
    columns["flags"] = [list(row.flags) for row in rows]
    names = sorted(numbers, key=lambda name: min(numbers[name]))  # in the order in which rows first have them
    for name in names:
        columns[name] = [numbers[name].get(place) for place in range(len(rows))]
    schema = _schema(names)
    try:
        return pa.table(columns, schema)
    except UnicodeEncodeError:
        texts = {name: [_encodable(text) for text in columns[name]] for name in TEXT_COLUMNS}
        return pa.table({**columns, **texts}, schema)


def _with_all(table: Any, schema: Any) -> Any:
    """The table with all columns of the schema, in its order; nulls for numbers that none of its rows has."""
    import pyarrow as pa

    for name in schema.names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table), pa.float64()))
    return table.select(schema.names)


def _encodable(text: str | None) -> str | None:
    """Lone surrogates, which a model may produce and UTF-8 cannot hold, as JSON escapes."""
    if text is None or text.isascii():
        return text
    return "".join(f"\\u{ord(ch):04x}" if 0xD800 <= ord(ch) < 0xE000 else ch for ch in text)


def read_samples(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Rows of a sample file, a batch in memory at a time."""
    for batch in _batches(path, columns):
        yield from batch.to_pylist()


def numbers_of(row: Mapping[str, Any], column: str = METRIC_COLUMN) -> dict[str, float]:
    """The metrics of a row, or the labels, by name.

    >>> numbers_of({"doc_id": 7, "metric:acc": 1.0, "metric:f1": None})
    {'acc': 1.0}
    """
    return {
        name.removeprefix(column): value for name, value in row.items() if name.startswith(column) and value is not None
    }


def read_columns(path: Path, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The values of these columns, row by row; None for a column that the file does not have."""
    for batch in _batches(path, columns):
        there = set(batch.schema.names)
        yield from zip(*(batch.column(name).to_pylist() if name in there else repeat(None) for name in columns))


def _batches(path: Path, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = None if columns is None else list(columns)
    try:
        yield from pq.ParquetFile(regular(path)).iter_batches(batch_size=BATCH_ROWS, columns=wanted)
    except (OSError, pa.ArrowInvalid) as error:
        raise StoreError(
            f"{path} cannot be read: {error}",
            hint="The file is damaged. Run the evaluation again; answers are in the store.",
        ) from error


def sample_table(path: Path) -> Any:
    """A sample file as an Arrow table."""
    import pyarrow.parquet as pq

    return pq.read_table(regular(path))


def sample_frame(path: Path) -> Any:
    """A sample file as a pandas frame, with the JSON texts read."""
    table = sample_table(path)
    frame = table.to_pandas()
    for name in TEXT_COLUMNS:
        if name in frame and name != "failure":
            texts = table.column(name).to_pylist()
            frame[name] = pandas_objects([None if text is None else json.loads(text) for text in texts])
    return frame


def pandas_objects(values: Sequence[Any]) -> Any:
    """A column of anything: pandas would turn a list of texts into a type of its own, and None into NaN."""
    import pandas as pd

    return pd.Series(values, dtype=object)
