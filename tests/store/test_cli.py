"""`assay store` and the list of models from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.fetch import command as fetch
from assay.cli.store import command as store
from assay.errors import ConfigError
from assay.instance import Response
from assay.store import ResponseStore, request_key


@pytest.fixture
def path(tmp_path: Path) -> str:
    with ResponseStore(tmp_path / "s.sqlite") as kept:
        kept.begin(run="night", model="dummy")
        for i in range(3):
            kept.put(request_key("m", "generate_until", (str(i), {})), Response(f"text {i}"))
    return str(tmp_path / "s.sqlite")


def test_stats_export_gc_verify(path: str, tmp_path: Path) -> None:
    runner = CliRunner()
    shown = runner.invoke(store, ["--store", path, "stats"])
    assert "3 responses" in shown.output
    assert "night" in shown.output
    rows = runner.invoke(store, ["--store", path, "export"]).output.splitlines()
    assert sorted(json.loads(row)["response"] for row in rows) == ["text 0", "text 1", "text 2"]
    runner.invoke(store, ["--store", path, "export", "-o", str(tmp_path / "out.jsonl")])
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3
    assert "3 responses are sound" in runner.invoke(store, ["--store", path, "verify"]).output
    assert "3 responses would be" in runner.invoke(store, ["--store", path, "gc", "--run", "n*", "--dry_run"]).output
    assert "3 responses were" in runner.invoke(store, ["--store", path, "gc", "--run", "n*"]).output


def test_verify_says_by_its_exit_code_that_something_was_wrong(path: str) -> None:
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[:-10])
    assert CliRunner().invoke(store, ["--store", path, "verify"]).exit_code == 1
    assert CliRunner().invoke(store, ["--store", path, "verify"]).exit_code == 0


def test_an_age_that_is_none(path: str) -> None:
    result = CliRunner().invoke(store, ["--store", path, "gc", "--older-than", "yesterday"])
    assert isinstance(result.exception, ConfigError)


def test_models_are_listed_with_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    output = CliRunner().invoke(fetch, ["--list-models"]).output
    assert "smollm2-135m" in output
    assert "assay fetch --model" in output
