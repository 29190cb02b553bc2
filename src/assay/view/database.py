"""DuckDB over Parquet files: bounded in memory and threads, and unable to open anything but the given directories."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.errors import DataError

SampleRecord = dict[str, Any]
"""A row of a sample file, by column."""

SAMPLES = "read_parquet(?, file_row_number=true)"
"""The table expression of every query; its parameter is the path of a sample file."""


class Database:
    """One in-memory database; every thread has its own cursor."""

    def __init__(self, directories: Sequence[Path], *, threads: int = 2, memory: str = "160MB") -> None:
        import duckdb

        self._connection = duckdb.connect(config={"threads": threads, "memory_limit": memory})
        allowed = ", ".join("'" + str(directory.resolve()).replace("'", "''") + "'" for directory in directories)
        # After this no statement, whatever a request puts into it, can open another file or lift the limit.
        for statement in (
            "SET enable_progress_bar = false",
            f"SET allowed_directories = [{allowed}]",
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ):
            self._connection.execute(statement)
        self._local = threading.local()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[SampleRecord]:
        cursor = self._run(sql, parameters)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> SampleRecord:
        return self.rows(sql, parameters)[0]

    def stream(self, sql: str, parameters: Sequence[Any] = (), size: int = 512) -> Iterator[SampleRecord]:
        """Rows in pieces, on a cursor of its own: downloads may be larger than memory."""
        cursor = self._connection.cursor()
        try:
            cursor.execute(sql, list(parameters))
            names = [column[0] for column in cursor.description]
            while part := cursor.fetchmany(size):
                yield from (dict(zip(names, row)) for row in part)
        finally:
            cursor.close()

    def close(self) -> None:
        self._connection.close()

    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:
        import duckdb

        cursor = getattr(self._local, "cursor", None)
        if cursor is None:
            cursor = self._local.cursor = self._connection.cursor()
        try:
            return cursor.execute(sql, list(parameters))
        except duckdb.Error as error:
            raise DataError(f"the samples cannot be read: {str(error).splitlines()[0]}") from error


def quoted(name: str) -> str:
    """An identifier for SQL. Only names that the file itself has ever get here."""
    return '"' + name.replace('"', '""') + '"'
