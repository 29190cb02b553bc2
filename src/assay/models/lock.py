"""One process at a time, for work that shares a place on disk."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def alone(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file, calling `on_wait` once if another process has it.

    The file stays: removing it would let a third process lock a new one of the same name. The lock itself goes with its
    process, so that a killed one keeps nobody waiting.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        if not _try_lock(file):
            on_wait()
            while not _try_lock(file):
                time.sleep(0.2)
        yield


def _try_lock(file: IO[str]) -> bool:
    """False while another holds it. Where there are no locks (Windows, some network file systems) nobody does."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return True
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True
