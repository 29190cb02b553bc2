"""Tags and notes on samples: kept beside the run, found again, exported, and written by nobody else."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from assay.view import create_app, write_bundle

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def own(runs: Path, tmp_path: Path) -> Path:
    shutil.copytree(runs / "sharp-7b", tmp_path / "runs" / "sharp")
    return tmp_path / "runs"


@pytest.fixture
def page(own: Path, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app([own], scratch=tmp_path / "s"), base_url="http://127.0.0.1:8000") as client:
        yield client


def ids(client: TestClient) -> tuple[str, str]:
    """The run, and where its pages send notes."""
    run = json.loads(client.get("/?download=jsonl").text.splitlines()[0])["id"]
    found = re.search(r'action="(/note/[^"]+)"', client.get(f"/sample/{run}/3/capitals").text)
    assert found is not None
    return run, found[1]


def write(client: TestClient, path: str, run: str, **fields: str) -> int:
    form = {"run": run, "task": "capitals", "doc": "3", "tags": "", "note": "", "here": "", **fields}
    return client.post(path, content=urlencode(form), headers=FORM, follow_redirects=False).status_code


def test_a_note_is_kept_beside_the_run_found_by_its_tag_and_exported(page: TestClient, own: Path) -> None:
    run, path = ids(page)
    assert write(page, path, run, tags="wrong target, <b>odd</b>", note="Two answers fit. <script>") == 303
    assert write(page, path, run, doc="5", tags="wrong target") == 303
    (kept,) = own.rglob("notes.json")
    assert [(n["doc_id"], n["tags"]) for n in json.loads(kept.read_text())["notes"]] == [
        (3, ["wrong target", "<b>odd</b>"]),
        (5, ["wrong target"]),
    ]
    sample = page.get(f"/sample/{run}/3/capitals").text
    assert "Two answers fit. &lt;script&gt;" in sample
    assert "<script>Two" not in sample
    assert "<b>odd" not in sample
    found = page.get(f"/samples/{run}/capitals?tag=wrong+target&download=jsonl").text.splitlines()
    assert [json.loads(line)["doc_id"] for line in found] == [3, 5]
    assert json.loads(found[0])["note"] == "Two answers fit. <script>"
    assert len(page.get(f"/samples/{run}/capitals?tag=%3Cb%3Eodd%3C%2Fb%3E&download=jsonl").text.splitlines()) == 1
    assert page.get(f"/samples/{run}/capitals?tag=none+such").text.count("data-row") == 0
    assert "any note (2)" in page.get(f"/samples/{run}/capitals").text
    assert "capitals 2" in page.get(f"/run/{run}").text


@pytest.mark.parametrize("only", ["wrong", "disagree", "flips"])
def test_a_tag_goes_with_every_other_choice(page: TestClient, only: str) -> None:
    run, path = ids(page)
    write(page, path, run, tags="look")
    rows = page.get(f"/samples/{run}/capitals?tag=look&only={only}&download=jsonl").text.splitlines()
    assert {json.loads(row)["doc_id"] for row in rows} <= {3}


def test_an_empty_note_takes_it_away(page: TestClient, own: Path) -> None:
    run, path = ids(page)
    write(page, path, run, note="once")
    write(page, path, run)
    (kept,) = own.rglob("notes.json")
    assert json.loads(kept.read_text())["notes"] == []


def test_nothing_is_written_without_the_secret_of_the_page(page: TestClient, own: Path) -> None:
    run, path = ids(page)
    assert write(page, "/note/guessed", run, note="x") == 405
    assert write(page, "/", run, note="x") == 405
    assert write(page, path, run, doc="99999", note="x") == 404
    assert write(page, path, "nowhere", note="x") == 404
    assert write(page, path, run, note="x" * 200_000) == 413
    assert page.get(path).status_code == 405
    assert list(own.rglob("notes.json")) == []


def test_a_broken_file_of_notes_is_named_and_never_overwritten(page: TestClient, own: Path) -> None:
    run, path = ids(page)
    place = next(own.rglob("run.json")).with_name("notes.json")
    for text in ("{", '{"notes": [1]}', '{"notes": [{"task": 1, "doc_id": "x", "tags": "ab", "note": 3}]}'):
        place.write_text(text)
        answer = page.get(f"/samples/{run}/capitals")
        assert answer.status_code == 422
        assert "notes.json" in answer.text
        assert write(page, path, run, note="x") == 422
        assert place.read_text() == text


def test_a_bundle_shows_notes(page: TestClient, own: Path, tmp_path: Path) -> None:
    run, path = ids(page)
    write(page, path, run, tags="look", note="Both fit.")
    write_bundle([own], tmp_path / "site", samples=5)
    assert "Both fit." in next((tmp_path / "site").glob("docs-*capitals*.html")).read_text()
