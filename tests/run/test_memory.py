"""What a run imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
