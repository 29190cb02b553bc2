"""What the interpreter itself refuses strange code: an audit hook, which cannot be taken off again.

Refused: starting processes, signals to other processes, sockets, changing files outside the working directory, and
every way to look into the interpreter's own memory, where the proof of completion lies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

_REFUSED = (
    "ctypes.",
    "gc.get_",
    "os.exec",
    "os.fork",
    "os.kill",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "pty.",
    "signal.pthread_kill",
    "socket.",
    "subprocess.",
    "sys._current_",
    "syslog.",
    "webbrowser.",
)
_CHANGES = ("os.", "shutil.", "tempfile.")
_HARMLESS = {
    "os.listdir",
    "os.scandir",
    "os.walk",
    "os.fwalk",
    "os.chdir",
    "os.fchdir",
    "os.getxattr",
    "os.listxattr",
    "os.add_dll_directory",
    "os.putenv",
    "os.unsetenv",
}
_MODULES = {"ctypes", "_ctypes", "cffi", "_cffi_backend", "_testcapi", "_testinternalcapi", "_xxsubinterpreters"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def install(home: str) -> None:
    """From now on, refuse. `home` is the one directory in which files may change."""
    sys.addaudithook(_make_hook(os.path.realpath(home)))


def _make_hook(home: str) -> Callable[[str, tuple[Any, ...]], None]:
    # Bound once: strange code may replace these names in their modules.
    realpath, join, dirname, basename = os.path.realpath, os.path.join, os.path.dirname, os.path.basename
    fsdecode = os.fsdecode
    busy = [False]

    def inside(path: Any) -> bool:
        text = fsdecode(path)
        whole = join(realpath(dirname(text) or "."), basename(text))
        return whole == home or whole.startswith(home + "/")

    def refuse_path(event: str, path: Any, writes: bool) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        if fsdecode(path) == "/dev/null":
            return
        if writes and not inside(path):
            raise PermissionError(f"{event}: {fsdecode(path)} is outside the working directory")
        if realpath(fsdecode(path)).startswith(("/proc", "/sys")):
            raise PermissionError(f"{event}: {fsdecode(path)}")

    def check(event: str, args: tuple[Any, ...]) -> None:
        if event.startswith(_REFUSED):
            raise PermissionError(f"{event} is not allowed here")
        if event == "import" and args[0] in _MODULES:
            raise ImportError(f"{args[0]} is not available here")
        if event == "open":
            path, mode, flags = args
            writes = (
                any(letter in "wax+" for letter in mode) if isinstance(mode, str) else bool((flags or 0) & _WRITING)
            )
            refuse_path(event, path, writes)
        elif event in ("os.listdir", "os.scandir"):
            refuse_path(event, args[0], False)
        elif event.startswith(_CHANGES) and event not in _HARMLESS:
            for value in args:
                refuse_path(event, value, True)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if busy[0]:  # resolving a path raises events of its own
            return
        busy[0] = True
        try:
            check(event, args)
        finally:
            busy[0] = False

    return hook
