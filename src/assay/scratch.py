"""Files and directories for the time of some work. What a killed process left behind is removed by the next one that makes its like.

Who works holds a lock, which goes with its process.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from assay.paths import open_lock, try_lock

_LOCK = ".lock"


@contextlib.contextmanager
def scratch_directory(kind: str) -> Iterator[Path]:
    """A temporary directory of the user's alone."""
    prefix = f"assay-{kind}-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        if not left.is_symlink() and _is_left(left / _LOCK, left):
            _empty(left)
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix) as place:
        folder = Path(place)
        descriptor = open_lock(folder / f"{_LOCK}.new")
        try:
            try_lock(descriptor)
            (folder / f"{_LOCK}.new").rename(folder / _LOCK)  # which is never there without its lock
            yield folder
        finally:
            _empty(folder)
            os.close(descriptor)


def is_scratch(folder: Path) -> bool:
    """Whether a directory is one of these: its name says nothing."""
    return (folder / _LOCK).exists() and folder.resolve().name.startswith("assay-")


def _empty(folder: Path) -> None:
    """Remove all but the lock, which goes last: who is killed before that has left what the next one finds."""
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        elif each.name != _LOCK:
            with contextlib.suppress(OSError):
                each.unlink()


@contextlib.contextmanager
def partial_file(path: Path) -> Iterator[IO[bytes]]:
    """A file beside `path` that gets its name when all went well."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.part"):
        if _is_left(left, left):
            left.unlink(missing_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            try_lock(file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _is_left(lock: Path, owned: Path) -> bool:
    """Whether it is this user's, and no process holds it any more. Where nobody can lock (Windows), nothing is said to be left."""
    try:
        import fcntl

        if owned.lstat().st_uid != os.geteuid() or not stat.S_ISREG(lock.lstat().st_mode):
            return False
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (ImportError, OSError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
