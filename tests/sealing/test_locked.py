"""Everything else works without `assay.sealing`, and `seal` and `verify` are refused by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from locked import run_without

CODE = """
import pathlib
assert command("run", "--model", "dummy", "--tasks", "sums", "--include_path", ".", "--store", "s.sqlite", "--run_dir", "a") == 0
assert command("report", "a") == 0
assert command("export", "a", "--to", "assay", "-o", "b") == 0
assert command("compare", "a", "b") == 0
assert command("seal", "a") == 2
pathlib.Path("x.zip").touch()
assert command("verify", "x.zip") == 2
import assay.view
assert command("--help") == 0
assert command("verify", "--help") == 0
"""


def test_the_house_works_without_sealing(tmp_path: Path) -> None:
    done = run_without("assay.sealing", CODE, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("need assay.sealing, which is not installed") == 2
    assert not (tmp_path / "a" / "bundle.zip").exists()
