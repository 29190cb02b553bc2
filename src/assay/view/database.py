"""DuckDB over Parquet files: bounded in memory and threads, and unable to open anything but the files that it is given.

DuckDB takes the name of a file for a pattern: of `m[1]/samples.parquet` it reads `m1/samples.parquet`. It therefore never sees a
name from outside: each file is given a link with a number for a name, in a directory of ours.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay.errors import DataError

SampleRecord = dict[str, Any]
"""A row of a sample file, by column."""

SAMPLES = "read_parquet(?, file_row_number=true)"
"""The table expression of every query; its parameter is the `Path` of a sample file."""
PATTERNS = frozenset("*?[]{}\\~")
"""Characters by which DuckDB knows a pattern."""


class Database:
    """One in-memory database; every thread has its own cursor."""

    def __init__(self, directories: Sequence[Path], folder: Path, *, threads: int = 2, memory: str = "160MB") -> None:
        """Files below `directories` can be opened; `folder` is for the links to them."""
        import duckdb

        folder.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="links-", dir=folder.resolve()))
        self._links: dict[Path, str] = {}
        self._opened = -1
        self._place = str(self._folder)
        if PATTERNS & set(self._place):
            self._opened = os.open(self._folder, os.O_RDONLY)
            self._place = f"/proc/self/fd/{self._opened}"
        self._connection = duckdb.connect(config={"threads": threads, "memory_limit": memory})
        allowed = [*(str(directory.resolve()) for directory in directories), self._place]
        self._connection.execute("SET VARIABLE allowed = ?", [allowed])
        # After this no statement, whatever a request puts into it, can open another file or lift the limit.
        for statement in (
            "SET enable_progress_bar = false",
            "SET allowed_directories = getvariable('allowed')",
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ):
            self._connection.execute(statement)
        self._local = threading.local()
        self._lock = threading.Lock()

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
            cursor.execute(sql, self._named(parameters))
            names = [column[0] for column in cursor.description]
            while part := cursor.fetchmany(size):
                yield from (dict(zip(names, row)) for row in part)
        finally:
            cursor.close()

    def close(self) -> None:
        self._connection.close()
        if self._opened >= 0:
            os.close(self._opened)

    def _named(self, parameters: Sequence[Any]) -> list[Any]:
        """Parameters, with paths by the names of their links."""
        return [self._link(each) if isinstance(each, Path) else each for each in parameters]

    def _link(self, path: Path) -> str:
        with self._lock:
            if path not in self._links:
                name = f"{len(self._links)}.parquet"
                (self._folder / name).symlink_to(path.absolute())
                self._links[path] = f"{self._place}/{name}"
            return self._links[path]

    def _run(self, sql: str, parameters: Sequence[Any]) -> Any:
        import duckdb

        cursor = getattr(self._local, "cursor", None)
        if cursor is None:
            cursor = self._local.cursor = self._connection.cursor()
        try:
            return cursor.execute(sql, self._named(parameters))
        except duckdb.Error as error:
            raise DataError(f"the samples cannot be read: {str(error).splitlines()[0]}") from error


def quoted(name: str) -> str:
    """An identifier for SQL. Only names that the file itself has ever get here."""
    return '"' + name.replace('"', '""') + '"'
