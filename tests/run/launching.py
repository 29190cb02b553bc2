"""`assay` in processes that can be killed, started quickly: see `launcher.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COMMON = ("assay.evaluation", "assay.run", "datasets", "pyarrow.parquet")
"""What every run imports."""


def python(name: str, *arguments: str) -> subprocess.Popen[str]:
    """A script of this folder that talks through its input and output."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(name)), *arguments],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


class Launched:
    """One `assay`, with the methods of `Popen` that the tests use."""

    def __init__(self, launcher: Launcher, number: int, log: Path) -> None:
        self.launcher, self.number, self.log = launcher, number, log
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.launcher.ask({"poll": self.number})
        return self.returncode

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = self.launcher.ask({"wait": self.number})
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.number, number)

    def kill_when(self, ready: Callable[[], bool], seconds: float = 60) -> bool:
        """SIGKILL as soon as `ready` says so; False where it had ended by then."""
        deadline = time.monotonic() + seconds
        while not ready() and self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        self.send_signal(9)
        return self.wait() == -9

    def said(self) -> str:
        return self.log.read_text()


class Launcher:
    def __init__(self, *modules: str) -> None:
        self.process = python("launcher.py", *COMMON, *modules)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def start(self, words: Sequence[str], env: Mapping[str, str], log: Path) -> Launched:
        """`env` is added to that of the tests; `log` gets what is written to stderr."""
        return Launched(self, self.ask({"words": list(words), "env": {**env, "LAUNCH_LOG": str(log)}}), log)

    def run(self, words: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """To its end, which must be a good one."""
        started = self.start(words, env, log)
        assert started.wait() == 0, started.said()

    def ask(self, job: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
