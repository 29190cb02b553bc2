"""Run hostile programs in the sandbox and say what became of each: `python attack.py STEP NAMESPACES`, from any user.

Run as a script because a test starts it as another user; it prints one JSON object.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from forging_programs import CHECK, FORGERIES
from hostile_programs import CLASSES, FORGING

from assay.sandbox import AUTO, Limits, close_supervisors

QUICK = Limits(seconds=1.5, memory=512 << 20)
GOOD = ("def solve(n):\n    return n + n", "assert solve(2) == 4")


def attack(step: int = 1, namespaces: bool = True) -> dict[str, Any]:
    """Every `step`-th program of each class, good ones between them; verdicts, and what is left of the user's files."""
    os.environ["SECRET"] = "hidden"
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as tcp:
        home = Path(folder) / "home"
        home.mkdir()
        places = prepare(home)
        os.environ["TMPDIR"] = tempfile.tempdir = str(Path(folder) / "sandboxes")
        os.mkdir(tempfile.tempdir)
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(places["unix"])
        unix.listen()
        names, jobs = [], []
        for kind, programs in (FORGERIES | CLASSES).items():
            for name, program in list(programs.items())[::step]:
                names.append(f"{kind}: {name}")
                if kind in FORGERIES:
                    jobs.append((program, CHECK))
                elif programs is FORGING:
                    jobs.append((program, "assert solve(2) == 4"))
                else:
                    jobs.append((program.format(**places, port=tcp.getsockname()[1], pid=os.getpid()), "assert won"))
        before = state_of(home)
        verdicts = AUTO.run_programs(
            [job for hostile in jobs for job in (hostile, GOOD)], QUICK, workers=2, namespaces=namespaces
        )
        close_supervisors()
        return {
            "programs": len(names),
            "passed": [name for name, verdict in zip(names, verdicts[::2]) if verdict.passed and verdict.independent],
            "passed by their own word": [
                name for name, verdict in zip(names, verdicts[::2]) if verdict.passed and not verdict.independent
            ],
            "good ones that failed": [verdict.result for verdict in verdicts[1::2] if not verdict.passed],
            "files changed": state_of(home) != before,
            "left behind": sorted(os.listdir(tempfile.tempdir)),
            "results": {name: verdict.result for name, verdict in zip(names, verdicts[::2])},
        }


def prepare(home: Path) -> dict[str, str]:
    (home / "secret").write_text("hidden")
    (home / "module.py").write_text("SECRET = 'hidden'")
    (home / "precious").write_text("mine")
    (home / "cache").mkdir()
    (home / "cache" / "answers.arrow").write_text("42")
    return {
        "home": str(home),
        "secret": str(home / "secret"),
        "module": str(home / "module.py"),
        "precious": str(home / "precious"),
        "cache": str(home / "cache"),
        "unix": str(home / "socket"),
        "user": str(Path.home()),
        "tmp": str(home.parent),
    }


def state_of(home: Path) -> dict[str, tuple[Any, ...]]:
    found = {}
    for path in sorted(home.rglob("*")):
        about = path.lstat()
        text = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[str(path)] = (about.st_mode, about.st_uid, about.st_mtime_ns, about.st_nlink, text, os.listxattr(path))
    return found


if __name__ == "__main__":
    print(json.dumps(attack(int(sys.argv[1]), sys.argv[2] == "True")))
