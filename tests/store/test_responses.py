"""The store keeps what it is given, across processes, kills, full disks and damage."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest

from assay.errors import StoreError
from assay.store import ResponseStore, StoredResponse, default_store_path, request_key, stats, verify
from assay.store.database import APPLICATION_ID


def key(i: int) -> bytes:
    return request_key("m", "loglikelihood", (f"context {i}", " yes"))


def fill(path: Path, n: int, *, text: str = "") -> list[bytes]:
    with ResponseStore(path) as store:
        for i in range(n):
            store.put(key(i), f"{text}{i}" if text else (-float(i), i % 2 == 0), "stop" if i % 3 else None)
    return [key(i) for i in range(n)]


def put_slowly(store: ResponseStore, numbers: range) -> None:
    for i in numbers:
        store.put(key(i), "x" * 1000)
        if i % 100 == 0:
            store.flush()


def put_until(store: ResponseStore, deadline: float) -> None:
    while time.monotonic() < deadline:
        store.put(key(1), "y")
        time.sleep(0.05)


def test_an_empty_store_has_nothing(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "s.sqlite") as store:
        assert store.get_many([]) == {}
        assert store.get_many([key(1)]) == {}
        assert len(store) == 0


def test_what_was_put_is_found_at_once_and_after_reopening(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "deep" / "s.sqlite") as store:
        store.put(key(1), (-1.5, True))
        store.put(key(2), "text", "length", (812, 3))
        assert store.get_many([key(1), key(2), key(3)]) == {
            key(1): StoredResponse((-1.5, True)),
            key(2): StoredResponse("text", "length", (812, 3)),
        }
    with ResponseStore(tmp_path / "deep" / "s.sqlite") as store:
        assert store.get_many([key(2), key(2), key(1)]) == {
            key(1): StoredResponse((-1.5, True)),
            key(2): StoredResponse("text", "length", (812, 3)),
        }


def test_many_answers_in_chunks_of_any_size(tmp_path: Path) -> None:
    keys = fill(tmp_path / "s.sqlite", 2501)
    with ResponseStore(tmp_path / "s.sqlite") as store:
        found = store.get_many(keys)
        assert len(found) == len(store) == 2501
        assert found[keys[7]] == StoredResponse((-7.0, False), "stop")


def test_the_first_answer_stays(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "s.sqlite") as store:
        store.put(key(1), "first")
        store.flush()
        store.put(key(1), "second")
        store.flush()
        assert store.get_many([key(1)])[key(1)].response == "first"


def test_answers_reach_the_disk_within_a_second_without_being_asked(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "s.sqlite")
    store.put(key(1), "x")
    other = sqlite3.connect(tmp_path / "s.sqlite")
    deadline = time.monotonic() + 30  # generous: the machine may be busy; the writer wakes twice a second
    while not other.execute("SELECT count(*) FROM responses").fetchone()[0] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert other.execute("SELECT count(*) FROM responses").fetchone()[0] == 1
    other.close()
    store.close()


def test_fresh_sees_only_its_own_answers_and_replaces_the_old(tmp_path: Path) -> None:
    keys = fill(tmp_path / "s.sqlite", 3, text="old")
    with ResponseStore(tmp_path / "s.sqlite", fresh=True) as store:
        assert store.get_many(keys) == {}
        store.put(keys[0], "new")
        assert store.get_many(keys) == {keys[0]: StoredResponse("new")}
        store.flush()
        assert store.get_many(keys) == {keys[0]: StoredResponse("new")}
    with ResponseStore(tmp_path / "s.sqlite") as store:
        assert [store.get_many(keys)[k].response for k in keys] == ["new", "old1", "old2"]


def test_threads_may_put_and_get_together(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "s.sqlite") as store:

        def work(start: int) -> None:
            for i in range(start, start + 400):
                store.put(key(i), i)
                assert store.get_many([key(i)])[key(i)].response == i

        threads = [threading.Thread(target=work, args=(n * 400,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store) == 1600


def test_close_twice_is_harmless(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "s.sqlite")
    store.close()
    store.close()


WRITER = """
import sys
from pathlib import Path
from assay.store import ResponseStore, request_key
store = ResponseStore(Path(sys.argv[1]))
for i in range(int(sys.argv[2]), int(sys.argv[3])):
    store.put(request_key("m", "loglikelihood", (f"context {i}", " yes")), f"answer {i}")
    if i % 50 == 0:
        store.flush()
        print(i, flush=True)
