"""Hostile programs: each fails its own sample and nothing else. The grid is every program, as the user who runs the tests and as
a plain user, with namespaces and without. `make test` runs every fifth program of each class once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from plain_user import run_as_plain_user

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made of Linux parts")


def attack(tmp_path: Path, *, step: int, namespaces: bool, plain: bool) -> None:
    command = [sys.executable, str(HERE / "attack.py"), str(step), str(namespaces)]
    if plain:
        said = run_as_plain_user(command, tmp_path, PYTHONPATH=str(SOURCE))
    else:
        import subprocess

        done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(SOURCE)})
        assert done.returncode == 0, done.stderr[-2000:]
        said = done.stdout
    found = json.loads(said)
    results = found.pop("results")
    expected = {"programs": len(results), "passed": [], "passed by their own word": [], "good ones that failed": []}
    assert found == {**expected, "files changed": False, "left behind": []}


@pytest.mark.parametrize("plain", [False, True], ids=["same user", "plain user"])
def test_a_slice_of_hostile_programs_gets_nowhere(plain: bool, tmp_path: Path):
    attack(tmp_path, step=5, namespaces=not plain, plain=plain)


@pytest.mark.wide
@pytest.mark.parametrize("namespaces", [True, False], ids=["namespaces", "no namespaces"])
@pytest.mark.parametrize("plain", [False, True], ids=["same user", "plain user"])
def test_no_hostile_program_gets_anywhere(plain: bool, namespaces: bool, tmp_path: Path):
    attack(tmp_path, step=1, namespaces=namespaces, plain=plain)
