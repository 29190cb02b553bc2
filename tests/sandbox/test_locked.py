"""Everything else works without `assay.sandbox`, and what needs it is refused by name before the first request."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from locked import run_without

MODEL = """
from pathlib import Path
from assay.models import LM

class Four(LM):
    def loglikelihood(self, requests):
        return [(-1.0, True) for _ in requests]
    def loglikelihood_rolling(self, requests):
        return [-1.0 for _ in requests]
    def generate_until(self, requests):
        Path("asked").touch()
        return ["4" for _ in requests]
"""
CODE = """
COMMON = ("--model", "four.py:Four", "--include_path", ".", "--store", "answers.sqlite", "--confirm_run_unsafe_code")
assert command("run", "--tasks", "programs", *COMMON, "--run_dir", "a") == 2
import pathlib
assert not pathlib.Path("asked").exists()
assert command("run", "--tasks", "sums", *COMMON, "--run_dir", "b") == 0
assert command("run", "--tasks", "programs", *COMMON, "--run_dir", "c", "--predict_only") == 0
assert command("validate", "programs", "--include_path", ".") == 0
assert command("ls", "tasks") == 0
"""


def test_the_house_works_without_a_sandbox(tmp_path: Path) -> None:
    programs = "include: sums.yaml\ntask: programs\nunsafe_code: true\n"
    files = {"four.py": MODEL, "programs.yaml": programs}
    done = run_without("assay.sandbox", CODE, tmp_path, **files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "assay.sandbox is not installed" in done.stderr


def test_code_eval_names_the_sandbox_that_is_missing(tmp_path: Path) -> None:
    code = """
from assay.metrics import allow_unsafe_code, load_metric
allow_unsafe_code()
load_metric("code_eval").compute(predictions=[["x = 1"]], references=["assert x"], k=[1])
"""
    done = run_without("assay.sandbox", code, tmp_path)
    assert "MissingPackage" in done.stderr
    assert "assay.sandbox is not installed" in done.stderr
