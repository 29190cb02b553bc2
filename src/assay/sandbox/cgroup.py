"""A control group for a supervisor and its programs, where this process may make one: a second line behind the resource limits.

Resource limits count what one process asks for; a control group counts what all of them hold, files in memory included. Most
plain users may not make one, and then the limits of the processes stand alone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
OWN = Path("/proc/self/cgroup")
PREFIX = "assay-sandbox-"
_numbers = itertools.count()


class ControlGroup:
    """Directories, one a hierarchy, that hold a process and what it starts to a limit. `members` is empty where none
    could be made."""

    def __init__(self, memory: int, processes: int) -> None:
        name = f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        self.members: list[Path] = []
        for parent, limits in _parents():
            _clear(parent)
            sizes = {"memory": memory, "pids": processes}
            made = _make(parent / name, {file: sizes[controller] for controller, file in limits.items()})
            self.members += [] if made is None else [made]

    def add(self, pid: int) -> None:
        for member in self.members:
            with contextlib.suppress(OSError):
                (member / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        for member in self.members:
            with contextlib.suppress(OSError):
                member.rmdir()
        self.members = []


def _clear(parent: Path) -> None:
    """Remove what runs that were killed left: groups of processes that are no more, which are empty."""
    for left in parent.glob(f"{PREFIX}*"):
        owner = left.name.removeprefix(PREFIX).split("-")[0]
        if not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                left.rmdir()


def _make(path: Path, limits: dict[str, int]) -> Path | None:
    try:
        path.mkdir()
    except OSError:
        return None
    try:
        for file, value in limits.items():
            (path / file).write_text(str(value))
    except OSError:
        with contextlib.suppress(OSError):
            path.rmdir()
        return None
    return path


def _parents() -> Iterator[tuple[Path, dict[str, str]]]:
    """The directories of this process's own groups, with the files that limit each controller."""
    try:
        mounts = [line.split() for line in MOUNTS.read_text().splitlines()]
        own = [line.split(":", 2) for line in OWN.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, place in own:
        for _, mount, kind, options, *_ in mounts:
            parent = Path(mount + place) if place != "/" else Path(mount)
            if kind == "cgroup2" and not controllers:
                given = (_read(parent / "cgroup.subtree_control")).split()
                limits = {"memory": "memory.max", "pids": "pids.max"}
                if all(controller in given for controller in limits):
                    yield parent, limits
            elif kind == "cgroup" and controllers in ("memory", "pids") and controllers in options.split(","):
                yield parent, {controllers: "memory.limit_in_bytes" if controllers == "memory" else "pids.max"}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
