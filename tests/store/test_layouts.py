"""Stores of every layout there has been: their answers are still good, whole and after damage."""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path

import pytest
from tests.store.stores import key

from assay.instance import Response
from assay.store import ResponseStore
from assay.store.database import APPLICATION_ID, VERSION
from assay.store.maintenance import verify

COLUMNS = (
    "key BLOB PRIMARY KEY, response TEXT NOT NULL, stop_reason TEXT, checksum INTEGER NOT NULL, origin INTEGER NOT NULL"
)
TOKENS = ", prompt_tokens INTEGER, response_tokens INTEGER"
EARLIER = {1: COLUMNS, 2: COLUMNS + TOKENS}


def write_layout(path: Path, layout: int, count: int) -> list[Response]:
    """A store as that version of Assay wrote it, and the responses in it."""
    raw = sqlite3.connect(path)
    raw.executescript(
        f"""PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {layout};
        CREATE TABLE origins (id INTEGER PRIMARY KEY, run TEXT NOT NULL, model TEXT NOT NULL, created INTEGER NOT NULL);
        CREATE TABLE responses ({EARLIER[layout]}) WITHOUT ROWID;
        INSERT INTO origins VALUES (1, 'run', 'model', 0);"""
    )
    for i in range(count):
        text = f'"answer {i}"'
        checksum = zlib.crc32(text.encode(), zlib.crc32(key(i)))
        tokens = (10 + i, i) if layout == 2 else ()
        if tokens:
            checksum = zlib.crc32(b"%d %d" % tokens, checksum)
        values = (key(i), text, None, checksum, 1, *tokens)
        raw.execute(f"INSERT INTO responses VALUES ({','.join('?' * len(values))})", values)
    raw.commit()
    raw.close()
    return [Response(f"answer {i}", tokens=(10 + i, i) if layout == 2 else None) for i in range(count)]


def test_every_earlier_layout_is_tried() -> None:
    assert list(EARLIER) == list(range(1, VERSION))


@pytest.mark.parametrize("layout", EARLIER)
def test_answers_of_an_earlier_layout_are_still_good(tmp_path: Path, layout: int) -> None:
    path = tmp_path / "s.sqlite"
    old = write_layout(path, layout, 3)
    new = Response("new", "eos", tokens=(5, 1), reasoning="because", tool_calls=({"name": "look"},), model="m-2026")
    with ResponseStore(path) as store:
        store.put(key(9), new)
        assert store.get_many([key(1)]) == {key(1): old[1]}
    with ResponseStore(path) as store:
        assert store.get_many([key(2), key(9)]) == {key(2): old[2], key(9): new}
    assert verify(path).spoiled == 0


@pytest.mark.parametrize("layout", EARLIER)
def test_a_damaged_store_of_an_earlier_layout_gives_back_what_is_readable(tmp_path: Path, layout: int) -> None:
    path = tmp_path / "s.sqlite"
    old = write_layout(path, layout, 500)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 3000)
    with ResponseStore(path, notify=lambda message: None) as store:
        found = store.get_many([key(i) for i in range(500)])
    assert len(found) > 200
    assert all(found[key(i)] == old[i] for i in range(500) if key(i) in found)


def test_what_came_with_an_answer_survives_damage(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    given = [Response(f"{i}", "eos", tokens=(i, i), reasoning="hm " * (i + 1), model="m") for i in range(300)]
    with ResponseStore(path) as store:
        for i, response in enumerate(given):
            store.put(key(i), response)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 5000)
    with ResponseStore(path, notify=lambda message: None) as store:
        found = store.get_many([key(i) for i in range(300)])
    assert 50 < len(found) < 300
    assert all(found[key(i)] == given[i] for i in range(300) if key(i) in found)


def test_reasoning_that_was_changed_on_disk_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with ResponseStore(path) as store:
        store.put(key(0), Response("4", reasoning="2 and 2"))
    raw = sqlite3.connect(path)
    raw.execute("UPDATE responses SET extras = replace(extras, '2 and 2', '3 and 1')")
    raw.commit()
    raw.close()
    with ResponseStore(path, notify=lambda message: None) as store:
        assert store.get_many([key(0)]) == {}
