"""Take a directory away that strange code has filled. The standard library only: the supervisor uses it too."""

from __future__ import annotations

import contextlib
import itertools
import os


def remove(folder: str) -> None:
    """However deep it is and whatever its modes are. A directory inside is first lifted out beside `folder`: nothing recurs,
    and no path grows."""
    names = itertools.count()
    pending = [folder]
    while pending:
        here = pending.pop()
        os.chmod(here, 0o700)
        with os.scandir(here) as listing:
            entries = list(listing)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)  # a directory must be writable to be moved
                lifted = f"{folder}.{next(names)}"
                os.rename(entry.path, lifted)
                pending.append(lifted)
            else:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry.path)
        os.rmdir(here)
