"""The hub out of reach: one line, at once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay.data import source

TASK = """task: far
dataset_path: some/dataset
test_split: test
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
"""


def test_a_dataset_of_a_hub_out_of_reach_is_one_line_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "far.yaml").write_text(TASK)
    words = [
        "run",
        "--model",
        "dummy",
        "--tasks",
        "far",
        "--include_path",
        str(tmp_path),
        "--run_dir",
        str(tmp_path / "r"),
    ]
    settings = {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path / "hf"), "ASSAY_HOME": str(tmp_path)}
    kept = {
        name: value for name, value in os.environ.items() if "proxy" not in name.lower() and name != "HF_HUB_OFFLINE"
    }
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words], env={**kept, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    said = [
        line
        for line in done.stderr.splitlines()
        if line not in ("checking tasks", "loading the model", "reading tasks")
    ]
    assert len(said) == 2, done.stderr
    assert "some/dataset cannot be loaded: the hub cannot be reached (127.0.0.1: Connection refused)" in said[0]
    assert "--data_dir" in said[1]


def test_where_the_hub_is_out_of_reach_its_cache_is_asked_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(source, "why_out_of_reach", lambda: "far away")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    level = logging.getLogger("huggingface_hub").level
    with source.hub_or_cache() as reason:
        assert (reason, constants.HF_HUB_OFFLINE) == ("far away", True)
    assert (constants.HF_HUB_OFFLINE, logging.getLogger("huggingface_hub").level) == (False, level)


def test_a_hub_in_reach_is_asked_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(source, "why_out_of_reach", lambda: None)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with source.hub_or_cache() as reason:
        assert (reason, constants.HF_HUB_OFFLINE) == (None, False)
