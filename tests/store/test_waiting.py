"""A store that another process has locked: who waits is told, and not for ever."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.instance import Response
from assay.store import ResponseStore
from assay.store import waiting as waiting_module

KEY = bytes(32)


def locking(path: Path) -> sqlite3.Connection:
    """As a program does that looks into the file and leaves a transaction open."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


@pytest.mark.parametrize("before", [True, False], ids=["at the start", "in the middle"])
def test_who_waits_is_told_and_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture, before: bool) -> None:
    path = tmp_path / "store.db"
    ResponseStore(path).close()
    store = None if before else ResponseStore(path)
    other = locking(path)
    if before:  # in rollback mode a lock keeps readers out, too
        other.execute("ROLLBACK")
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
    threading.Timer(1.6, other.close).start()
    store = store or ResponseStore(path)
    store.put(KEY, Response("x"))
    store.flush()
    assert len(store) == 1
    store.close()
    told = [record.getMessage() for record in caplog.records if "locked" in record.getMessage()]
    assert len(told) == 1
    assert str(path) in told[0]
    assert "--store" in told[0]


def test_a_minute_is_waited_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    store = ResponseStore(path)
    other = locking(path)
    monkeypatch.setattr(waiting_module, "PATIENCE_SECONDS", 0.0)
    store.put(KEY, Response("x"))
    with pytest.raises(StoreError, match="locked"):
        store.flush()
    monkeypatch.setattr(waiting_module, "PATIENCE_SECONDS", 300.0)
    assert store.get_many([bytes([1]) * 32]) == {}, "reading is possible meanwhile"
    began = time.monotonic()
    with pytest.raises(StoreError, match="1 answers are waiting in memory"):
        store.flush()
    assert time.monotonic() - began < 100  # a sign of waiting again, not a speed
    other.close()
    store.close()
    with ResponseStore(path) as again:
        assert len(again) == 1
