"""Widths and names that no table and no file can have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assay import evaluate

ASSAY = [sys.executable, "-m", "assay"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    evaluate(model="dummy", tasks=["demo_facts"], limit=4, run_dir=str(folder / "run"), store=str(folder / "store.db"))
    return folder / "run"


def said(*words: str | bytes | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ASSAY, *words], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("columns", ["1", "0", "-5", "", "abc", "1e9", "²", "9" * 20])
def test_a_width_that_is_none_leaves_the_table_readable(run: Path, columns: str) -> None:
    found = said("report", run, COLUMNS=columns)
    assert (found.returncode, "Traceback" in found.stderr) == (0, False), found.stderr
    assert "demo_" in found.stdout


@pytest.mark.parametrize("verb", ["run", "compare"])
@pytest.mark.parametrize("name", ["n" * 300, "n/" * 2500])
def test_a_name_that_is_too_long_is_told(tmp_path: Path, run: Path, verb: str, name: str) -> None:
    path = tmp_path / name
    words = (
        ["run", "--model", "dummy", "--tasks", "demo_facts", "--run_dir", path] if verb == "run" else [verb, run, path]
    )
    found = said(*words, ASSAY_STORE=str(tmp_path / "store.db"))
    assert (found.returncode, "Traceback" in found.stderr) == (2, False), found.stderr
    assert "no names as long as" in found.stderr


def test_a_name_that_is_not_utf_8_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9"
    found = said("run", "--model", "dummy", "--tasks", "demo_facts", "--run_dir", path)
    assert (found.returncode, "Traceback" in found.stderr) == (2, False), found.stderr
    assert "is not UTF-8" in found.stderr
    assert not os.path.exists(path)
