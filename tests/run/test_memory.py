"""What a run holds in memory: its size, and what it imports."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from tests.run.support import environment
from tests.run.test_run import bench  # noqa: F401  a fixture

RUN = """
import sys
from assay.cli import main
try:
    main(sys.argv[1:])
finally:
    print("imported:", *sorted({"datasets", "torch"} & {*sys.modules}))
"""


def test_a_run_on_files_imports_neither_datasets_nor_torch(bench: Path) -> None:  # noqa: F811
    words = ["run", "--model", "dummy", "--tasks", "both", "--include_path", str(bench)]
    words += ["--run_dir", str(bench / "run")]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *words], env=environment(bench), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "imported:"
    assert (bench / "run" / "samples" / "sums.parquet").is_file()


FREED = """
from assay.garbage import return_free_memory
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
texts = ["x" * 1000 + str(i) for i in range(100_000)]
last = texts[-1]
del texts
before = resident()
return_free_memory()
assert resident() < before - 50_000_000, (before, resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries cannot be asked to")
def test_freed_memory_goes_back_to_the_system() -> None:
    subprocess.run([sys.executable, "-c", FREED], check=True)
