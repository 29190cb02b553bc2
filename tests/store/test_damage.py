"""Stores that were cut off, overwritten, changed, or written by another version."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.stores import fill, key

from assay.errors import StoreError
from assay.instance import Response
from assay.store import ResponseStore, export_responses, recovery, stats, verify

LONG = "long answer " * 1000


@pytest.mark.parametrize(("text", "part"), [("", 0.3), ("", 0.6), ("", 0.95), (LONG, 0.6), (LONG, 0.95)])
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
    assert len(list(tmp_path.glob("s.sqlite.damaged-*[0-9]"))) == 1


ROOT = 4
"""The page from which SQLite finds all answers."""


def spoil(path: Path, page: int) -> bytes:
    """Overwrite one page, and say what the file is now."""
    data = path.read_bytes()
    path.write_bytes(data[: (page - 1) * 4096] + os.urandom(4096) + data[page * 4096 :])
    return path.read_bytes()


@pytest.mark.parametrize("page", [1, ROOT])
def test_a_store_that_sqlite_cannot_read_is_an_error_and_stays_as_it_is(
    tmp_path: Path, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "s.sqlite"
    fill(path, 2000)
    spoiled = spoil(path, page)
    with pytest.raises(StoreError) as caught:
        ResponseStore(path)
    assert ".recover" in str(caught.value.hint)
    assert path.read_bytes() == spoiled
    assert not list(tmp_path.glob("*damaged*"))


def has_recover(folder: Path) -> bool:
    """Many builds of the shell know the command and lack what it needs."""
    shell = shutil.which("sqlite3")
    if shell is None:
        return False
    fill(folder / "sound.sqlite", 1)
    done = subprocess.run([shell, folder / "sound.sqlite", ".recover"], capture_output=True, check=False)
    return b"INSERT" in done.stdout


@pytest.mark.parametrize("page", [1, ROOT])
def test_the_shell_gives_back_all_other_pages(tmp_path: Path, page: int) -> None:
    if not has_recover(tmp_path):
        pytest.skip("no sqlite3 shell whose .recover works")
    path = tmp_path / "s.sqlite"
    keys = fill(path, 2000)
    spoil(path, page)
    with ResponseStore(path, notify=lambda _: None) as store:
        assert len(store.get_many(keys)) > 1900


SHELL = """#!{python}
import sqlite3, sys, time
if sys.argv[-1] == ".recover":
    time.sleep({seconds})
    print(open("{script}").read())
else:
    with sqlite3.connect(sys.argv[1]) as made:
        made.executescript(sys.stdin.read())
