"""Files of rows to datasets.

JSON lines become what `datasets.Dataset.from_list` makes of the parsed rows: columns of the first row, types inferred
by Arrow from the values, and no string turned into a date on the way (which the library's own JSON reader does). Small
files are held in memory; large ones are converted in blocks to an Arrow file that is then mapped, not loaded.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from assay.errors import DataError
from assay.instance import Doc
from assay.paths import assay_home

if TYPE_CHECKING:
    import datasets

SUFFIXES = (".jsonl", ".json", ".parquet", ".csv", ".tsv")
IN_MEMORY_BYTES = 32 * 2**20
BLOCK_ROWS = 10_000


def read_files(paths: list[Path]) -> datasets.Dataset:
    """One dataset of the rows of all files, in order."""
    import datasets

    parts = [read_file(path) for path in paths]
    return parts[0] if len(parts) == 1 else datasets.concatenate_datasets(parts)


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


def _open_text(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _json_rows(path: Path) -> Iterator[Doc]:
    """Rows of a JSON lines file, or of a file that holds one JSON array."""
    with _open_text(path) as file:
        if _starts_with_bracket(file):
            rows = json.load(file)
            yield from (_checked(row, path, number) for number, row in enumerate(rows, 1))
            return
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{path}, line {number}: not JSON: {error}") from error
            yield _checked(row, path, number)


def _starts_with_bracket(file: IO[str]) -> bool:
    """Whether the first character that is not blank opens an array; the file is rewound."""
    first = next((line.lstrip() for line in file if line.strip()), "")
    file.seek(0)
    return first.startswith("[")


def _checked(row: Any, path: Path, number: int) -> Doc:
    if not isinstance(row, dict):
        raise DataError(f"{path}, row {number}: found {type(row).__name__}, expected an object with a key per column")
    return row


def _read_json(path: Path) -> datasets.Dataset:
    import datasets
    import pyarrow as pa

    try:
        if path.stat().st_size <= IN_MEMORY_BYTES // (8 if path.suffix == ".gz" else 1):
            return datasets.Dataset.from_list(list(_json_rows(path)))
        return datasets.Dataset.from_file(str(_arrow_copy(path)))
    except pa.ArrowException as error:
        hint = "A column must hold values of one type in all rows."
        raise DataError(f"{path}: rows do not fit together: {error}", hint=hint) from error
    except UnicodeEncodeError as error:
        number = next(n for n, row in enumerate(_json_rows(path), 1) if not _is_unicode(row))
        raise DataError(
            f"{path}, row {number}: half of a surrogate pair, which is no character",
            hint="Write the character itself, or replace the \\ud800 to \\udfff escape that stands alone.",
        ) from error


def _is_unicode(row: Doc) -> bool:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _arrow_copy(path: Path) -> Path:
    """The Arrow form of a large JSON lines file, made once per content (path, size, time) and kept in the cache."""
    import pyarrow as pa

    state = path.stat()
    key = hashlib.sha256(f"{path.resolve()}\0{state.st_size}\0{state.st_mtime_ns}".encode()).hexdigest()[:24]
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
    """The columns of the first row; each type is what fits the values of all blocks."""
    import pyarrow as pa

    schema: pa.Schema | None = None
    names: list[str] = []
    for block in _blocks(path):
        names = names or list(block[0])
        found = pa.table({name: pa.array([row.get(name) for row in block]) for name in names}).schema
        schema = found if schema is None else pa.unify_schemas([schema, found], promote_options="permissive")
    return schema


def _blocks(path: Path) -> Iterator[list[Doc]]:
    rows = _json_rows(path)
    while block := list(islice(rows, BLOCK_ROWS)):
        yield block
