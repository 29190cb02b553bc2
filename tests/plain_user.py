"""Run a command as a plain user, also from tests that run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

NOBODY = 65534

# Python may be installed where only root can go. In a mount namespace of its own it is moved into the open.
_OPEN_UP = """
mount --make-rprivate / && mount --bind "$1" "$2" && mount -t tmpfs -o mode=755 tmpfs "$3" && mkdir -p "$1" &&
mount --bind "$2" "$1" && shift 3 && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


def command_as_plain_user(command: list[str], tmp_path: Path) -> list[str]:
    if os.geteuid() != 0:
        return command
    if not shutil.which("setpriv") or not shutil.which("unshare"):
        pytest.skip("root, without the tools to be somebody else")
    closed = _first_closed(Path(sys.executable).resolve())
    if closed is None:
        return ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *command]
    place = tmp_path / "python"
    place.mkdir()
    return ["unshare", "-m", "sh", "-c", _OPEN_UP, "sh", sys.base_prefix, str(place), str(closed), *command]


def run_as_plain_user(command: list[str], tmp_path: Path, **settings: str) -> str:
    """What it printed. It has a home and a temporary directory of its own.

    Not below pytest's: every pytest that starts, also one that a test starts, closes that to other users.
    """
    with tempfile.TemporaryDirectory(prefix="assay-plain-user-") as home:
        os.chmod(home, 0o755)
        os.chown(home, NOBODY, NOBODY) if os.geteuid() == 0 else None
        environment = {**os.environ, "HOME": home, "TMPDIR": home, "PYTHONDONTWRITEBYTECODE": "1", **settings}
        done = subprocess.run(
            command_as_plain_user(command, tmp_path),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def _first_closed(path: Path) -> Path | None:
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & 0o001), None)
