"""Stores that were cut off, overwritten, changed, or written by another version."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from tests.store.stores import fill, key

from assay.errors import StoreError
from assay.instance import Response
from assay.store import ResponseStore, stats, verify


@pytest.mark.parametrize("text", ["", "long answer " * 1000])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_store_cut_off_in_the_middle_is_set_aside_and_rebuilt(tmp_path: Path, text: str, part: float) -> None:
    path = tmp_path / "s.sqlite"
    n = 3000 if not text else 60
    keys = fill(path, n, text=text)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
    messages: list[str] = []
    with ResponseStore(path, notify=messages.append) as store:
        found = store.get_many(keys)
        assert part * 0.75 * n < len(found) < n
        for i, k in enumerate(keys):
            if k in found:
                assert found[k].answer == (f"{text}{i}" if text else (-float(i), i % 2 == 0))
        store.put(key(0), Response("again"))
    assert len(messages) == 1
    assert "damaged" in messages[0]
    assert str(len(found)) in messages[0]
    assert len(list(tmp_path.glob("s.sqlite.damaged-*"))) == 1


def test_a_store_without_its_head_gives_back_all_other_pages(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    keys = fill(path, 2000)
    data = path.read_bytes()
    path.write_bytes(os.urandom(4096) + data[4096:])
    messages: list[str] = []
    with ResponseStore(path, notify=messages.append) as store:
        assert len(store.get_many(keys)) == 2000
    assert messages


def test_answers_only_in_the_journal_are_rescued_too(tmp_path: Path) -> None:
    path, copy = tmp_path / "s.sqlite", tmp_path / "copy.sqlite"
    fill(path, 500)
    with ResponseStore(path) as store:
        for i in range(500, 900):
            store.put(key(i), Response(i))
        store.flush()
        wal = Path(f"{path}-wal").read_bytes()
        assert len(wal) > 1000
        copy.write_bytes(b"\xff" * 5000 + path.read_bytes()[5000:])
        Path(f"{copy}-wal").write_bytes(wal)
    messages: list[str] = []
    with ResponseStore(copy, notify=messages.append) as store:
        assert len(store.get_many([key(i) for i in range(500, 900)])) >= 390


def test_damage_met_in_the_middle_of_a_run_is_put_right_and_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    keys = fill(path, 3000)
    messages: list[str] = []
    store = ResponseStore(path, notify=messages.append)
    data = bytearray(path.read_bytes())
    for page in range(3, len(data) // 4096, 4):
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(bytes(data))
    store._connection.execute("PRAGMA cache_size = 0")
    found = store.get_many(keys)
    assert 1500 < len(found) < 3000
    assert len(messages) == 1
    for k in keys:
        if k not in found:
            store.put(k, Response("computed again"))
    store.close()
    with ResponseStore(path, notify=pytest.fail) as store:
        assert len(store.get_many(keys)) == 3000


def test_a_store_that_another_process_rebuilt_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    store = ResponseStore(path)
    store.put(key(1), Response("before"))
    store.flush()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").rename(f"{tmp_path}/aside{suffix}")
    with ResponseStore(path) as other:
        other.put(key(2), Response("of the other"))
    store.put(key(3), Response("after"))
    store.close()
    with ResponseStore(path) as again:
        assert set(again.get_many([key(i) for i in range(5)])) == {key(2), key(3)}


def test_a_changed_answer_is_noticed_and_counts_as_missing(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    keys = fill(path, 10, text="a long enough answer ")
    raw = sqlite3.connect(path)
    raw.execute("UPDATE responses SET response = '\"forged\"' WHERE key = ?", (keys[4],))
    raw.commit()
    raw.close()
    messages: list[str] = []
    with ResponseStore(path, notify=messages.append) as store:
        assert set(keys) - set(store.get_many(keys)) == {keys[4]}
        assert "checksum" in messages[0]
        store.put(keys[4], Response("right"))
    assert verify(path).spoiled == 0
    assert stats(path).responses == 10


def test_another_kind_of_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n" * 500)
    with pytest.raises(StoreError, match="not a response store"):
        ResponseStore(path)
    assert path.read_text().startswith("my notes")


def test_another_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE people (name)")
    other.commit()
    other.close()
    with pytest.raises(StoreError, match="people"):
        ResponseStore(path)


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    fill(path, 1)
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(StoreError, match="layout 99"):
        ResponseStore(path)
