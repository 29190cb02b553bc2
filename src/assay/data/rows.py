"""Files of rows to datasets.

JSON lines become what `datasets.Dataset.from_dict` makes of the parsed rows: a column for every key of any row (None
where a row lacks it), types inferred by Arrow from the values, and no string turned into a date on the way (which the
library's own JSON reader does). Small files are held in memory; large ones are converted in blocks to an Arrow file
that is then mapped, not loaded.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.data.jsonl import explain_unfit, json_rows
from assay.errors import DataError
from assay.instance import Doc
from assay.paths import assay_home

if TYPE_CHECKING:
    import datasets

SUFFIXES = (".jsonl", ".json", ".parquet", ".csv", ".tsv")
IN_MEMORY_BYTES = 32 * 2**20
BLOCK_ROWS = 10_000
ARROW_FORM = 2
"""Counts up when the same JSON lines become another Arrow file, so that no older copy is taken for it."""


def read_files(paths: list[Path]) -> datasets.Dataset:
    """One dataset of the rows of all files, in order."""
    import datasets

    parts = [read_file(path) for path in paths]
    if len(parts) == 1:
        return parts[0]
    try:
        return datasets.concatenate_datasets(parts)
    except ValueError:  # columns of different types
        return datasets.concatenate_datasets(_alike(parts, paths))


def _alike(parts: list[datasets.Dataset], paths: list[Path]) -> list[datasets.Dataset]:
    """The shards with the types that hold the values of all: numbers may widen, text and numbers do not mix."""
    import datasets
    import pyarrow as pa

    schema = parts[0].features.arrow_schema
    for part, path in zip(parts, paths):
        try:
            schema = pa.unify_schemas([schema, part.features.arrow_schema], promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(
                f"{path}: its columns do not fit those of {paths[0].name}: {error}",
                hint="A column must hold values of one type in all files of a split.",
            ) from error
    wanted = datasets.Features.from_arrow_schema(schema)
    return [part.cast(datasets.Features({name: wanted[name] for name in part.features})) for part in parts]


def read_file(path: Path) -> datasets.Dataset:
    """A dataset of the rows of one file; the suffix says what it is."""
    import datasets

    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind in ("jsonl", "json"):
        return _read_json(path)
    # The library's generic loaders cache by path and modification time and map the result.
    options: dict[str, Any] = {"sep": "\t"} if kind == "tsv" else {}
    try:
        return datasets.load_dataset("csv" if kind == "tsv" else kind, data_files=str(path), split="train", **options)
    except (ValueError, OSError, datasets.exceptions.DatasetGenerationError) as error:
        raise DataError(f"{path} cannot be read as {kind}: {error}") from error


def _read_json(path: Path) -> datasets.Dataset:
    import datasets
    import pyarrow as pa

    try:
        if path.stat().st_size <= IN_MEMORY_BYTES // (8 if path.suffix == ".gz" else 1):
            return datasets.Dataset.from_dict(_columns(list(json_rows(path))))
        return datasets.Dataset.from_file(str(_arrow_copy(path)))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise explain_unfit(path, error) from error


def _columns(rows: list[Doc]) -> dict[str, list[Any]]:
    """Values by column, None where a row has no such key. Columns stand in the order in which they first appear."""
    names: Doc = {}
    for row in rows:
        names.update(row)
    return {name: [row.get(name) for row in rows] for name in names}


def _arrow_copy(path: Path) -> Path:
    """The Arrow form of a large JSON lines file, made once per content (path, size, time) and kept in the cache."""
    import pyarrow as pa

    state = path.stat()
    content = f"{ARROW_FORM}\0{path.resolve()}\0{state.st_size}\0{state.st_mtime_ns}"
    key = hashlib.sha256(content.encode()).hexdigest()[:24]
    folder = assay_home() / "data"
    target = folder / f"{key}.arrow"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    schema = _schema(path)
    with (
        tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file,
        pa.ipc.new_stream(file, schema) as writer,
    ):
        for block in _blocks(path):
            table = {f.name: pa.array([row.get(f.name) for row in block], f.type) for f in schema}
            writer.write_table(pa.table(table, schema=schema))
    os.replace(file.name, target)
    return target


def _schema(path: Path) -> Any:
    """The columns of all blocks; each type is what fits the values of all of them."""
    import pyarrow as pa

    schema = pa.schema([])
    for block in _blocks(path):
        found = pa.table({name: pa.array(values) for name, values in _columns(block).items()}).schema
        schema = pa.unify_schemas([schema, found], promote_options="permissive")
    return schema


def _blocks(path: Path) -> Iterator[list[Doc]]:
    rows = json_rows(path)
    while block := list(islice(rows, BLOCK_ROWS)):
        yield block
