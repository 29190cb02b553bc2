"""An engine of another project in a process of its own. What it writes is no part of what a run prints: it goes to a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from assay.errors import ConfigError, ModelError
from assay.paths import assay_home

LOGS_KEPT = 20
GRACE = 30.0
"""Seconds that an engine has to end in order."""

LAST_WORDS = 5.0
"""Seconds that an engine which said why it stops has to write the rest."""


class EngineProcess:
    """One engine: its process, the pipe to it, and the file that its output goes to.

    The process runs `module`, which is told the number of its end of the pipe, and ends when the other end is closed.
    """

    def __init__(
        self, engine: str, module: str, start: object, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.engine, self.log, self.ready, self.under_way = engine, log, False, 0
        self.pipe, other = Pipe()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[other.fileno()],
                start_new_session=True,  # Ctrl-C is for the run alone, and one signal ends all processes of the engine
                env={**os.environ, **(env or {}), "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        other.close()
        self.send(start)

    def send(self, message: object) -> None:
        with suppress(BrokenPipeError):  # its end is read where answers are
            self.pipe.send(message)

    def receive(self) -> Any:
        """The next message, or why there is none."""
        try:
            message = self.pipe.recv()
        except (EOFError, ConnectionError):
            message = ModelError(last_line(self.log) or "it wrote nothing")
        if isinstance(message, ConfigError):
            raise message
        if isinstance(message, ModelError):
            with suppress(subprocess.TimeoutExpired):  # its traceback, which it writes last
                self._process.wait(LAST_WORDS)
            what = "stopped" if self.ready else "did not start"
            raise ModelError(f"{self.engine} {what}: {message.message}", hint=f"All that it wrote is in {self.log}")
        return message

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self, deadline: float) -> None:
        """In order by then, or not."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        with suppress(ProcessLookupError):  # also what it may have left behind
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def new_logs(engine: str, count: int) -> list[Path]:
    """Files for the output of so many engines; the oldest of earlier ones go."""
    directory = assay_home() / "logs"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = sorted(directory.glob(f"{engine}-*.log"))
    for old in kept[: max(0, len(kept) + count - LOGS_KEPT)]:
        old.unlink(missing_ok=True)
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    return [directory / f"{engine}-{stamp}-{os.getpid()}-{number}.log" for number in range(count)]


def last_line(log: Path) -> str:
    """What went wrong, if it said so: the last line of its log that has words."""
    with suppress(OSError):
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace")[-20_000:].splitlines()]
        return next((line for line in reversed(lines) if line), "")
    return ""
