"""The response store: answers by the content of the question, shared by all runs and processes.

Reading and writing share one connection under a lock. Writing is done by a thread of its own in batches, at most
a tenth of a second behind, so that a run never waits for the disk and a killed one loses next to nothing.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from assay.errors import StoreError
from assay.instance import Response
from assay.paths import assay_home
from assay.secret_texts import mask
from assay.store.codec import Row, make_row, parse_facts, parse_origin, parse_row, read_row
from assay.store.database import add_facts, add_origin, exclusive, is_damage, open_or_rebuild, rebuild, write_error

T = TypeVar("T")
logger = logging.getLogger("assay.store")

MOST_ROWS = 1024
"""Of one statement."""
WAKE_AT = 8000
FLUSH_SECONDS = 0.1

_VALUES = "(?, ?, ?, ?, ?, ?, ?, ?)"


def default_store_path() -> Path:
    """`ASSAY_STORE`, else `responses.sqlite` in `ASSAY_HOME`."""
    chosen = os.environ.get("ASSAY_STORE")
    return Path(chosen).expanduser() if chosen else assay_home() / "responses.sqlite"


@dataclass(eq=False)
class AnswerOrigin:
    """Where answers come from: a run of a model. Made by `ResponseStore.begin`."""

    run: str = ""
    model: str = ""
    fingerprint: str = ""
    facts: str | None = None
    """What the model said of itself and answered to probes, where nothing else can tell it from another."""
    trusted: Collection[int] | None = None
    """Earlier origins whose answers are this model's; None: all of them."""
    id: int = 0
    """Of the row, once there is one."""
    read_from: Counter[int] = field(default_factory=Counter)
    """How many answers of which earlier origin were read."""


