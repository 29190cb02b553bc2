"""One process at a time, for work that shares a place on disk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.paths import open_lock, try_lock


@contextmanager
def alone(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file, calling `on_wait` once if another process has it.

    The file stays: removing it would let a third process lock a new one of the same name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock(path)
    try:
        if not try_lock(descriptor):
            on_wait()
            while not try_lock(descriptor):
                time.sleep(0.2)
        yield
    finally:
        os.close(descriptor)
