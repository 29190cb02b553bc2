"""The side of the sandbox that assay is on: start supervisors, give them programs, read verdicts."""

from __future__ import annotations

import atexit
import base64
import contextlib
import json
import math
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from assay.config import SandboxKind
from assay.errors import ScoringError
from assay.sandbox import isolation
from assay.sandbox.cgroup import ControlGroup
from assay.sandbox.clearing import remove
from assay.sandbox.container_shell import CommandOutcome, ContainerShell, missing_engine
from assay.sandbox.containers import CONTAINERS, ENGINES, default_image, start_command

GRACE = 10.0
"""Seconds beyond its time after which a supervisor itself is given up."""


OWN_MEMORY, OWN_PROCESSES = 512 << 20, 32
"""What a supervisor and the test runner beside the program need of their control group."""


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
    """Whether a program passed its tests, and what happened: `passed`, `timed out` or `failed: …`.

    A verdict is independent if it came from a process that has none of the program's code. A weak sandbox isolates as well as
    the machine allows, which nobody has checked.
    """

    passed: bool
    result: str
    independent: bool = True
    isolated: bool = True


@dataclass(frozen=True)
class Sandbox:
    """A place where programs that a model wrote run, each in a process made for it."""

    kind: SandboxKind

    def require_isolation(self) -> None:
        """Refuses before the first request if this machine lacks a protection of the sandbox."""
        missing = missing_isolation(self.resolved())
        if missing:
            raise ScoringError(
                f"the sandbox for programs written by the model lacks a protection on this machine: {', '.join(missing)}",
                hint="Run on Linux 5.13 or later, or with --sandbox docker or podman; --sandbox weak runs programs without it.",
            )

    def resolved(self) -> SandboxKind:
        """`auto` is bubblewrap where it is installed and works."""
        return (
            "bwrap" if self.kind == "auto" and shutil.which("bwrap") and not missing_isolation("bwrap") else self.kind
        )

    def run_programs(
        self,
        programs: Sequence[tuple[str, str]],
        limits: Limits | None = None,
        *,
        seconds: float | None = None,
        workers: int | None = None,
        namespaces: bool = True,
    ) -> list[ProgramOutcome]:
        """Run each (program, tests) by itself, several at once; verdicts in order.

        `namespaces=False` does without namespaces even where the kernel has them; all other protections hold without them too.
        """
        self.require_isolation()
        kind = self.resolved()
        settings = {**asdict(limits or Limits()), "namespaces": namespaces}
        settings["seconds"] = settings["seconds"] if seconds is None else seconds
        settings["cpu_seconds"] = math.ceil(settings["seconds"]) + 1
        with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:

            def run(job: tuple[str, str]) -> ProgramOutcome:
                with _borrowed(kind, settings) as supervisor:
                    return supervisor.run(*job)

            return list(pool.map(run, programs))

    def require_shells(self, image: str | None) -> None:
        """Refuses before the first request what a shell, or a container of an image, needs and this machine lacks."""
        engine = self.kind if self.kind in ENGINES else None
        if image is None and engine is None:
            self.require_isolation()
            return
        reasons = {each: missing_engine(each) for each in ((engine,) if engine else ENGINES)}
        if None not in reasons.values():
            raise ScoringError(
                f"a container of {image or 'the sandbox'} cannot be started: {'; '.join(map(str, reasons.values()))}",
                hint="Start an engine (docker or podman), or leave out the task.",
            )

    def open_shell(
        self,
        *,
        seconds: float = 30.0,
        memory: int = 2 << 30,
        disk: int = 256 << 20,
        image: str | None = None,
        build: str = "",
        place: str = "/workspace",
        network: bool = False,
        hidden: Sequence[str] = (),
        namespaces: bool = True,
    ) -> Shell | ContainerShell:
        """A directory for one trajectory, and a shell in it. Commands see nothing of `hidden`."""
        limits = Limits(seconds, memory, file_size=disk, disk=disk, open_files=256, threads=128)
        if image is not None or self.kind in ENGINES:
            engine = self.kind if self.kind in ENGINES else next(e for e in ENGINES if missing_engine(e) is None)
            return ContainerShell(
                engine, image or default_image(), asdict(limits), network=network, place=place, build=build
            )
        self.require_isolation()
        settings = {**asdict(limits), "namespaces": namespaces, "network": network, "hidden": list(hidden)}
        settings["shown"] = place
        settings["cpu_seconds"] = math.ceil(seconds) + 1
        # Bubblewrap shows no programs but Python; a shell's own confinement needs nothing around it.
        return Shell("weak" if self.kind == "weak" else "auto", settings)


_idle: dict[str, list[Supervisor]] = {}
_lock = threading.Lock()
"""Supervisors that wait for the next program, by what they were started for: a start costs as much as ten programs."""


@contextlib.contextmanager
def _borrowed(kind: SandboxKind, settings: dict[str, Any]) -> Iterator[Supervisor]:
    key = json.dumps([os.getpid(), kind, settings, tempfile.gettempdir()])
    with _lock:
        supervisor = _idle[key].pop() if _idle.get(key) else Supervisor(kind, settings)
    try:
        yield supervisor
    finally:
        with _lock:
            _idle.setdefault(key, []).append(supervisor)


