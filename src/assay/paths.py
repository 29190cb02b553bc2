"""Where files that outlive a run are kept."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any


def assay_home() -> Path:
    """`ASSAY_HOME`, else `assay` below the user's cache directory. Not created here."""
    if chosen := os.environ.get("ASSAY_HOME"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "assay"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "assay"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay"


def read_regular(path: Path | str, most: int) -> bytes:
    """The bytes of a regular file of at most `most` bytes; anything else (a pipe, a device, a huge file) is an `OSError`.

    Without this a link to /dev/zero fills the memory, and a pipe waits for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if found.st_size > most:
            raise OSError(
                errno.EFBIG,
                f"it has {found.st_size / 1e6:,.1f} MB; at most {most / 1e6:,.0f} MB can be read",
                str(path),
            )
        parts = [os.read(descriptor, 65536)]
        while len(parts[-1]) == 65536 and len(parts) * 65536 <= most + 65536:
            parts.append(os.read(descriptor, 65536))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def regular(path: Path) -> Path:
    """The path of a regular file, to be handed to a library that would wait for a pipe; anything else is an `OSError`."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return path


def beginning(path: Path, most: int) -> bytes:
    """The first bytes of a file, to tell what wrote it; none where it cannot be read or is no file."""
    try:
        with regular(path).open("rb") as opened:
            return opened.read(most)
    except OSError:
        return b""


def parse_json(text: str | bytes) -> Any:
    """What a file of strangers says; brackets without end are a `ValueError`, as any other text that is no JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def open_lock(path: Path) -> int:
    """The descriptor of a lock file, made for its owner alone. Links are not followed, and a pipe is an `OSError`."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return descriptor


def try_lock(descriptor: int) -> bool:
    """False while another process holds it. Where there are no locks (Windows, some network file systems) nobody does.

    The lock goes with its process, so that a killed one keeps nobody waiting.
    """
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return True
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def short_name(name: str, most: int = 180) -> str:
    """A name that fits into one of a file system (255 bytes, of which others take some); a long one ends in its hash.

    >>> short_name("arc_easy"), len(short_name("x" * 5000))
    ('arc_easy', 180)
    """
    data = name.encode("utf-8", "surrogatepass")
    if len(data) <= most:
        return name
    return f"{data[: most - 17].decode('utf-8', 'ignore')}-{hashlib.sha256(data).hexdigest()[:16]}"
