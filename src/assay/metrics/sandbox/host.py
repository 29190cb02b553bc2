"""The side of the sandbox that assay is on: start wardens, read verdicts."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from assay.errors import ScoringError

WARDEN = Path(__file__).with_name("warden.py")
GRACE = 10.0
"""Seconds beyond its time after which a warden itself is given up: to start, to kill what is left."""

_allowed = False


def allow_unsafe_code(allowed: bool = True) -> None:
    """What `--confirm_run_unsafe_code` does: programs written by models may be run."""
    global _allowed
    _allowed = allowed


def unsafe_code_allowed() -> bool:
    return _allowed or os.environ.get("HF_ALLOW_CODE_EVAL") == "1"


def require_permission() -> None:
    if not unsafe_code_allowed():
        raise ScoringError(
            "this metric runs code that the model wrote, and that was not allowed",
            hint="Add --confirm_run_unsafe_code if you accept that.",
        )


@dataclass(frozen=True)
class Limits:
    """What one program may use. Memory and sizes are in bytes."""

    seconds: float = 3.0
    memory: int = 2 << 30
    file_size: int = 16 << 20
    open_files: int = 64
    processes: int = 32


@dataclass(frozen=True)
class ProgramOutcome:
    """Whether a program ran to its end, and what happened: `passed`, `timed out` or `failed: …`."""

    passed: bool
    result: str


def run_programs(
    programs: Sequence[str], limits: Limits | None = None, *, workers: int | None = None
) -> list[ProgramOutcome]:
    """Run each program in a sandbox of its own, several at once; verdicts in order."""
    require_permission()
    limits = limits or Limits()
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda program: run_program(program, limits), programs))


def run_program(program: str, limits: Limits | None = None) -> ProgramOutcome:
    """Run one program. It passes if its last statement was reached, and only then."""
    require_permission()
    if not sys.platform.startswith("linux"):
        raise ScoringError(
            "programs that a model wrote are run on Linux only", hint="Run the evaluation in a container."
        )
    limits = limits or Limits()
    nonce = secrets.token_bytes(32)
    settings = {**asdict(limits), "cpu_seconds": math.ceil(limits.seconds) + 1}
    with tempfile.TemporaryDirectory(prefix="assay-sandbox-", ignore_cleanup_errors=True) as folder:
        said, ended = _run_warden(nonce + program.encode("utf-8", "surrogatepass"), settings, folder)
    if said == nonce:
        return ProgramOutcome(True, "passed")
    if not ended or not said:
        return ProgramOutcome(False, "timed out" if not ended else "failed: it ended before its last statement")
    return ProgramOutcome(False, f"failed: {said[:400].decode('utf-8', 'replace')}")


def _run_warden(job: bytes, settings: dict[str, float], folder: str) -> tuple[bytes, bool]:
    """What came over the proof channel, and whether the program ended by itself."""
    inlet, outlet = os.pipe()
    try:
        warden = subprocess.Popen(
            [sys.executable, "-I", "-B", str(WARDEN), json.dumps({**settings, "proof": outlet})],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={},
            pass_fds=(outlet,),
            start_new_session=True,
        )
        os.close(outlet)
        try:
            warden.communicate(job, timeout=settings["seconds"] + GRACE)
        except subprocess.TimeoutExpired:
            _kill_group(warden)
        os.set_blocking(inlet, False)
        try:
            said = os.read(inlet, 1024)
        except BlockingIOError:
            said = b""
    finally:
        os.close(inlet)
    return said, warden.returncode == 0


def _kill_group(warden: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(warden.pid, signal.SIGKILL)
    warden.wait()