@atexit.register
def close_supervisors() -> None:
    with _lock:
        for key in [each for each in _idle if json.loads(each)[0] == os.getpid()]:
            for supervisor in _idle.pop(key):
                supervisor.close()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """The leader of a session and those in its group: bubblewrap is two processes."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Supervisor:
    """A process that runs programs one after the other; started when first needed, and again when it broke."""

    SCRIPT = "supervisor.py"

    def __init__(self, kind: SandboxKind, settings: dict[str, Any]) -> None:
        self._kind = kind
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._group: ControlGroup | None = None
        self.missing: list[str] = []

    def start(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="assay-sandbox-")
        settings = json.dumps({**self._settings, "required": required_isolation(self._kind)})
        inherited = (
            "PATH",
            "HOME",
            "DOCKER_HOST",
            "CONTAINER_HOST",
            "XDG_RUNTIME_DIR",
        )  # by which an engine's client finds it
        self._process = subprocess.Popen(
            start_command(self._kind, self._folder, settings, self._settings, self.SCRIPT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={name: os.environ[name] for name in inherited if name in os.environ}
            if self._kind in CONTAINERS
            else {},
            start_new_session=True,
        )
        if self._kind not in ("docker", "podman"):  # whose engine starts the program, with the same limits
            self._group = ControlGroup(self._settings["memory"] + OWN_MEMORY, self._settings["threads"] + OWN_PROCESSES)
            self._group.add(self._process.pid)
        self.missing = self._read(GRACE * 6)["missing"]

    def run(self, program: str, tests: str) -> ProgramOutcome:
        """A program that breaks its sandbox twice has failed; where a harmless one breaks it too, it is the sandbox."""
        for attempt in (program, program, ""):
            try:
                if self._process is None:
                    self.start()
                said = self._exchange({"program": attempt, "tests": tests}, 2 * self._settings["seconds"] + GRACE)
            except (OSError, ValueError):
                self.close()
                continue
            if attempt != program:
                return ProgramOutcome(False, "failed: its sandbox broke")
            return ProgramOutcome(said["result"] == "passed", said["result"], said["independent"], self._kind != "weak")
        raise ScoringError("the sandbox of programs broke, with a harmless program too")

    def _exchange(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        content = json.dumps(job).encode()
        self._process.stdin.write(struct.pack("=I", len(content)) + content)
        self._process.stdin.flush()
        return self._read(seconds)

    def _read(self, seconds: float) -> dict[str, Any]:
        """The supervisor's next line. A supervisor that says nothing for so long is killed, which ends the line."""
        assert self._process is not None
        assert self._process.stdout is not None
        timer = threading.Timer(seconds, kill_group, [self._process])
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        return dict(json.loads(line))

    def close(self) -> None:
        """Close its input: the supervisor then stops and removes its directory."""
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
            kill_group(process)
            process.wait()
        if self._group is not None:
            self._group.close()
        with contextlib.suppress(OSError):
            remove(self._folder)


class Shell(Supervisor):
    """A directory of one trajectory, and commands that run in it one after the other."""

    SCRIPT = "shell_keeper.py"

    def write(self, files: Mapping[str, bytes]) -> None:
        self._do({"do": "write", "files": {path: base64.b64encode(each).decode() for path, each in files.items()}})

    def run_command(self, words: Sequence[str], seconds: float) -> CommandOutcome:
        said = self._do({"do": "run", "words": list(words), "seconds": seconds, "cpu_seconds": math.ceil(seconds) + 1})
        return CommandOutcome(said["output"], said["code"], said["ended"])

    def check(
        self, words: Sequence[str], files: Mapping[str, bytes], reads: Sequence[str], seconds: float
    ) -> tuple[CommandOutcome, dict[str, bytes]]:
        """A last command, with files that no other saw; what it printed, and those of `reads` that it wrote."""
        given = {path: base64.b64encode(each).decode() for path, each in files.items()}
        job = {"do": "check", "words": list(words), "files": given, "reads": list(reads), "seconds": seconds}
        said = self._do({**job, "cpu_seconds": math.ceil(seconds) + 1})
        found = {path: base64.b64decode(each) for path, each in said["files"].items()}
        return CommandOutcome(said["output"], said["code"], said["ended"]), found

    def read(self) -> tuple[dict[str, bytes], dict[str, str]]:
        """The files that are left, and the hashes of those that are too large."""
        said = self._do({"do": "read"})
        return {path: base64.b64decode(each) for path, each in said["files"].items()}, said["large"]

    def _do(self, job: dict[str, Any]) -> dict[str, Any]:
        try:
            if self._process is None:
                self.start()
            said = self._exchange(job, job.get("seconds", 0.0) + 6 * GRACE)
        except (OSError, ValueError) as error:
            self.close()
            raise ScoringError("the sandbox of the trajectory broke") from error
        if "error" in said:
            raise ScoringError(f"the sandbox of the trajectory broke: {said['error']}")
        return said


@cache
def missing_isolation(kind: SandboxKind) -> list[str]:
    """The protections that this sandbox needs and this machine lacks, each by name."""
    if kind == "weak":
        return []
    if kind in CONTAINERS and shutil.which(kind) is None:
        return [f"{kind} (not installed)"]
    if kind not in ("docker", "podman") and not sys.platform.startswith("linux"):
        return ["Linux"]
    supervisor = Supervisor(kind, {**asdict(Limits()), "namespaces": True})
    try:
        supervisor.start()
    except (OSError, ValueError):
        return [f"{kind} (it did not start)"]
    finally:
        supervisor.close()
    return [part for part in required_isolation(kind) if part in supervisor.missing]


def required_isolation(kind: SandboxKind) -> list[str]:
    """A container holds the files itself; a weak sandbox is content with what there is."""
    if kind == "weak":
        return []
    return [isolation.CALLS] if kind in CONTAINERS else [isolation.CALLS, isolation.FILES]
