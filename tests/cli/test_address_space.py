"""Small address spaces (`ulimit -v`): every verb ends with a message, and none waits for memory that does not come."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from assay.cli.address_space import LEAST, is_out_of_memory
from assay.cli.entry import VERBS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are the kernel's")


def limited(megabytes: int, *words: str | Path, kind: int = resource.RLIMIT_AS) -> tuple[int, str]:
    def limit() -> None:
        resource.setrlimit(kind, (megabytes << 20, megabytes << 20))

    done = subprocess.run(
        [sys.executable, "-m", "assay", *words],
        preexec_fn=limit,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("megabytes", [50, 700, 1023])
@pytest.mark.parametrize(
    "verb", [pytest.param(v, marks=[pytest.mark.wide] if i % 12 else []) for i, v in enumerate(VERBS)]
)
def test_too_small_an_address_space_is_told_before_anything_is_loaded(verb: str, megabytes: int) -> None:
    code, said = limited(megabytes, verb, "x")
    assert (code, f"no more than {megabytes} MB of address space" in said, "Traceback" in said) == (2, True, False), (
        said
    )


def test_too_little_data_is_told_too() -> None:
    code, said = limited(200, "compare", "x", "y", kind=resource.RLIMIT_DATA)
    assert (code, "no more than 200 MB of data" in said) == (2, True), said


def test_the_least_address_space_is_enough_to_run_and_to_compare(tmp_path: Path) -> None:
    runs = [tmp_path / "a", tmp_path / "b"]
    for run in runs:
        words = ("--model", "dummy", "--tasks", "demo_facts", "--limit", "5", "--store", str(tmp_path / "store.db"))
        assert limited(LEAST >> 20, "run", *words, "--run_dir", run)[0] == 0
    assert limited(LEAST >> 20, "compare", *runs)[0] == 0


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryError(), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (ImportError("libparquet.so: cannot allocate memory"), True),
        (ImportError("No module named 'x'"), False),
        (OSError(12, "Cannot allocate memory"), True),
        (OSError(2, "No such file"), False),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), True),
        (RuntimeError("something else"), False),
    ],
)
def test_what_memory_that_has_run_out_looks_like(error: BaseException, told: bool) -> None:
    assert is_out_of_memory(error) is told
