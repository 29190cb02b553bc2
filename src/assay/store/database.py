"""One SQLite file: its layout, how it is opened, and how damage is found and put right."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from assay.errors import StoreError
from assay.store.recovery import open_to_read, surviving_rows
from assay.store.waiting import STEP_SECONDS, WaitingConnection

logger = logging.getLogger("assay.store")

APPLICATION_ID = 0x41535359  # "ASSY"
VERSION = 3
CHECK_AT_OPEN_BYTES = 64 << 20
"""Up to this size the whole file is checked at every start (tens of milliseconds); above, `assay store verify` does it.
Damage that is met later is found all the same, by SQLite or by a row's checksum."""

LAYOUT = """
CREATE TABLE IF NOT EXISTS origins (
    id INTEGER PRIMARY KEY, run TEXT NOT NULL, model TEXT NOT NULL, created INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS responses (
    key BLOB PRIMARY KEY, response TEXT NOT NULL, stop_reason TEXT, checksum INTEGER NOT NULL, origin INTEGER NOT NULL,
    prompt_tokens INTEGER, response_tokens INTEGER, extras TEXT
) WITHOUT ROWID;
"""
FACTS = """
CREATE TABLE IF NOT EXISTS facts (
    origin INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, facts TEXT NOT NULL
);
"""
"""What a model that cannot be looked into (a server) said of itself and answered to probes when its answers were given."""

_SIDE_FILES = ("-wal", "-shm", "-journal")
_RECOVER = "install a sqlite3 shell whose .recover works and run again, or move the file away and begin a new store."
_DAMAGE = ("malformed", "not a database", "database disk image", "file is encrypted", "no such table", "no such column")


class NotAStore(StoreError):
    """The file is something else; it is left alone."""


def is_damage(error: sqlite3.Error) -> bool:
    text = str(error)
    return any(sign in text for sign in _DAMAGE)


def connect(path: Path) -> sqlite3.Connection:
    """Open or create. Raises `sqlite3.DatabaseError` on damage, `StoreError` on what no repair can help."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(
            os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o600)
        )  # answers are the user's own
        connection = sqlite3.connect(
            path,
            timeout=STEP_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=32,
            factory=WaitingConnection,
        )
        connection.where = str(path)
        # A flipped bit makes a text that is no UTF-8: it is read as it is, and its checksum finds it out.
        connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    except (OSError, sqlite3.OperationalError) as error:
        raise StoreError(
            f"the response store {path} cannot be opened: {error}",
            hint="Choose another place with --store or ASSAY_STORE.",
        ) from error
    try:
        _prepare(connection, path)
    except sqlite3.OperationalError as error:
        connection.close()
        if is_damage(error):
            raise
        raise write_error(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    require_plain(connection, path)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and application != APPLICATION_ID:
        raise NotAStore(
            f"{path} is a database, but not a response store (its tables: {', '.join(sorted(tables))})",
            hint="Choose another path with --store or ASSAY_STORE.",
        )
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(responses)")]
    if version > VERSION and columns == _COLUMNS:  # a later layout has other columns: only the number is spoiled
        connection.execute(f"PRAGMA user_version = {VERSION}")
    elif version > VERSION:
        raise StoreError(
            f"the response store {path} has layout {version}; this version of Assay reads layout {VERSION}",
            hint="Upgrade Assay, or choose another path with --store.",
        )
    # WAL: readers and one writer of several processes do not wait for each other, and a killed process loses nothing
    # that was committed. NORMAL: a power cut may lose the last commits but never damages the file.
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA cache_size = -2048")
    if "responses" not in tables or "origins" not in tables:
        if application == APPLICATION_ID and tables:
            raise sqlite3.DatabaseError("malformed: a table is missing")
        marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
        connection.executescript(f"BEGIN IMMEDIATE; {marks} {FACTS} {LAYOUT} COMMIT;")
    elif columns != _COLUMNS:
        _upgrade(connection, columns)
    elif "facts" not in tables:
        connection.executescript(FACTS)
    size = connection.execute("PRAGMA page_count").fetchone()[0] * connection.execute("PRAGMA page_size").fetchone()[0]
    if size <= CHECK_AT_OPEN_BYTES:
        check_pages(connection)


def require_plain(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that would run code of its own: views, triggers, computed columns, checks and indices, of which a store has none."""
    connection.execute("PRAGMA trusted_schema = OFF")
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if sql is not None and (kind != "table" or str(sql).count("(") != 1 or "virtual" in str(sql).lower()):
            raise NotAStore(
                f"{path} is not a response store of Assay's: it has the {kind} {str(name)[:80]!r}, which would run code of its own",
                hint="Choose another path with --store or ASSAY_STORE.",
            )


_COLUMNS = ["key", "response", "stop_reason", "checksum", "origin", "prompt_tokens", "response_tokens", "extras"]
_ADDED = ("prompt_tokens INTEGER", "response_tokens INTEGER", "extras TEXT")
"""Columns that came later. Layout 1 had no token counts, 2 nothing else that came with an answer."""


