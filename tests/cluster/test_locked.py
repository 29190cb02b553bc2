"""Everything else works without `assay.cluster`, and `--executor ray` is refused by name before the first request."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from locked import run_without

CODE = """
COMMON = ("--model", "dummy", "--tasks", "sums", "--include_path", ".", "--store", "answers.sqlite")
assert command("run", *COMMON, "--run_dir", "a") == 0
assert command("run", *COMMON, "--run_dir", "b", "--executor", "ray") == 2
"""


def test_the_house_works_without_a_cluster(tmp_path: Path) -> None:
    done = run_without("assay.cluster", CODE, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "assay.cluster, which is not installed" in done.stderr
    assert not (tmp_path / "b" / "results.json").exists()
