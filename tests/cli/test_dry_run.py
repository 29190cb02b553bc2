"""`--dry_run` asks nothing, whatever the verb."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.analyses.test_verbs import call

MODELS = "models: [dummy, {name: second, model: dummy, model_args: {seed: 3}}]"


def test_a_matrix_is_forecast_model_by_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(MODELS)
    words = ("matrix", "--models", file, "--tasks", "demo_agreement", "demo_addition", "--limit", "5", "--dry_run")
    kept = ("--output_path", tmp_path / "out", "--store", tmp_path / "store.sqlite")
    code, out, _ = call(capsys, *words, *kept, "--json")
    assert code == 0
    found = {each["model"]: each for each in json.loads(out)}
    assert list(found) == ["dummy", "second"]
    assert found["second"]["tasks"]["demo_agreement"]["docs"] == 5
    assert not (tmp_path / "out").exists()
    _, out, _ = call(capsys, *words, *kept)
    assert "What second would be sent" in out
    assert "Nothing was sent." in out


def test_a_sweep_is_forecast_for_one_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("sweep", "--model", "dummy", "--tasks", "demo_grammar", "--shots", "0,1", "--seeds", "3", "--dry_run")
    kept = ("--run_dir", tmp_path / "out", "--store", tmp_path / "store.sqlite", "--limit", "5")
    code, out, _ = call(capsys, *words, *kept)
    assert code == 0
    assert "demo_reflexives:1shot" in out
    assert "each of 3 seeds" in out
    assert not (tmp_path / "out").exists()
    _, out, _ = call(capsys, *words, *kept, "--json")
    assert (json.loads(out)["seeds"], json.loads(out)["to_ask"]) == (3, 40)
