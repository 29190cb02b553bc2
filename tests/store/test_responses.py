"""The store keeps what it is given, across processes, kills, full disks and damage."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.store.stores import fill, key

from assay.errors import StoreError
from assay.instance import Response
from assay.store import ResponseStore, default_store_path, stats


def put_slowly(store: ResponseStore, numbers: range) -> None:
    for i in numbers:
        store.put(key(i), Response("x" * 1000))
        if i % 100 == 0:
            store.flush()


def put_until(store: ResponseStore, deadline: float) -> None:
    while time.monotonic() < deadline:
        store.put(key(1), Response("y"))
        time.sleep(0.05)


def test_an_empty_store_has_nothing(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "s.sqlite") as store:
        assert store.get_many([]) == {}
        assert store.get_many([key(1)]) == {}
        assert len(store) == 0


def test_what_was_put_is_found_at_once_and_after_reopening(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "deep" / "s.sqlite") as store:
        store.put(key(1), Response((-1.5, True)))
        store.put(key(2), Response("text", "length", tokens=(812, 3)))
        assert store.get_many([key(1), key(2), key(3)]) == {
            key(1): Response((-1.5, True)),
            key(2): Response("text", "length", tokens=(812, 3)),
        }
    with ResponseStore(tmp_path / "deep" / "s.sqlite") as store:
        assert store.get_many([key(2), key(2), key(1)]) == {
            key(1): Response((-1.5, True)),
            key(2): Response("text", "length", tokens=(812, 3)),
        }


def test_many_answers_in_chunks_of_any_size(tmp_path: Path) -> None:
    keys = fill(tmp_path / "s.sqlite", 2501)
    with ResponseStore(tmp_path / "s.sqlite") as store:
        found = store.get_many(keys)
        assert len(found) == len(store) == 2501
        assert found[keys[7]] == Response((-7.0, False), "stop")


def test_the_first_answer_stays(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "s.sqlite") as store:
        store.put(key(1), Response("first"))
        store.flush()
        store.put(key(1), Response("second"))
        store.flush()
        assert store.get_many([key(1)])[key(1)].answer == "first"


def test_answers_reach_the_disk_within_a_second_without_being_asked(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "s.sqlite")
    store.put(key(1), Response("x"))
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
        store.put(keys[0], Response("new"))
        assert store.get_many(keys) == {keys[0]: Response("new")}
        store.flush()
        assert store.get_many(keys) == {keys[0]: Response("new")}
    with ResponseStore(tmp_path / "s.sqlite") as store:
        assert [store.get_many(keys)[k].answer for k in keys] == ["new", "old1", "old2"]


def test_threads_may_put_and_get_together(tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "s.sqlite") as store:

        def work(start: int) -> None:
            for i in range(start, start + 400):
                store.put(key(i), Response(i))
                assert store.get_many([key(i)])[key(i)].answer == i

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
from assay.instance import Response
from assay.store import ResponseStore, request_key
store = ResponseStore(Path(sys.argv[1]))
for i in range(int(sys.argv[2]), int(sys.argv[3])):
    store.put(request_key("m", "loglikelihood", (f"context {i}", " yes")), Response(f"answer {i}"))
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
    assert [found[key(i)].answer for i in range(2500)] == [f"answer {i}" for i in range(2500)]


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
        assert found[key(last)].answer == f"answer {last}"


def test_a_full_disk_is_said_and_what_was_written_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    fill(path, 100)
    store = ResponseStore(path)
    store._connection.execute("PRAGMA max_page_count = 12")  # SQLite's own «database or disk is full»
    with pytest.raises(StoreError, match="disk is full"):
        put_slowly(store, range(100, 2000))
    with pytest.raises(StoreError, match="answers are waiting in memory"):
        store.flush()
    store._connection.execute("PRAGMA max_page_count = 100000")  # room again: nothing was dropped
    store.close()
    with ResponseStore(path) as again:
        assert len(again.get_many([key(i) for i in range(201)])) == 201


def test_the_background_writers_error_reaches_the_next_put(tmp_path: Path) -> None:
    store = ResponseStore(tmp_path / "s.sqlite")
    store._connection.execute("PRAGMA max_page_count = 4")
    store.put(key(0), Response("x" * 100_000))
    deadline = time.monotonic() + 30
    with pytest.raises(StoreError, match="full"):
        put_until(store, deadline)
    store._connection.execute("PRAGMA max_page_count = 100000")
    store.close()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        ResponseStore(tmp_path / "file" / "s.sqlite")


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "s.sqlite").touch()
    with ResponseStore(tmp_path / "s.sqlite") as store:
        store.put(key(1), Response("x"))
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
        store.put(key(1), Response("é\ud800", "é\ud800"))
    with ResponseStore(tmp_path / "s.sqlite") as store:
        assert store.get_many([key(1)]) == {key(1): Response("é\ud800", "é\\ud800")}


def test_an_interrupt_while_writing_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: object) -> None:
        raise KeyboardInterrupt

    with ResponseStore(tmp_path / "s.sqlite") as store:
        with monkeypatch.context() as patched:
            patched.setattr("assay.store.responses.FLUSH_SECONDS", 60.0)
            patched.setattr(store, "_insert", interrupted)
            store.put(key(1), Response("kept"))
            with pytest.raises(KeyboardInterrupt):
                store.flush()
        assert store.get_many([key(1)]) == {key(1): Response("kept")}
    with ResponseStore(tmp_path / "s.sqlite") as store:
        assert store.get_many([key(1)]) == {key(1): Response("kept")}


def test_statements_have_few_lengths_however_many_answers_come_at_a_time(tmp_path: Path) -> None:
    """A statement is kept for each number of rows, with the values of its last use."""
    rows: set[int] = set()
    with ResponseStore(tmp_path / "s.sqlite") as store:
        store._connection.set_trace_callback(lambda statement: rows.add(statement.count("(x'")))
        for first in range(0, 3000, 77):
            for i in range(first, min(first + 77, 3000)):
                store.put(key(i), Response("text"))
            store.flush()
        for i in range(3000, 6000):
            store.put(key(i), Response("text"))
        store.flush()
        assert len(store.get_many([key(i) for i in range(7000)])) == 6000
    assert max(rows) > 64
    assert rows <= {0, *(2**power for power in range(11))}
