"""`assay store`: what is in a store, and what to do about it."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.instance import Response
from assay.store import ResponseStore, collect_garbage, export_responses, request_key, stats, verify


def key(i: int) -> bytes:
    return request_key("m", "generate_until", (str(i), {}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Ten answers of run one, five of run two by another model."""
    path = tmp_path / "s.sqlite"
    with ResponseStore(path) as store:
        store.begin(run="one", model="hf/a")
        for i in range(10):
            store.put(key(i), Response(f"answer {i}"))
        store.begin(run="two", model="hf/b")
        for i in range(10, 15):
            store.put(key(i), Response(f"answer {i}", "length"))
    return path


def test_stats_count_by_run_and_model(path: Path) -> None:
    found = stats(path)
    assert found.responses == 15
    assert found.size >= path.stat().st_size
    assert {(o.run, o.model): o.responses for o in found.origins} == {("one", "hf/a"): 10, ("two", "hf/b"): 5}


def test_gc_takes_what_fits_all_conditions(path: Path) -> None:
    assert collect_garbage(path, run="one", model="hf/b") == 0
    assert collect_garbage(path, model="hf/*", older_than_seconds=3600) == 0
    assert collect_garbage(path, run="one", dry_run=True) == 10
    assert stats(path).responses == 15
    assert collect_garbage(path, run="one") == 10
    assert [o.run for o in stats(path).origins] == ["two"]


def test_gc_by_age(path: Path) -> None:
    raw = sqlite3.connect(path)
    raw.execute("UPDATE origins SET created = created - 1000000 WHERE run = 'one'")
    raw.commit()
    raw.close()
    assert collect_garbage(path, older_than_seconds=86400) == 10


def test_gc_without_a_condition_is_refused(path: Path) -> None:
    with pytest.raises(StoreError, match="gc needs a condition"):
        collect_garbage(path)
    assert stats(path).responses == 15


def test_gc_gives_the_space_back(tmp_path: Path) -> None:
    path = tmp_path / "big.sqlite"
    with ResponseStore(path) as store:
        store.begin(run="big")
        for i in range(300):
            store.put(key(i), Response("x" * 3000))
    before = stats(path).size
    collect_garbage(path, run="big")
    assert stats(path).size < before / 5


def test_export_is_one_json_object_a_line(path: Path) -> None:
    rows = [json.loads(line) for line in export_responses(path, run="two")]
    assert len(rows) == 5
    assert {row["response"] for row in rows} == {f"answer {i}" for i in range(10, 15)}
    assert {(row["stop_reason"], row["run"], row["model"]) for row in rows} == {("length", "two", "hf/b")}
    assert all(len(row["key"]) == 64 for row in rows)
    assert len(list(export_responses(path))) == 15


def test_verify_finds_and_removes_spoiled_answers(path: Path) -> None:
    assert verify(path).checked == 15
    raw = sqlite3.connect(path)
    raw.execute("UPDATE responses SET stop_reason = 'eos' WHERE key = ?", (key(3),))
    raw.commit()
    raw.close()
    found = verify(path)
    assert (found.checked, found.spoiled, found.message) == (15, 1, None)
    assert verify(path).checked == 14


def test_verify_rebuilds_a_damaged_file(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 100])
    with pytest.raises(StoreError, match="assay store verify"):
        stats(path)
    assert "damaged" in (verify(path).message or "")
    assert verify(path).message is None


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    for ask in (stats, verify, lambda p: list(export_responses(p)), lambda p: collect_garbage(p, run="x")):
        with pytest.raises(StoreError, match="no response store"):
            ask(tmp_path / "none.sqlite")
    assert not list(tmp_path.iterdir())
