"""Run directories whose names and contents are patterns, SQL or nonsense: each shows its own answers or an honest page, and never a 500."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import assay
from assay.view import create_app

NAMES = [
    *("m1", "m2", "m[1]", "m[12]", "m[!1]", "m*", "m?", "m**", "*", "?", "[a-z]*", "{m1,m2}", "m\\[1\\]"),
    *(
        "key=value",
        "model=m1",
        "'; DROP TABLE s; --",
        '" OR 1=1 --',
        "') UNION SELECT 1 --",
        "$1",
        "?1",
        "%",
        "%s",
        "%2e",
    ),
    *("~", "a b", "a\tb", "a\nb", "é\u202e", "-rf", "a'b", 'a"b', "m1.parquet", "read_parquet(m1)", "#", "&", "<b>"),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    docs = [{"question": f"{n}?", "answer": str(n)} for n in range(3)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (folder / "task.yaml").write_text(
        f"task: sums\ndataset_path: json\ndataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}\n"
        "test_split: test\ndoc_to_text: question\ndoc_to_target: answer\n"
        "metric_list: [{metric: exact_match}]\n"
    )
    assay.evaluate(
        model="dummy",
        tasks=["sums"],
        include_path=[str(folder)],
        include_defaults=False,
        run_dir=str(folder / "run"),
        store=str(folder / "store.db"),
    )
    return folder / "run"


def with_answers(run: Path, text: str) -> None:
    """Every answer of the run is this text."""
    (file,) = (run / "samples").glob("*.parquet")
    table = pq.read_table(file)
    column = pa.array([json.dumps([[text]])] * table.num_rows)
    pq.write_table(table.set_column(table.column_names.index("resps"), "resps", column), file)


def client_of(root: Path, scratch: Path) -> TestClient:
    return TestClient(create_app([root], scratch=scratch), base_url="http://127.0.0.1", raise_server_exceptions=False)


def runs_of(client: TestClient) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.get("/?download=jsonl").text.splitlines()]


HONEST = (200, 404, 422)
"""The page, no such page, or a page that says what is wrong with the file."""
PAGES = (
    "/run/{run}",
    "/task/{run}/{task}",
    "/samples/{run}/{task}",
    "/sample/{run}/0/{task}",
    "/sample/{run}/2/{task}",
)


@pytest.mark.parametrize("scratch", ["s", "s[1]*"])
def test_a_run_shows_its_own_answers_whatever_it_is_called(template: Path, tmp_path: Path, scratch: str) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    for number, name in enumerate(NAMES):
        shutil.copytree(template, root / name)
        with_answers(root / name, f"answer-{number}-of-its-own")
    seen = set()
    with client_of(root, tmp_path / scratch) as client:
        for run in runs_of(client):
            for page in ("/sample/{run}/0/sums", "/sample/{run}/2/sums", "/samples/{run}/sums?download=jsonl"):
                answer = client.get(page.format(run=run["id"]))
                assert answer.status_code == 200
                (number,) = {n for n in range(len(NAMES)) if f"answer-{n}-of-its-own" in answer.text}
                seen.add((run["id"], number))
    assert len(seen) == len(NAMES)


def leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*place, key))
    elif isinstance(value, str):
        yield place


def put(data: Any, place: tuple[Any, ...], new: Any) -> Any:
    data = json.loads(json.dumps(data))
    here = data
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = new
    return data


HOSTILE = ["m[1]*", "'; DROP TABLE s; -- \" ?", "../../../etc/passwd", "a\0b\ud800"]


@pytest.mark.parametrize("file", ["results.json", "run.json"])
def test_hostile_texts_in_every_field_of_a_run_are_harmless(template: Path, tmp_path: Path, file: str) -> None:
    root = tmp_path / "runs"
    data = json.loads((template / file).read_text())
    places = list(leaves(data))
    assert len(places) > 20
    for number, place in enumerate(places):
        run = root / str(number)
        shutil.copytree(template, run)
        (run / file).write_text(json.dumps(put(data, place, HOSTILE[number % len(HOSTILE)])))
    with client_of(root, tmp_path / "s") as client:
        found = runs_of(client)
        assert len(found) == len(places)
        for run_row in found:
            for page in PAGES:
                answer = client.get(page.format(run=run_row["id"], task="sums"))
                assert answer.status_code in HONEST, (run_row, page)
                assert "root:" not in answer.text


CELLS = [
    None,
    "",
    "null",
    "[]",
    "{}",
    "[null]",
    "[[null]]",
    "7",
    '"x"',
    "[" * 5000,
    "[" * 5000 + "]" * 5000,
    "not JSON",
    "'; --",
]


def test_rows_of_every_wrong_content_are_shown_or_named(template: Path, tmp_path: Path) -> None:
    """Each text column of a sample file with each of these in every row."""
    root = tmp_path / "runs"
    (file,) = (template / "samples").glob("*.parquet")
    table = pq.read_table(file)
    texts = [name for name in table.column_names if pa.types.is_string(table.schema.field(name).type)]
    texts += [name for name in table.column_names if pa.types.is_large_string(table.schema.field(name).type)]
    assert len(texts) >= 8
    for column in texts:
        for number, cell in enumerate(CELLS):
            run = root / f"{column}-{number}"
            shutil.copytree(template, run)
            field = table.schema.field(column).with_nullable(True)
            changed = table.set_column(
                table.column_names.index(column), field, pa.array([cell] * table.num_rows, field.type)
            )
            pq.write_table(changed, run / "samples" / file.name)
    bad = []
    with client_of(root, tmp_path / "s") as client:
        for run_row in runs_of(client):
            for page in (*PAGES, "/samples/{run}/{task}?q=x&sort=length", "/samples/{run}/{task}?download=jsonl"):
                answer = client.get(page.format(run=run_row["id"], task="sums"))
                if answer.status_code not in HONEST:
                    bad.append((run_row["run"], page, answer.status_code))
    assert bad == []
