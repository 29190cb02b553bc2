"""Every column of every table with values that nobody wrote: such a row counts as missing, and everything else goes on."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.store.stores import key

from assay.errors import StoreError
from assay.instance import Response
from assay.store import ResponseStore
from assay.store.codec import checksum
from assay.store.maintenance import collect_garbage, export_responses, stats, verify

COLUMNS = {
    "responses": [
        *("key", "response", "stop_reason", "checksum", "origin", "prompt_tokens", "response_tokens", "extras"),
    ],
    "origins": ["id", "run", "model", "created"],
    "facts": ["origin", "fingerprint", "facts"],
}
WRONG = [-1, 2**62, 1.5, float("inf"), "", "text", "\udc80", b"\xff\0", b"", "[" * 100_000, '{"a": 1}', -(2**63)]


def filled(path: Path) -> None:
    with ResponseStore(path) as store:
        store.begin(run="a run", model="a model", fingerprint="f", facts='{"said": 1}')
        for n in range(3):
            store.put(key(n), Response(f"answer {n}", "stop", tokens=(3, 4), reasoning="because"))


def use_all_of_it(path: Path) -> dict[bytes, Response]:
    """What a run and `assay store` do with a store, twice: what is found must not spoil the next run."""
    found: dict[bytes, Response] = {}
    for _ in range(2):
        with ResponseStore(path, notify=lambda text: None) as store:
            facts = store.facts_of("f")
            assert all(type(each) is str for each in facts.values())
            origin = store.begin(run="another run", model="a model", fingerprint="f", facts="{}")
            found = store.get_many([key(n) for n in range(3)])
            assert all(type(at) is int for at in store.dates(list(origin.read_from)))
            store.put(key(9), Response("new"))
        assert stats(path).responses >= 1
        assert all(origin.created >= 0 for origin in stats(path).origins)
        list(export_responses(path))
        list(export_responses(path, run="a*"))
        collect_garbage(path, older_than_seconds=10**9, dry_run=True)
    verify(path)
    return found


@pytest.mark.parametrize("number", range(len(WRONG)))
@pytest.mark.parametrize(("table", "column"), [(table, column) for table in COLUMNS for column in COLUMNS[table]])
def test_a_row_with_a_wrong_value_is_a_missing_row(table: str, column: str, number: int, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    filled(path)
    value: Any = WRONG[number]
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    shown = "CAST(? AS TEXT)" if isinstance(WRONG[number], str) else "?"
    first = "SELECT min(rowid) FROM" if table != "responses" else "SELECT min(key) FROM"
    which = "key" if table == "responses" else "rowid"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute(f"UPDATE {table} SET {column} = {shown} WHERE {which} = ({first} {table})", (value,))
        except sqlite3.IntegrityError:
            return  # SQLite itself does not hold it
        connection.commit()
    found = use_all_of_it(path)
    assert len(found) >= 2
    assert all(response.answer.startswith("answer ") for response in found.values())


@pytest.mark.parametrize("answer", ["not JSON", "[" * 100_000, "", "{"])
@pytest.mark.parametrize("extras", [None, "7", "[]", '{"tool_calls": 3}', "[" * 100_000, "x"])
def test_a_row_with_the_right_checksum_that_cannot_be_read_is_missing(
    answer: str, extras: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "store.sqlite"
    filled(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        row = (answer, extras, checksum(key(0), answer, "stop", 3, 4, extras), key(0))
        connection.execute("UPDATE responses SET response = ?, extras = ?, checksum = ? WHERE key = ?", row)
        connection.commit()
    assert use_all_of_it(path).keys() == {key(1), key(2)}


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
OWN_CODE = {
    "a view in place of the answers": (
        "DROP TABLE responses",
        f"CREATE VIEW responses AS {ENDLESS} i AS key, '' AS response, '' AS stop_reason, 0 AS checksum, 0 AS origin,"
        " 0 AS prompt_tokens, 0 AS response_tokens, '' AS extras FROM n",
    ),
    "a view in place of the origins": (
        "DROP TABLE origins",
        f"CREATE VIEW origins AS {ENDLESS} i AS id, '' AS run, '' AS model, i AS created FROM n",
    ),
    "a view in place of the facts": (
        "DROP TABLE facts",
        f"CREATE VIEW facts AS {ENDLESS} i AS origin, '' AS facts FROM n",
    ),
    "a view beside them": (f"CREATE VIEW other AS {ENDLESS} i FROM n",),
    "a trigger": (
        f"CREATE TRIGGER t AFTER INSERT ON responses BEGIN INSERT INTO origins {ENDLESS} i, '', '', 0 FROM n; END",
    ),
    "an index over an expression": ("CREATE INDEX i ON responses (length(response))",),
    "a computed column": ("ALTER TABLE responses ADD COLUMN more AS (zeroblob(1000000000))",),
    "a check": (
        "DROP TABLE facts",
        "CREATE TABLE facts (origin INTEGER PRIMARY KEY, facts TEXT CHECK (length(facts) > 0))",
    ),
}


@pytest.mark.parametrize("name", OWN_CODE)
@pytest.mark.parametrize("damaged", [False, True])
def test_a_file_that_would_run_code_of_its_own_is_refused(name: str, damaged: bool, tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    filled(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in OWN_CODE[name]:
            connection.execute(statement)
        if damaged:
            connection.execute("DROP TABLE IF EXISTS origins" if "origins" not in name else "DROP TABLE responses")
        connection.commit()
    content = path.read_bytes()
    code = "import sys\nfrom assay.store import ResponseStore\nResponseStore(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=30)
    assert "NotAStore" in done.stderr
    assert path.read_bytes() == content
    with pytest.raises(StoreError):
        stats(path)
