"""What `assay store` does: look into a store, check it, clear it out, write it as text."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from assay.errors import StoreError
from assay.store.codec import StoredOrigin, parse_origin, parse_row
from assay.store.database import check_pages, connect, exclusive, is_damage, rebuild, write_error


@dataclass(frozen=True, slots=True)
class OriginStats:
    """The answers that one run got from one model."""

    run: str
    model: str
    created: int
    responses: int


@dataclass(frozen=True, slots=True)
class Stats:
    path: Path
    size: int
    """Bytes on disk, journal included."""
    responses: int
    origins: tuple[OriginStats, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    checked: int
    spoiled: int
    """Rows that did not match their checksum; they are deleted, so that they are computed again."""
    message: str | None
    """What was done when the file itself was damaged."""


def stats(path: Path) -> Stats:
    """Answers by run and model, newest first."""
    with _Opened(path) as connection:
        counts = connection.execute("SELECT origin, count(*) FROM responses GROUP BY origin").fetchall()
        known = _origins(connection)
    listed = [(known.get(origin, UNKNOWN), n) for origin, n in counts]
    listed.sort(key=lambda each: -each[0].created)
    origins = tuple(OriginStats(origin.run, origin.model, origin.created, n) for origin, n in listed)
    files = (Path(f"{path}{suffix}") for suffix in ("", "-wal"))
    return Stats(path, sum(f.stat().st_size for f in files if f.exists()), sum(o.responses for o in origins), origins)


def verify(path: Path) -> Verification:
    """Checks every page and every row, and repairs what it can."""
    _require(path)
    message: str | None = None
    with exclusive(path):
        try:
            connection = connect(path)
            try:
                check_pages(connection, "integrity_check")
            except sqlite3.DatabaseError:
                connection.close()
                raise
        except sqlite3.DatabaseError as error:
            connection, message = rebuild(path, str(error))
    try:
        rows = connection.execute("SELECT * FROM responses")
        checked, spoiled = 0, []
        for row in rows:
            checked += 1
            if parse_row(row) is None:
                spoiled.append(row[0])
        for key in spoiled:
            is_text = isinstance(key, str)  # which may be no UTF-8
            value = key.encode("utf-8", "surrogateescape") if is_text else key
            connection.execute(f"DELETE FROM responses WHERE key = {'CAST(? AS TEXT)' if is_text else '?'}", (value,))
    finally:
        connection.close()
    return Verification(checked, len(spoiled), message)


def collect_garbage(
    path: Path,
    *,
    run: str | None = None,
    model: str | None = None,
    older_than_seconds: float | None = None,
    dry_run: bool = False,
) -> int:
    """Deletes the answers that match all conditions and frees the space; returns how many.

    `run` and `model` are exact names or GLOB patterns. Without a condition nothing is deleted.
    """
    conditions: list[tuple[str, object]] = []
    if run is not None:
        conditions.append(("run GLOB ?", run))
    if model is not None:
        conditions.append(("model GLOB ?", model))
    if older_than_seconds is not None:
        conditions.append(("created < ?", time.time() - older_than_seconds))
    if not conditions:
        raise StoreError("gc needs a condition", hint="Use --run, --model or --older-than; --dry_run only counts.")
    which = "SELECT id FROM origins WHERE " + " AND ".join(clause for clause, _ in conditions)
    values = [value for _, value in conditions]
    with _Opened(path) as connection:
        count = int(
            connection.execute(f"SELECT count(*) FROM responses WHERE origin IN ({which})", values).fetchone()[0]
        )
        if not dry_run:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"DELETE FROM responses WHERE origin IN ({which})", values)
            connection.execute(f"DELETE FROM facts WHERE origin IN ({which})", values)
            connection.execute(f"DELETE FROM origins WHERE id IN ({which})", values)
            connection.execute("COMMIT")
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return count


def export_responses(path: Path, *, run: str | None = None, model: str | None = None) -> Iterator[str]:
    """One JSON object a line: key, response, stop_reason, extras (reasoning, tool calls, …), run, model, created."""
    with _Opened(path) as connection:
        rows = connection.execute(
            "SELECT responses.* FROM responses LEFT JOIN origins ON id = origin "
            "WHERE (?1 IS NULL OR run GLOB ?1) AND (?2 IS NULL OR model GLOB ?2)",
            (run, model),
        )
        known = _origins(connection)
        for row in rows:
            response, origin = parse_row(row), known.get(row[4])
            if response is None:
                continue
            extras = response.extras()
            yield json.dumps(
                {
                    "key": row[0].hex(),
                    "response": response.answer,
                    "stop_reason": response.stop_reason,
                    **({"extras": extras} if extras else {}),
                    "run": None if origin is None else origin.run,
                    "model": None if origin is None else origin.model,
                    "created": None if origin is None else origin.created,
                }
            )


UNKNOWN = StoredOrigin(0, "", "", 0)


def _origins(connection: sqlite3.Connection) -> dict[int, StoredOrigin]:
    rows = map(parse_origin, connection.execute("SELECT * FROM origins"))
    return {origin.id: origin for origin in rows if origin is not None}


class _Opened:
    """A connection to a store that must be there, with database errors as `StoreError`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> sqlite3.Connection:
        _require(self.path)
        try:
            self._connection = connect(self.path)
        except sqlite3.DatabaseError as error:
            raise self._error(error) from error
        return self._connection

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._connection.close()
        if isinstance(error, sqlite3.Error):
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error) -> StoreError:
        if is_damage(error):
            return StoreError(
                f"the response store {self.path} is damaged: {error}", hint="assay store verify repairs it."
            )
        return write_error(self.path, error)


def _require(path: Path) -> None:
    if not path.exists():
        raise StoreError(
            f"there is no response store at {path}", hint="Runs create it; --store or ASSAY_STORE names another one."
        )
