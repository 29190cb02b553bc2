"""JSON lines to rows, and for a file that is not what it should be: which line, and why."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from assay.errors import DataError
from assay.instance import Doc

_FORM = "Write one object per line, or one array of objects."
_INT64 = range(-(2**63), 2**63)


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
        raise DataError(f"{path}: not a whole gzip file: {error}", hint="Compress or download it again.") from error


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
                f"{path}, row {number}: half of a surrogate pair, which is no character",
                hint="Write the character itself, or replace the \\ud800 to \\udfff escape that stands alone.",
            )
        for name, value in row.items():
            if (number_found := _too_large(value)) is not None:
                return DataError(
                    f"{path}, row {number}: {name} holds {number_found}, which does not fit into 64 bits",
                    hint="Put it in quotes: as text it keeps all its digits.",
                )
    return DataError(
        f"{path}: rows do not fit together: {error}", hint="A column must hold values of one type in all rows."
    )


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
    return next((found for item in items if (found := _too_large(item)) is not None), None)
