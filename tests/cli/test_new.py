"""`assay new` writes what it says, and what it writes works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.new import KINDS, command, write_scaffold
from assay.errors import ConfigError


@pytest.mark.slow
def test_every_starting_point_passes_its_own_test(tmp_path: Path) -> None:
    for kind in KINDS:
        write_scaffold(kind, f"my_{kind}", tmp_path / f"my_{kind}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_no_placeholder_is_left(kind: str, tmp_path: Path) -> None:
    for path in write_scaffold(kind, "mine", tmp_path / "mine"):
        assert "@" not in path.name
        assert "@name@" not in path.read_text()
        assert "@class@" not in path.read_text()


def test_it_says_how_to_test_and_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["model", "mine", "-d", str(tmp_path)])
    assert done.exit_code == 0
    assert f"pytest {tmp_path / 'mine'}" in done.output
    assert "mine.py:Mine" in done.output


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(ConfigError, match="already exists"):
        write_scaffold("task", "mine", tmp_path / "mine")


@pytest.mark.parametrize("name", ["my-task", "1st", "a b", "größe", "../up"])
def test_a_name_must_be_a_module_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name"):
        write_scaffold("task", name, tmp_path / "x")