def _upgrade(connection: sqlite3.Connection, columns: list[str]) -> None:
    """Old rows have nothing in the new columns, and none is rewritten. What the columns are says which layout it is."""
    added = [column for column in _ADDED if column.split()[0] not in columns]
    if [*columns, *(column.split()[0] for column in added)] != _COLUMNS:
        raise sqlite3.DatabaseError(f"malformed: the columns are {', '.join(columns)}")
    alter = " ".join(f"ALTER TABLE responses ADD COLUMN {column};" for column in added)
    connection.executescript(f"BEGIN IMMEDIATE; {alter} {FACTS} PRAGMA user_version = {VERSION}; COMMIT;")


def check_pages(connection: sqlite3.Connection, how: str = "quick_check") -> None:
    """Raise when a page of the file does not fit the others; `integrity_check` takes longer and looks at indices too."""
    found = connection.execute(f"PRAGMA {how}(1)").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(f"malformed: {found}")


def open_or_rebuild(path: Path) -> tuple[sqlite3.Connection, str | None]:
    """Open; where the file is damaged, set it aside and go on with what can still be read of it.

    The message says what happened, or is None. Safe when several processes find the damage at once.
    """
    with exclusive(path):
        try:
            return connect(path), None
        except sqlite3.DatabaseError as error:
            return rebuild(path, str(error))


def rebuild(path: Path, reason: str) -> tuple[sqlite3.Connection, str]:
    """Move the damaged file and its journal aside and make a new store of the readable answers."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(open_to_read(path)) as connection:
        require_plain(connection, path)
    rows = surviving_rows(path)
    if rows is None and path.stat().st_size:
        with open(path, "rb") as file:
            is_sqlite = file.read(16) == b"SQLite format 3\0"
        if not is_sqlite:
            raise NotAStore(
                f"{path} is not a response store, and nothing in it looks like one",
                hint=f"Choose another path with --store or ASSAY_STORE. If it was a store, {_RECOVER}",
            )
        raise StoreError(
            f"the response store {path} is damaged ({reason}) so that SQLite cannot read it; nothing was changed",
            hint=_RECOVER[0].upper() + _RECOVER[1:],
        )
    rows = rows or []
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    for suffix in ("", *_SIDE_FILES):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{suffix}", f"{aside}{suffix}")
    connection = connect(path)
    connection.execute("BEGIN IMMEDIATE")
    origin = add_origin(connection, "recovered", "unknown")
    connection.executemany(
        "INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [(*row[:4], origin, *row[5:]) for row in rows],
    )
    connection.execute("COMMIT")
    return connection, (
        f"the response store {path} was damaged ({reason}); {len(rows)} answers could be read and are stored; the damaged file is now {aside.name}; missing answers will be computed again"
    )


def add_origin(connection: sqlite3.Connection, run: str, model: str) -> int:
    """A row that says which run of which model answers come from."""
    found = connection.execute(
        "INSERT INTO origins (run, model, created) VALUES (?, ?, ?)", (run, model, int(time.time()))
    ).lastrowid
    assert found is not None
    return found


def add_facts(connection: sqlite3.Connection, origin: int, fingerprint: str, facts: str) -> None:
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (origin, fingerprint, facts))


def write_error(path: Path, error: BaseException) -> StoreError:
    """The error for a write that failed, with the next thing to do."""
    text = str(error)
    if "full" in text or getattr(error, "errno", None) == errno.ENOSPC:
        hint = "Free some space, or move the store with --store or ASSAY_STORE; then run the same command again."
    elif "readonly" in text or "read-only" in text:
        hint = "The store is not writable; choose another place with --store or ASSAY_STORE."
    elif "locked" in text:
        hint = "Another process has locked the store for more than a minute; wait for it, or use another --store."
    else:
        hint = "Run the same command again; only missing answers are computed."
    return StoreError(
        f"the response store {path} could not be written: {text}; what was already written is stored", hint=hint
    )


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file beside the store, so that only one process opens or repairs it at a time."""
    if os.name == "nt":  # SQLite's own locks are all there is
        yield
        return
    file: int | None = None
    with contextlib.suppress(OSError):  # a directory that cannot be written gives its clear error in connect()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Neither through a link nor into a pipe that somebody put there.
        file = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        if file is not None and stat.S_ISREG(os.fstat(file).st_mode):
            _wait_for_lock(file, path)
        yield
    finally:
        if file is not None:
            os.close(file)


def _wait_for_lock(file: int, path: Path) -> None:
    import fcntl

    for second in range(600):
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if second == 2:
                logger.warning(
                    "another process is opening or repairing the response store %s; waiting up to ten minutes for it; "
                    "end it, or choose another place with --store or ASSAY_STORE",
                    path,
                )
            time.sleep(1 if second else 0.05)
        except OSError:  # some network file systems have no locks
            return None
    raise StoreError(
        f"another process has held {path}.lock for ten minutes", hint="Stop it, or choose another place with --store."
    )
