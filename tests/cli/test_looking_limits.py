"""Files without Python that ask for endless work: commands that look at them end, with a message."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are the kernel's")


def looked(folder: Path, *words: str) -> tuple[int, str, float]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "assay", *words, "--include_path", "."],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "ASSAY_HOME": str(folder / "home"),
            "ASSAY_LOOKING_SECONDS": "8",
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    return done.returncode, done.stderr, time.monotonic() - began


def write_includes(folder: Path) -> None:
    """Thirty files, each of which includes the next one twice."""
    for n in range(30):
        (folder / f"f{n}.yaml").write_text(f"include: [f{n + 1}.yaml, f{n + 1}.yaml]\nnum_fewshot: 0\n")
    (folder / "f30.yaml").write_text("output_type: generate_until\n")
    (folder / "bomb.yaml").write_text(
        "include: f0.yaml\ntask: bomb\ndataset_path: json\ndoc_to_text: a\ndoc_to_target: b\n"
    )


def write_groups(folder: Path) -> None:
    """25 levels of groups, each with the two below it."""
    for n in range(25):
        for side in "ab":
            members = f"[g{n + 1}a, g{n + 1}b]" if n < 24 else "[sums]"
            (folder / f"g{n}{side}.yaml").write_text(f"group: g{n}{side}\ntask: {members}\n")
    (folder / "bomb.yaml").write_text("group: bomb\ntask: [g0a, g0b]\n")
    (folder / "sums.yaml").write_text("task: sums\ndataset_path: json\ndoc_to_text: a\ndoc_to_target: b\n")


@pytest.mark.parametrize("write", [write_includes, write_groups])
@pytest.mark.parametrize("verb", ["validate", "show"])
def test_a_command_that_looks_ends(write: object, verb: str, tmp_path: Path) -> None:
    write(tmp_path)  # type: ignore[operator]
    code, said, seconds = looked(tmp_path, verb, "bomb")
    assert seconds < 60
    assert "Traceback" not in said
    assert code in (0, 1, 2, 3)