class ResponseStore:
    """`get_many` and `put`. `fresh` sees only what this object wrote, and replaces older answers.

    Errors of the background writer surface at the next `put`, `flush` or `close`. Nothing is dropped: what could not
    be written stays in memory and is tried again.
    """

    def __init__(
        self, path: str | Path | None = None, *, fresh: bool = False, notify: Callable[[str], None] = logger.warning
    ) -> None:
        self.path = Path(path).expanduser() if path is not None else default_store_path()
        self.fresh = fresh
        self._notify = notify
        self._lock = threading.RLock()  # guards the connection
        self._pending_lock = threading.Lock()  # guards the two dicts, for moments
        self._connection, message = open_or_rebuild(self.path)
        if message:
            notify(message)
        self._inode = _inode(self.path)
        self._origin = AnswerOrigin()
        self._begun = [self._origin]
        self._pending: dict[bytes, tuple[Row, AnswerOrigin]] = {}
        self._writing: dict[bytes, tuple[Row, AnswerOrigin]] = {}
        self._failure: StoreError | None = None
        self._closed = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(
        self,
        *,
        run: str = "",
        model: str = "",
        fingerprint: str = "",
        facts: str | None = None,
        trusted: Collection[int] | None = None,
    ) -> AnswerOrigin:
        """Say which run and model answers come from; `gc` and `stats` go by it.

        What follows is read and written for it, unless `get_many` and `put` name another.
        """
        self._origin = AnswerOrigin(run, model, fingerprint, facts, trusted)
        self._begun.append(self._origin)
        return self._origin

    def facts_of(self, fingerprint: str) -> dict[int, str]:
        """By origin, oldest first: what a model of this fingerprint was known by when it gave answers."""
        query = "SELECT origin, facts FROM facts WHERE fingerprint = ? ORDER BY origin"
        rows = self._guarded(lambda: self._connection.execute(query, (fingerprint,)).fetchall())
        return dict(parsed for row in rows if (parsed := parse_facts(row)) is not None)

    def dates(self, origins: Collection[int]) -> list[int]:
        """When the runs of these origins began, in seconds, sorted."""
        marks = ",".join("?" * len(origins))
        query = f"SELECT * FROM origins WHERE id IN ({marks})"
        rows = self._guarded(lambda: self._connection.execute(query, [*origins]).fetchall())
        return sorted(origin.created for row in rows if (origin := parse_origin(row)) is not None)

    def get_many(self, keys: Iterable[bytes], origin: AnswerOrigin | None = None) -> dict[bytes, Response]:
        """The answers that are there. One that does not match its checksum is deleted and counts as missing."""
        origin = origin or self._origin
        found: dict[bytes, Response] = {}
        wanted: list[bytes] = []
        with self._pending_lock:  # in this order a row that is being written is in one of the two
            pending, writing = self._pending, self._writing
        for key in keys:
            waiting = pending.get(key) or writing.get(key)
            if waiting is None:
                wanted.append(key)
            else:
                found[key] = read_row(waiting[0])
        if wanted and (origin.id or not self._sees_nothing(origin)):
            found.update(self._guarded(lambda: self._read(wanted, origin)))
        return found

    def put(self, key: bytes, response: Response, origin: AnswerOrigin | None = None) -> None:
        """Keep a response, which must not be a failure. Returns at once; it is on disk a tenth of a second later."""
        if self._failure is not None:
            self._raise_failure()
        row = make_row(key, mask(response))
        with self._pending_lock:
            self._pending[key] = row, origin or self._origin
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_loop, name="assay-store", daemon=True)
                self._thread.start()
        if len(self._pending) >= WAKE_AT:
            self._wake.set()

    def flush(self) -> None:
        """Return when all that was put is on disk; raise `StoreError` when it cannot be."""
        self._failure = None
        self._write_pending()
        if self._failure is not None:
            self._raise_failure()

    def close(self) -> None:
        """Write what is left and end. Safe to call twice."""
        if self._closed:
            return
        try:
            self.flush()
        finally:
            self._closed = True
            self._wake.set()
            if self._thread is not None:
                self._thread.join()
            with self._lock:
                self._connection.close()

    def __len__(self) -> int:
        self.flush()
        return self._guarded(lambda: int(self._connection.execute("SELECT count(*) FROM responses").fetchone()[0]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close()
        except StoreError as second:  # the first error is the one to show
            error.add_note(str(second))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _sees_nothing(self, origin: AnswerOrigin) -> bool:
        return self.fresh or (origin.trusted is not None and not origin.trusted)

    def _trusts(self, origin: AnswerOrigin) -> Collection[int] | None:
        """Whose answers it may read: None for all."""
        if self.fresh:
            return (origin.id,)
        return None if origin.trusted is None else {*origin.trusted, origin.id}

    def _read(self, keys: Sequence[bytes], origin: AnswerOrigin) -> dict[bytes, Response]:
        found: dict[bytes, Response] = {}
        spoiled: list[tuple[bytes]] = []
        keys = sorted(keys)  # neighbours in the tree are read together
        trusted = self._trusts(origin)
        only = "" if trusted is None else f" AND origin IN ({','.join(map(str, trusted))})"
        for chunk in _chunks(keys):
            marks = ",".join("?" * len(chunk))
            rows = self._connection.execute(f"SELECT * FROM responses WHERE key IN ({marks}){only}", chunk)
            for row in rows.fetchall():
                if (response := parse_row(row)) is not None:
                    found[row[0]] = response
                    origin.read_from[row[4]] += row[4] != origin.id
                else:
                    spoiled.append((row[0],))
        if spoiled:
            self._connection.executemany("DELETE FROM responses WHERE key = ?", spoiled)
            self._notify(
                f"{len(spoiled)} answers in {self.path} did not match their checksum; they will be computed again"
            )
        return found

    def _write_loop(self) -> None:
        while not self._closed:
            self._wake.wait(FLUSH_SECONDS)
            self._wake.clear()
            if self._pending and self._failure is None:
                self._write_pending()

    def _write_pending(self) -> None:
        """Write all that is pending in one transaction; on failure keep it and remember why."""
        with self._lock:
            try:
                with self._pending_lock:
                    self._writing, self._pending = self._pending, {}
                if self._writing:
                    self._follow()
                    self._guarded(lambda: self._insert(list(self._writing.values())))
            except BaseException as error:  # also Ctrl-C: what is not written is tried again at the end
                with self._pending_lock:
                    self._pending = {**self._writing, **self._pending}
                if not isinstance(error, StoreError):
                    raise
                self._failure = error
            finally:
                self._writing = {}

    def _insert(self, waiting: list[tuple[Row, AnswerOrigin]]) -> None:
        connection = self._connection
        new: list[AnswerOrigin] = []
        connection.execute("BEGIN IMMEDIATE")
        try:
            for origin in dict.fromkeys(origin for _, origin in waiting):
                if not origin.id:
                    new.append(origin)
                    origin.id = add_origin(self._connection, mask(origin.run), mask(origin.model))
                    if origin.facts is not None:
                        add_facts(self._connection, origin.id, origin.fingerprint, mask(origin.facts))
                batch = [(*row[:4], origin.id, *row[5:]) for row, owner in waiting if owner is origin]
                self._insert_rows(sorted(batch, key=itemgetter(0)), self._trusts(origin))
            connection.execute("COMMIT")
        except BaseException:
            for origin in new:
                origin.id = 0
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _insert_rows(self, rows: list[Row], trusted: Collection[int] | None) -> None:
        # The first answer stays, so that two processes that ask the same thing read the same thing ever after; but not
        # one of an origin that is not trusted: the model that gave it is not this one.
        verb = "INSERT OR IGNORE" if trusted is None else "INSERT OR REPLACE"
        if trusted is not None and not self.fresh:
            rows = self._without_trusted(rows, trusted)
        # Many rows to a statement: a statement gives up the interpreter lock once, and getting it back from a busy
        # main thread takes milliseconds.
        for chunk in _chunks(rows):
            values = [value for row in chunk for value in row]
            self._connection.execute(f"{verb} INTO responses VALUES {','.join([_VALUES] * len(chunk))}", values)

    def _without_trusted(self, rows: list[Row], trusted: Collection[int]) -> list[Row]:
        there: set[bytes] = set()
        for keys in _chunks([row[0] for row in rows]):
            query = f"SELECT key FROM responses WHERE key IN ({','.join('?' * len(keys))})"
            found = self._connection.execute(f"{query} AND origin IN ({','.join(map(str, trusted))})", keys)
            there.update(key for (key,) in found)
        return [row for row in rows if row[0] not in there]

    def _guarded(self, work: Callable[[], T]) -> T:
        """Do it under the lock; once more on a rebuilt file when the store turns out to be damaged."""
        with self._lock:
            try:
                return work()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise write_error(self.path, error) from error
                self._repair(str(error))
            try:
                return work()
            except sqlite3.DatabaseError as error:
                raise write_error(self.path, error) from error

    def _follow(self) -> None:
        """Another process may have set a damaged file aside and made a new one: write where others read."""
        if _inode(self.path) != self._inode:
            self._repair("replaced")

    def _repair(self, reason: str) -> None:
        self._connection.close()
        for origin in self._begun:  # a store that was made anew has other numbers, and no facts
            origin.id, origin.trusted = 0, None if origin.trusted is None else ()
            origin.read_from.clear()
        if _inode(self.path) != self._inode:  # another process has put it right already
            self._connection, message = open_or_rebuild(self.path)
        else:
            with exclusive(self.path):
                self._connection, message = rebuild(self.path, reason)
        self._inode = _inode(self.path)
        if message:
            self._notify(message)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            failure.message += f" ({len(self._pending)} answers are waiting in memory)"
            raise failure


def _chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Parts for one statement each, of 1024, 512, … 1 items.

    SQLite keeps a statement for every number of rows that it has seen, with the values of its last use: half a megabyte.
    """
    start = 0
    while left := len(items) - start:
        size = min(MOST_ROWS, 1 << (left.bit_length() - 1))
        yield items[start : start + size]
        start += size


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return -1