store.close()
print("done", flush=True)
"""


def test_two_processes_share_one_store(tmp_path: Path) -> None:
    path = str(tmp_path / "s.sqlite")
    ranges = [("0", "1500"), ("1000", "2500")]
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, path, *r], stdout=subprocess.DEVNULL) for r in ranges]
    assert [process.wait() for process in processes] == [0, 0]
    with ResponseStore(path) as store:
        found = store.get_many([key(i) for i in range(2500)])
    assert [found[key(i)].response for i in range(2500)] == [f"answer {i}" for i in range(2500)]


def test_a_killed_process_loses_nothing_that_was_flushed(tmp_path: Path) -> None:
    path, rng = tmp_path / "s.sqlite", random.Random(5)
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), "0", "1000000"], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        last = 0
        for _ in range(rng.randrange(2, 12)):
            last = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
        with ResponseStore(path, notify=pytest.fail) as store:
            found = store.get_many([key(i) for i in range(last + 1)])
        assert len(found) == last + 1
        assert found[key(last)].response == f"answer {last}"


def test_a_full_disk_is_said_and_what_was_written_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    fill(path, 100)
    store = ResponseStore(path)
    store._connection.execute("PRAGMA max_page_count = 12")  # SQLite's own «database or disk is full»
    with pytest.raises(StoreError, match=r"full.*kept"):
        put_slowly(store, range(100, 2000))
    with pytest.raises(StoreError, match="answers wait in memory"):
        store.flush()
    store._connection.execute("PRAGMA max_page_count = 100000")  # room again: nothing was dropped
    store.close()
    with ResponseStore(path) as again:
        assert len(again.get_many([key(i) for i in range(201)])) == 201


def test_the_background_writers_error_reaches_the_next_put(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "s.sqlite")
    store._connection.execute("PRAGMA max_page_count = 4")
    store.put(key(0), "x" * 100_000)
    deadline = time.monotonic() + 30
    with pytest.raises(StoreError, match="full"):
        put_until(store, deadline)
    store._connection.execute("PRAGMA max_page_count = 100000")
    store.close()


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
                assert found[k].response == (f"{text}{i}" if text else (-float(i), i % 2 == 0))
        store.put(key(0), "again")
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
            store.put(key(i), i)
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
            store.put(k, "computed again")
    store.close()
    with ResponseStore(path, notify=pytest.fail) as store:
        assert len(store.get_many(keys)) == 3000


def test_a_store_that_another_process_rebuilt_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    store = ResponseStore(path)
    store.put(key(1), "before")
    store.flush()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").rename(f"{tmp_path}/aside{suffix}")
    with ResponseStore(path) as other:
        other.put(key(2), "of the other")
    store.put(key(3), "after")
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
        store.put(keys[4], "right")
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


FIRST_LAYOUT = """
CREATE TABLE origins (id INTEGER PRIMARY KEY, run TEXT NOT NULL, model TEXT NOT NULL, created INTEGER NOT NULL);
CREATE TABLE responses (
    key BLOB PRIMARY KEY, response TEXT NOT NULL, stop_reason TEXT, checksum INTEGER NOT NULL, origin INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO origins VALUES (1, 'run', 'model', 0);
PRAGMA user_version = 1;
"""


def first_layout(path: Path, count: int) -> None:
    """A store as it was before token counts were kept."""
    raw = sqlite3.connect(path)
    raw.executescript(f"PRAGMA application_id = {APPLICATION_ID}; {FIRST_LAYOUT}")
    texts = [(key(i), f'"answer {i}"') for i in range(count)]
    rows = [(k, text, None, zlib.crc32(text.encode(), zlib.crc32(k)), 1) for k, text in texts]
    raw.executemany("INSERT INTO responses VALUES (?, ?, ?, ?, ?)", rows)
    raw.commit()
    raw.close()


def test_answers_of_the_first_layout_are_still_good(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    first_layout(path, 3)
    with ResponseStore(path) as store:
        store.put(key(9), "new", "eos", (5, 1))
        assert store.get_many([key(1)]) == {key(1): StoredResponse("answer 1")}
    with ResponseStore(path) as store:
        assert store.get_many([key(2), key(9)]) == {
            key(2): StoredResponse("answer 2"),
            key(9): StoredResponse("new", "eos", (5, 1)),
        }
    assert verify(path).spoiled == 0


def test_a_damaged_store_of_the_first_layout_gives_back_what_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    first_layout(path, 500)
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 3000)
    with ResponseStore(path, notify=lambda message: None) as store:
        found = store.get_many([key(i) for i in range(500)])
    assert len(found) > 200
    assert all(found[key(i)] == StoredResponse(f"answer {i}") for i in range(500) if key(i) in found)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        ResponseStore(tmp_path / "file" / "s.sqlite")


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "s.sqlite").touch()
    with ResponseStore(tmp_path / "s.sqlite") as store:
        store.put(key(1), "x")
    assert stats(tmp_path / "s.sqlite").responses == 1


def test_the_default_place_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    monkeypatch.delenv("ASSAY_STORE", raising=False)
    assert default_store_path() == tmp_path / "responses.sqlite"
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "other.sqlite"))
    assert default_store_path() == tmp_path / "other.sqlite"
    assert json.dumps(str(ResponseStore().path)) == json.dumps(str(tmp_path / "other.sqlite"))


def test_a_lone_surrogate_in_a_stop_reason_is_kept_as_an_escape(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "s.sqlite") as store:
        store.put(key(1), "é\ud800", "é\ud800")
    with ResponseStore(tmp_path / "s.sqlite") as store:
        assert store.get_many([key(1)]) == {key(1): StoredResponse("é\ud800", "é\\ud800")}


def test_an_interrupt_while_writing_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: object) -> None:
        raise KeyboardInterrupt

    with ResponseStore(tmp_path / "s.sqlite") as store:
        with monkeypatch.context() as patched:
            patched.setattr("assay.store.responses.FLUSH_SECONDS", 60.0)
            patched.setattr(store, "_insert", interrupted)
            store.put(key(1), "kept")
            with pytest.raises(KeyboardInterrupt):
                store.flush()
        assert store.get_many([key(1)]) == {key(1): StoredResponse("kept")}
    with ResponseStore(tmp_path / "s.sqlite") as store:
        assert store.get_many([key(1)]) == {key(1): StoredResponse("kept")}