"""


def install_shell(folder: Path, rows: list[tuple[object, ...]], seconds: float = 0.0) -> None:
    """One that answers `.recover` with rows of which it does not know the table."""
    with sqlite3.connect(":memory:") as made:
        made.execute("CREATE TABLE lost_and_found(rootpgno, pgno, nfield, id, c0, c1, c2, c3, c4, c5, c6, c7)")
        made.executemany("INSERT INTO lost_and_found VALUES (9, 9, 8, NULL, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        (folder / "rows.sql").write_text("\n".join(made.iterdump()))
    shell = folder / "sqlite3"
    shell.write_text(SHELL.format(python=sys.executable, script=folder / "rows.sql", seconds=seconds))
    shell.chmod(0o755)


def test_rows_that_the_shell_finds_are_checked_as_every_row_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.sqlite"
    keys = fill(path, 10, text="an answer ")
    with sqlite3.connect(path) as raw:
        rows = raw.execute("SELECT * FROM responses").fetchall()
    changed = next(i for i, row in enumerate(rows) if row[0] == keys[4])
    rows[changed] = (keys[4], '"forged"', *rows[changed][2:])
    install_shell(tmp_path, [*rows, (None,) * 8, ("text", 1, 2, 3, 4, 5, 6, 7)])
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    spoil(path, 1)
    messages: list[str] = []
    with ResponseStore(path, notify=messages.append) as store:
        assert set(keys) - set(store.get_many(keys)) == {keys[4]}
    assert "9 answers" in messages[0]
    assert not list(tmp_path.glob(".recover-*"))


def test_a_shell_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_shell(tmp_path, [], seconds=60)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(recovery, "SHELL_SECONDS", 0.2)
    path = tmp_path / "s.sqlite"
    keys = fill(path, 2000)
    path.write_bytes(path.read_bytes()[:-5000])
    with ResponseStore(path, notify=lambda _: None) as store:
        assert 1500 < len(store.get_many(keys)) < 2000


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
    for page in range(ROOT, len(data) // 4096, 4):
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
    raw.execute("ALTER TABLE responses ADD COLUMN of_later TEXT")
    raw.close()
    with pytest.raises(StoreError, match="layout 99"):
        ResponseStore(path)


SPOILED_ROWS = {
    "text that is no UTF-8": "UPDATE responses SET response = CAST(x'22ff22' AS TEXT) WHERE key = ?",
    "one flipped bit": "UPDATE responses SET response = CAST(x'22e822' AS TEXT) WHERE key = ?",
    "a blob": "UPDATE responses SET response = x'0001' WHERE key = ?",
    "a number": "UPDATE responses SET response = 17 WHERE key = ?",
    "an empty text": "UPDATE responses SET response = '' WHERE key = ?",
    "extras that are no text": "UPDATE responses SET extras = x'ff' WHERE key = ?",
    "extras that are no UTF-8": "UPDATE responses SET extras = CAST(x'ff' AS TEXT) WHERE key = ?",
    "a stop reason that is a blob": "UPDATE responses SET stop_reason = x'ff' WHERE key = ?",
    "tokens that are text": "UPDATE responses SET response_tokens = 'many' WHERE key = ?",
    "a checksum that is text": "UPDATE responses SET checksum = 'x' WHERE key = ?",
    "a key that is too short": "UPDATE responses SET key = x'00' WHERE key = ?",
    "a key that is text": "UPDATE responses SET key = 'text' WHERE key = ?",
}


@pytest.mark.parametrize("change", SPOILED_ROWS.values(), ids=SPOILED_ROWS)
def test_a_spoiled_row_is_a_missing_answer(tmp_path: Path, change: str) -> None:
    path = tmp_path / "s.sqlite"
    keys = fill(path, 20, text="answer ")
    with sqlite3.connect(path) as raw:
        raw.execute(change, (keys[3],))
    with ResponseStore(path, notify=lambda _: None) as store:
        assert len(store.get_many(keys)) == 19
    assert len(list(export_responses(path))) == 19
    assert verify(path).checked in (19, 20)
    assert verify(path).spoiled == 0


SPOILED_LAYOUTS = {
    "a column is missing": "ALTER TABLE responses DROP COLUMN extras",
    "a column of the first layout is missing": "ALTER TABLE responses RENAME COLUMN response TO other",
    "a column too many": "ALTER TABLE responses ADD COLUMN more TEXT",
    "a version too high": "PRAGMA user_version = 99",
    "a version too low": "PRAGMA user_version = 1",
    "no version": "PRAGMA user_version = 0",
    "a negative version": "PRAGMA user_version = -5",
    "no table of origins": "DROP TABLE origins",
}


@pytest.mark.parametrize("change", SPOILED_LAYOUTS.values(), ids=SPOILED_LAYOUTS)
def test_a_spoiled_layout_is_put_right(tmp_path: Path, change: str) -> None:
    path = tmp_path / "s.sqlite"
    keys = fill(path, 20, text="answer ")
    with sqlite3.connect(path) as raw:
        raw.execute(change)
    with ResponseStore(path, notify=lambda _: None) as store:
        assert len(store.get_many(keys)) == 20
        store.put(key(99), Response("new"))
    assert verify(path).spoiled == 0


def test_a_lock_file_that_is_a_link_or_a_pipe_harms_nothing(tmp_path: Path) -> None:
    path, victim = tmp_path / "s.sqlite", tmp_path / "victim"
    (tmp_path / "s.sqlite.lock").symlink_to(victim)
    fill(path, 3)
    assert not victim.exists()
    (tmp_path / "s.sqlite.lock").unlink()
    os.mkfifo(tmp_path / "s.sqlite.lock")
    assert len(fill(path, 3)) == 3


def test_a_store_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "made" / "s.sqlite"
    fill(path, 3)
    assert {file.name: oct(file.stat().st_mode & 0o077) for file in [path, path.parent]} == {
        "s.sqlite": "0o0",
        "made": "0o0",
    }
