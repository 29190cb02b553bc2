"""What can still be read of a damaged store.

SQLite itself reads every row whose pages it can reach, so the rows are read by ranges of their keys: damage to one range
leaves the others. Pages that nothing leads to any more, or a file without its first page, need `.recover` of the sqlite3
shell, where one is installed that has it (many are built without). A row carries its own checksum: nothing wrong comes
back from either.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from assay.store.codec import Row, parse_row

RANGES = 4096
SHELL_SECONDS = 600.0
_LOST_COLUMNS = 4
"""What `.recover` puts before the columns of a row of which it does not know the table."""


def surviving_rows(path: Path) -> list[Row] | None:
    """All intact rows of a file and its write-ahead log, each key once; None where nothing can read the file."""
    by_sqlite, by_shell = _read_by_ranges(path), _recover(path)
    if by_sqlite is None and by_shell is None:
        return None
    return list({row[0]: row for row in [*(by_shell or ()), *(by_sqlite or ())]}.values())


def _read_by_ranges(path: Path) -> list[Row] | None:
    """Each range from its start and, where there is damage, from its end. None where all that comes is errors."""
    starts = [(i * 16).to_bytes(2, "big") for i in range(RANGES)]
    rows: list[Row] = []
    failed = False
    with contextlib.closing(open_to_read(path)) as connection:
        # Takes a file that is shorter than its header says.
        connection.execute("PRAGMA writable_schema = ON")
        for start, end in zip(starts, [*starts[1:], b"\xff" * 33]):
            for order in ("ASC", "DESC"):
                try:
                    query = f"SELECT * FROM responses WHERE key >= ? AND key < ? ORDER BY key {order}"
                    rows += _intact(connection.execute(query, (start, end)))
                    break
                except sqlite3.Error:
                    failed = True
    return None if failed and not rows else rows


def _recover(path: Path) -> list[Row] | None:
    """By the sqlite3 shell: its `.recover` writes SQL, which makes a new file."""
    shell = shutil.which("sqlite3")
    if shell is None:
        return None
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".recover-") as folder:
        script, copy = Path(folder) / "rows.sql", Path(folder) / "rows.sqlite"
        limits: dict[str, Any] = {"stderr": subprocess.DEVNULL, "timeout": SHELL_SECONDS, "check": True}
        try:
            with open(script, "wb") as file:
                subprocess.run([shell, path, ".recover"], stdout=file, **limits)
            with open(script, "rb") as file:
                subprocess.run([shell, copy], stdin=file, stdout=subprocess.DEVNULL, **limits)
            with contextlib.closing(open_to_read(copy)) as connection:
                tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
                rows: list[tuple[Any, ...]] = []
                for table in tables:
                    if table == "responses":
                        rows += connection.execute("SELECT * FROM responses")
                    elif table.startswith("lost_and_found"):
                        rows += (row[_LOST_COLUMNS:] for row in connection.execute(f'SELECT * FROM "{table}"'))
                return list(_intact(rows)) if tables else None
        except (OSError, subprocess.SubprocessError, sqlite3.Error):
            return None


def open_to_read(path: Path) -> sqlite3.Connection:
    """To read: closing it does not write the journal into the file, which stays as it was found."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    return connection


def _intact(rows: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    """Rows of earlier layouts end before the token counts, or before the extras."""
    for row in rows:
        whole: Any = (*row, None, None, None)[:8]
        if parse_row(whole) is not None:
            yield whole
