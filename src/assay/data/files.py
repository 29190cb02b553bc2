"""Files of rows to docs.

JSON lines become what `datasets.Dataset.from_dict` makes of the parsed rows (the library itself is imported when somebody
needs more than the rows): a column for every key of any row (None
where a row lacks it), types inferred by Arrow from the values, and no string turned into a date on the way (which the
library's own JSON reader does). Small files are held in memory; large ones are converted in blocks to an Arrow file
that is read block by block. Tasks with our own defaults get the rows as they are written instead. Of a file that is not what it should be, the error says which line, and why.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from assay.data.docs import Docs, FileDocs, TableDocs, WrittenDocs, as_dataset
from assay.errors import DataError
from assay.instance import Doc
from assay.paths import assay_home

if TYPE_CHECKING:
    import datasets

SUFFIXES = (".jsonl", ".json", ".parquet", ".csv", ".tsv")
IN_MEMORY_BYTES = 8 * 2**20
BLOCK_ROWS = 2_000
ARROW_FORM = 2
"""Counts up when the same JSON lines become another Arrow file, so that no older copy is taken for it."""
_FORM = "Write one object per line, or one array of objects."
_INT64 = range(-(2**63), 2**63)


def read_files(paths: list[Path], *, as_written: bool = False) -> Docs:
    """The rows of all files, in order; those of JSON files `as_written`, where that is wanted."""
    if as_written and all(_kind(path) in ("jsonl", "json") for path in paths):
        columns: Doc = {}
        for path in paths:
            for row in json_rows(path):
                columns.update(dict.fromkeys(row))
        return WrittenDocs([*map(_plain_lines, paths)], list(columns), lambda: as_dataset(read_files(paths)).data.table)
    if len(paths) == 1:
        return read_file(paths[0])
    import datasets

    parts = [as_dataset(read_file(path)) for path in paths]
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
                f"{path}: its columns do not match those of {paths[0].name}: {error}",
                hint="A column must have values of one type in all files of a split.",
            ) from error
    wanted = datasets.Features.from_arrow_schema(schema)
    return [part.cast(datasets.Features({name: wanted[name] for name in part.features})) for part in parts]


def read_file(path: Path) -> Docs:
    """The rows of one file; the suffix says what it is."""
    kind = _kind(path)
    if kind in ("jsonl", "json"):
        return _read_json(path)
    import datasets

    # The library's generic loaders cache by path and modification time and map the result.
    options: dict[str, Any] = {"sep": "\t"} if kind == "tsv" else {}
    try:
        return datasets.load_dataset("csv" if kind == "tsv" else kind, data_files=str(path), split="train", **options)
    except (ValueError, OSError, datasets.exceptions.DatasetGenerationError) as error:
        raise DataError(f"{path} cannot be read as {kind}: {error}") from error


def _kind(path: Path) -> str:
    return path.name.removesuffix(".gz").rpartition(".")[2]


def _read_json(path: Path) -> Docs:
    import pyarrow as pa

    try:
        if path.stat().st_size <= IN_MEMORY_BYTES // (8 if path.suffix == ".gz" else 1):
            return TableDocs(_table(path))
        return FileDocs(_arrow_copy(path))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        raise explain_unfit(path, error) from error


def _table(path: Path) -> Any:
    """All rows, put together from blocks: as Python objects they would take several times the memory of the file, and it
    would stay with the process."""
    import pyarrow as pa

    parts, rows = [], 0
    for block in _blocks(path):
        parts.append(pa.table(_columns(block)))
        rows += len(block)
    try:
        table = pa.concat_tables(parts, promote_options="permissive")
        if table.num_rows == rows:  # a block of empty objects has no columns, and so no rows
            return table
    except pa.ArrowException:
        pass  # what fails for all rows at once says why
    return pa.table(_columns(list(json_rows(path))))


def _columns(rows: list[Doc]) -> dict[str, list[Any]]:
    """Values by column, None where a row has no such key. Columns stand in the order in which they first appear."""
    names: Doc = {}
    for row in rows:
        names.update(row)
    return {name: [row.get(name) for row in rows] for name in names}


def _plain_lines(path: Path) -> Path:
    """The file itself where each line is a row; of an array or a compressed file, a copy that is so."""
    with _open_text(path) as file:
        if path.suffix != ".gz" and not _starts_with_bracket(file):
            return path
    target = _copy_of(path, ".jsonl")
    if not target.exists():
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=target.parent, suffix=".part", delete=False
        ) as copy:
            copy.writelines(json.dumps(row) + "\n" for row in json_rows(path))
        os.replace(copy.name, target)
    return target


def _copy_of(path: Path, suffix: str) -> Path:
    """Where the cache has the copy of a file in another form: one for each content (path, size, time)."""
    state = path.stat()
    content = f"{ARROW_FORM}\0{path.resolve()}\0{state.st_size}\0{state.st_mtime_ns}"
    key = hashlib.sha256(content.encode()).hexdigest()[:24]
    folder = assay_home() / "data"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{key}{suffix}"


def _arrow_copy(path: Path) -> Path:
    """The Arrow form of a large JSON lines file, made once."""
    import pyarrow as pa

    target = _copy_of(path, ".arrow")
    if target.exists():
        return target
    folder, schema = target.parent, _schema(path)
    with (
        tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file,
        pa.ipc.new_stream(file, schema) as writer,
    ):
        for block in _blocks(path):
            columns = {name: [row.get(name) for row in block] for name in schema.names}
            writer.write_table(pa.table(columns, schema))
    os.replace(file.name, target)
    return target


def _schema(path: Path) -> Any:
    """The columns of all blocks; each type is what fits the values of all of them."""
    import pyarrow as pa

    schema = pa.schema([])
    for block in _blocks(path):
        schema = pa.unify_schemas([schema, pa.table(_columns(block)).schema], promote_options="permissive")
    return schema


def _blocks(path: Path) -> Iterator[list[Doc]]:
    rows = json_rows(path)
    while block := list(islice(rows, BLOCK_ROWS)):
        yield block


def json_rows(path: Path) -> Iterator[Doc]:
    """Rows of a JSON lines file, or of a file that holds one JSON array."""
    try:
        with _open_text(path) as file:
            yield from _array_rows(path, file) if _starts_with_bracket(file) else _line_rows(path, file)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {_line_that_is_not_utf8(path)}: not UTF-8 (byte 0x{error.object[error.start]:02x})",
            hint=f"Convert it: iconv -f latin1 -t utf-8 {path.name} > fixed.jsonl",
        ) from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a complete gzip file: {error}", hint="Compress or download it again.") from error


def _line_rows(path: Path, file: IO[str]) -> Iterator[Doc]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}, line {number}: not JSON: {error}") from error
        if type(row) is not dict:
            raise _not_a_row(row, f"{path}, line {number}")
        yield row


def _array_rows(path: Path, file: IO[str]) -> Iterator[Doc]:
    try:
        rows = json.load(file)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}, line {error.lineno}: not a JSON array of objects: {error.msg}", hint=_FORM) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a JSON array of objects: {error}", hint=_FORM) from error
    for number, row in enumerate(rows, 1):
        if type(row) is not dict:
            raise _not_a_row(row, f"{path}, row {number}")
        yield row


def _open_text(path: Path, errors: str = "strict") -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors)
    return path.open(encoding="utf-8-sig", errors=errors)


def _starts_with_bracket(file: IO[str]) -> bool:
    """Whether the first character that is not blank opens an array; the file is rewound."""
    first = next((line.lstrip() for line in file if line.strip()), "")
    file.seek(0)
    return first.startswith("[")


def _not_a_row(row: Any, where: str) -> DataError:
    return DataError(f"{where}: found {type(row).__name__}, expected an object with a key per column", hint=_FORM)


def _line_that_is_not_utf8(path: Path) -> int:
    """Decoding goes by the block and does not know the line, so the file is read again."""
    with _open_text(path, errors="surrogateescape") as file:
        return next(number for number, line in enumerate(file, 1) if not _is_unicode(line))


def explain_unfit(path: Path, error: Exception) -> DataError:
    """Why Arrow cannot hold the rows of the file; the first row at fault is looked for."""
    for number, row in enumerate(json_rows(path), 1):
        if not _is_unicode(row):
            return DataError(
                f"{path}, row {number}: half of a surrogate pair, which is not a character",
                hint="Write the character itself, or replace the \\ud800 to \\udfff escape that is not part of a pair.",
            )
        for name, value in row.items():
            if (integer := _too_large(value)) is not None:
                return DataError(
                    f"{path}, row {number}: {name} holds {integer}, which does not fit in 64 bits",
                    hint="Put it in quotes; as text it keeps all its digits.",
                )
    return DataError(f"{path}: rows do not match: {error}", hint="A column must have values of one type in all rows.")


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _too_large(value: Any) -> int | None:
    """The first integer anywhere inside the value that Arrow has no type for."""
    if isinstance(value, int):
        return None if value in _INT64 else value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((large for item in items if (large := _too_large(item)) is not None), None)
