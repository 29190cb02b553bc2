"""Where vLLM runs: in this process, or once per group of devices in processes of their own (data parallel).

Requests go to vLLM's engine one by one and come back as each is done: there is always a full batch, and no barrier at
which all wait for the longest answer of some.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from assay.errors import ConfigError, ModelError
from assay.models.vllm.protocol import Output, Request, read_output

NEIGHBOURS = 64
"""Requests that go to the same of several engines, because they share a prefix."""
_LOOK = 1.0
"""Seconds between two looks at whether the engines are alive."""

Numbered = tuple[int, Request]


class VLLMEngine(Protocol):
    def generate(self, requests: Iterable[Request], at_once: int) -> Iterator[tuple[int, Output]]:
        """`(number of the request, its output)` as they are done; `at_once` are in the hands of each engine."""

    def close(self) -> None: ...


class OneEngine:
    """vLLM in this process."""

    def __init__(self, arguments: Mapping[str, Any], lora: str | None = None) -> None:
        vllm = import_vllm()
        self.llm = vllm.LLM(**arguments)
        self._params = vllm.SamplingParams
        self._lora = None
        self._asked = 0
        if lora:
            from vllm.lora.request import LoRARequest

            self._lora = LoRARequest("adapter", 1, lora)

    def generate(self, requests: Iterable[Request], at_once: int) -> Iterator[tuple[int, Output]]:
        waiting = iter(enumerate(requests))
        return self.serve(lambda idle: next(waiting, None), at_once)

    def serve(self, take: Callable[[bool], Numbered | None], at_once: int) -> Iterator[tuple[int, Output]]:
        """Answer what `take(idle)` gives until it gives nothing to an idle engine; None otherwise means: not now."""
        from vllm.sampling_params import RequestOutputKind

        engine = self.llm.llm_engine
        under_way: dict[str, int] = {}
        try:
            while True:
                while len(under_way) < at_once and (following := take(not under_way)) is not None:
                    number, request = following
                    self._asked += 1
                    params = self._params(**request.params, output_kind=RequestOutputKind.FINAL_ONLY)
                    prompt = {"prompt_token_ids": list(request.prompt)}
                    engine.add_request(str(self._asked), prompt, params, lora_request=self._lora)
                    under_way[str(self._asked)] = number
                if not under_way:
                    return
                for output in engine.step():
                    if output.finished:
                        yield under_way.pop(output.request_id), read_output(output)
        except GeneratorExit:  # nobody waits for the rest
            engine.abort_request(list(under_way))
            raise

    def close(self) -> None:
        del self.llm


class ManyEngines:
    """`count` engines, each in a process that sees its own devices. Neighbours go together to whoever has room."""

    def __init__(self, count: int, arguments: Mapping[str, Any], lora: str | None, at_once: int) -> None:
        import_vllm()
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        self._inbox, self._outbox = context.Queue(), context.Queue()
        self._sent = 0
        self._processes = [
            context.Process(
                target=_serve,
                args=(devices, dict(arguments), lora, at_once, self._inbox, self._outbox),
                daemon=False,
            )
            for devices in device_groups(count, int(arguments.get("tensor_parallel_size", 1)))
        ]
        for process in self._processes:
            process.start()

    def generate(self, requests: Iterable[Request], at_once: int) -> Iterator[tuple[int, Output]]:
        first, waiting, under_way = self._sent, iter(requests), 0
        together = min(NEIGHBOURS, at_once)
        try:
            while True:
                while under_way < len(self._processes) * (at_once + together):  # some in reserve keep them busy
                    neighbours = [(self._sent + at, request) for at, request in zip(range(together), waiting)]
                    if not neighbours:
                        break
                    self._inbox.put(neighbours)
                    self._sent += len(neighbours)
                    under_way += len(neighbours)
                if not under_way:
                    return
                number, output = self._next()
                if number >= first:  # others were sent by whoever did not wait for them
                    under_way -= 1
                    yield number - first, output
        finally:
            if under_way:
                while not self._inbox.empty():
                    self._inbox.get()

    def _next(self) -> tuple[int, Output]:
        while True:
            try:
                number, found = self._outbox.get(timeout=_LOOK)
            except queue.Empty:
                ended = next((p for p in self._processes if not p.is_alive()), None)
                if ended is None:
                    continue
                number, found = -1, f"exit code {ended.exitcode}"
            if isinstance(found, Output):
                return number, found
            raise ModelError(f"a vLLM engine ended: {found}")

    def close(self) -> None:
        for _ in self._processes:
            self._inbox.put(None)
        for process in self._processes:
            process.join(timeout=10)
            if process.is_alive():
                process.terminate()
        self._inbox.cancel_join_thread()


def _serve(devices: str, arguments: dict[str, Any], lora: str | None, at_once: int, inbox: Any, outbox: Any) -> None:
    """One engine of several: neighbours from the inbox, outputs into the outbox, until it is told to end."""
    os.environ["CUDA_VISIBLE_DEVICES"] = devices
    here: deque[Numbered] = deque()
    over = False

    def take(idle: bool) -> Numbered | None:
        nonlocal over
        if not here and not over:
            try:
                given = inbox.get(block=idle)
            except queue.Empty:
                return None
            over = given is None
            here.extend(given or ())
        return here.popleft() if here else None

    try:
        for answered in OneEngine(arguments, lora).serve(take, at_once):
            outbox.put(answered)
    except Exception as error:  # the process that sent it raises it
        outbox.put((-1, f"{type(error).__name__}: {error}"))


def device_groups(count: int, size: int) -> list[str]:
    """Visible devices cut into groups.

    >>> device_groups(2, 2) if "CUDA_VISIBLE_DEVICES" not in os.environ else ["0,1", "2,3"]
    ['0,1', '2,3']
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [str(i) for i in range(count * size)]
    if len(devices) < count * size:
        raise ConfigError(
            f"data_parallel_size {count} × tensor_parallel_size {size} needs {count * size} devices; "
            f"CUDA_VISIBLE_DEVICES names {len(devices)}"
        )
    return [",".join(devices[i * size : (i + 1) * size]) for i in range(count)]


def import_vllm() -> Any:
    try:
        import vllm
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the model vllm needs the package {error.name!r}, which is not installed",
            hint="pip install vllm (it needs a GPU), or use --model hf.",
        ) from error
    return vllm
