"""The side of the sandbox that assay is on: start wardens, give them programs, read verdicts."""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from assay.errors import ScoringError
from assay.metrics.sandbox import jail
from assay.metrics.sandbox.cgroup import ControlGroup
from assay.metrics.sandbox.clearing import remove
from assay.metrics.sandbox.enclosures import ENCLOSURES, Sandbox, start_command

GRACE = 10.0
"""Seconds beyond its time after which a warden itself is given up."""


OWN_MEMORY, OWN_PROCESSES = 512 << 20, 32
"""What a warden and the judge beside the program need of their control group."""


@dataclass(frozen=True)
class Permission:
    """What `--confirm_run_unsafe_code` and `--sandbox` say."""

    allowed: bool = False
    sandbox: Sandbox = "auto"


_permission = Permission()


def allow_unsafe_code(allowed: bool = True, sandbox: Sandbox = "auto") -> None:
    """Programs written by models may be run, in that sandbox."""
    global _permission
    _permission = Permission(allowed, sandbox)


def unsafe_code_allowed() -> bool:
    return _permission.allowed or os.environ.get("HF_ALLOW_CODE_EVAL") == "1"


def require_permission() -> None:
    if not unsafe_code_allowed():
        raise ScoringError(
            "this metric runs code written by the model, which was not allowed",
            hint="Add --confirm_run_unsafe_code if you accept that.",
        )


def require_walls(sandbox: Sandbox | None = None) -> None:
    """Refuses before the first request if this machine lacks a protection of the sandbox."""
    missing = missing_walls(resolve_sandbox(sandbox or _permission.sandbox))
    if missing:
        raise ScoringError(
            f"the sandbox for programs written by the model lacks a protection on this machine: {', '.join(missing)}",
            hint="Run on Linux 5.13 or later, or with --sandbox docker or podman; --sandbox weak runs programs without it.",
        )


@dataclass(frozen=True)
class Limits:
    """What one program may use. Memory and sizes are in bytes."""

    seconds: float = 3.0
    memory: int = 2 << 30
    file_size: int = 16 << 20
    disk: int = 64 << 20
    open_files: int = 64
    threads: int = 32


@dataclass(frozen=True)
class ProgramOutcome:
    """Whether a program passed its tests, and what happened: `passed`, `timed out` or `failed: …`."""

    passed: bool
    result: str


def run_programs(
    programs: Sequence[tuple[str, str]],
    limits: Limits | None = None,
    *,
    workers: int | None = None,
    namespaces: bool = True,
) -> list[ProgramOutcome]:
    """Run each (program, tests) in a sandbox of its own, several at once; verdicts in order.

    `namespaces=False` does without namespaces even where the kernel has them; every wall stands without them too.
    """
    require_permission()
    require_walls()
    sandbox = resolve_sandbox(_permission.sandbox)
    settings = {**asdict(limits or Limits()), "namespaces": namespaces}
    settings["cpu_seconds"] = math.ceil(settings["seconds"]) + 1
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:

        def run(job: tuple[str, str]) -> ProgramOutcome:
            with _borrowed(sandbox, settings) as warden:
                return warden.run(*job)

        return list(pool.map(run, programs))


def run_program(program: str, tests: str = "", limits: Limits | None = None, **options: Any) -> ProgramOutcome:
    return run_programs([(program, tests)], limits, **options)[0]


_idle: dict[str, list[Warden]] = {}
_lock = threading.Lock()
"""Wardens that wait for the next program, by what they were started for: a start costs as much as ten programs."""


@contextlib.contextmanager
def _borrowed(sandbox: Sandbox, settings: dict[str, Any]) -> Iterator[Warden]:
    kind = json.dumps([os.getpid(), sandbox, settings, tempfile.gettempdir()])
    with _lock:
        warden = _idle[kind].pop() if _idle.get(kind) else Warden(sandbox, settings)
    try:
        yield warden
    finally:
        with _lock:
            _idle.setdefault(kind, []).append(warden)


@atexit.register
def close_wardens() -> None:
    with _lock:
        for kind in [each for each in _idle if json.loads(each)[0] == os.getpid()]:
            for warden in _idle.pop(kind):
                warden.close()


class Warden:
    """A process that runs programs one after the other; started when first needed, and again when it broke."""

    def __init__(self, sandbox: Sandbox, settings: dict[str, Any]) -> None:
        self._sandbox = sandbox
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._group: ControlGroup | None = None
        self.missing: list[str] = []

    def start(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="assay-sandbox-")
        settings = json.dumps({**self._settings, "required": required_walls(self._sandbox)})
        kept = (
            "PATH",
            "HOME",
            "DOCKER_HOST",
            "CONTAINER_HOST",
            "XDG_RUNTIME_DIR",
        )  # by which an engine's client finds it
        self._process = subprocess.Popen(
            start_command(self._sandbox, self._folder, settings, self._settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in kept if name in os.environ} if self._sandbox in ENCLOSURES else {},
            start_new_session=True,
        )
        if self._sandbox not in ("docker", "podman"):  # whose engine starts the program, with the same limits
            self._group = ControlGroup(self._settings["memory"] + OWN_MEMORY, self._settings["threads"] + OWN_PROCESSES)
            self._group.add(self._process.pid)
        self.missing = self._read(GRACE * 6)["missing"]

    def run(self, program: str, tests: str) -> ProgramOutcome:
        if self._process is None:
            self.start()
        job = json.dumps({"program": program, "tests": tests}).encode()
        try:
            assert self._process is not None
            assert self._process.stdin is not None
            self._process.stdin.write(struct.pack("=I", len(job)) + job)
            self._process.stdin.flush()
            result = self._read(self._settings["seconds"] + GRACE)["result"]
        except (OSError, ValueError):
            self.close()
            return ProgramOutcome(False, "failed: its sandbox broke")
        return ProgramOutcome(result == "passed", result)

    def _read(self, seconds: float) -> dict[str, Any]:
        """The warden's next line. A warden that says nothing for so long is killed, which ends the line."""
        assert self._process is not None
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        return dict(json.loads(line))

    def close(self) -> None:
        """The end of its input is what the warden stops at; it takes its directory with it."""
        if self._process is None:
            return
        process, self._process = self._process, None
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._group is not None:
            self._group.close()
        with contextlib.suppress(OSError):
            remove(self._folder)


@cache
def missing_walls(sandbox: Sandbox) -> list[str]:
    """The walls that this sandbox needs and this machine lacks, each by name."""
    if sandbox == "weak":
        return []
    if sandbox in ENCLOSURES and shutil.which(sandbox) is None:
        return [f"{sandbox} (not installed)"]
    if sandbox not in ("docker", "podman") and not sys.platform.startswith("linux"):
        return ["Linux"]
    warden = Warden(sandbox, {**asdict(Limits()), "namespaces": True})
    try:
        warden.start()
    except (OSError, ValueError):
        return [f"{sandbox} (it did not start)"]
    finally:
        warden.close()
    return [wall for wall in required_walls(sandbox) if wall in warden.missing]


def resolve_sandbox(sandbox: Sandbox) -> Sandbox:
    """`auto` is bubblewrap where it is installed and works."""
    return "bwrap" if sandbox == "auto" and shutil.which("bwrap") and not missing_walls("bwrap") else sandbox


def required_walls(sandbox: Sandbox) -> list[str]:
    """An enclosure holds the files itself; a weak sandbox is content with what there is."""
    if sandbox == "weak":
        return []
    return [jail.CALLS] if sandbox in ENCLOSURES else [jail.CALLS, jail.FILES]
