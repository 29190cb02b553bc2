"""One vLLM engine, in a process of its own: `python -m assay.models.vllm.serving FD`.

It is told over the pipe FD what to load and what to answer, and ends when the other end is closed. What vLLM writes goes where the
process that began it sent its output.
"""

from __future__ import annotations

import inspect
import os
import queue
import signal
import sys
import threading
from collections import deque
from collections.abc import Collection, Iterator
from multiprocessing.connection import Connection
from typing import Any

from assay.errors import ConfigError, ModelError
from assay.models.arguments import check_arguments
from assay.models.vllm.protocol import Forget, Numbered, Output, Ready, Start, read_output


class Inbox:
    """What came over the pipe, read beside the engine's work."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self.loaded = pipe, threading.Event()
        self._messages: queue.SimpleQueue[list[Numbered] | Forget | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                self._messages.put(self._pipe.recv())
        except (EOFError, OSError):
            if not self.loaded.is_set():  # loading hears of nothing, and may take minutes
                os.killpg(os.getpgrp(), signal.SIGKILL)
            self._messages.put(None)

    def take(self, *, wait: bool) -> Iterator[list[Numbered] | Forget | None]:
        """What is there; with `wait` at least one message. None: there will be no more."""
        if wait:
            yield self._messages.get()
        while not self._messages.empty():
            yield self._messages.get()


def load(start: Start) -> Any:
    import vllm

    if known := getattr(getattr(vllm, "EngineArgs", None), "__dataclass_fields__", None):
        check_arguments("vllm", start.arguments, [*start.known, *known])
    return vllm.LLM(**start.arguments)


def sampling_names(sampling_params: Any) -> Collection[str]:
    """What `SamplingParams` can be told; a struct of msgspec in the versions of today."""
    fields = getattr(sampling_params, "__struct_fields__", None)
    return fields or inspect.signature(sampling_params).parameters.keys()


def serve(engine: Any, start: Start, inbox: Inbox) -> Iterator[tuple[int, Output]]:
    """Outputs as they are done. There is always a full batch, and none waits for the longest answer of some."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    adapter = None
    if start.lora:
        from vllm.lora.request import LoRARequest

        adapter = LoRARequest("adapter", 1, start.lora)
    waiting: deque[Numbered] = deque()
    under_way: dict[str, int] = {}
    sent = 0
    while True:
        for message in inbox.take(wait=not waiting and not under_way):
            if isinstance(message, list):
                waiting.extend(message)
                continue
            engine.abort_request(list(under_way))
            waiting.clear()
            under_way.clear()
            if message is None:
                return
        while waiting and len(under_way) < start.at_once:
            number, request = waiting.popleft()
            sent += 1
            params = SamplingParams(**request.params, output_kind=RequestOutputKind.FINAL_ONLY)
            prompt = {"prompt_token_ids": list(request.prompt)}
            engine.add_request(str(sent), prompt, params, lora_request=adapter)
            under_way[str(sent)] = number
        if under_way:
            for output in engine.step():
                if output.finished and output.request_id in under_way:
                    yield under_way.pop(output.request_id), read_output(output)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began it says when it ends
    pipe = Connection(int(sys.argv[1]))
    start: Start = pipe.recv()
    inbox = Inbox(pipe)
    engine = None
    try:
        llm = load(start)
        engine = llm.llm_engine
        inbox.loaded.set()
        import vllm

        names = frozenset(sampling_names(vllm.SamplingParams))
        pipe.send(Ready(str(getattr(vllm, "__version__", "")), names, int(engine.model_config.max_model_len)))
        for answered in serve(engine, start, inbox):
            pipe.send(answered)
    except BrokenPipeError:  # nobody is there to be told
        pass
    except ConfigError as error:
        pipe.send(error)
    except Exception as error:
        pipe.send(ModelError(f"{type(error).__name__}: {error}"))
        raise  # the rest is for the log
    finally:
        # Told to end, vLLM's own processes do so in order; left to the interpreter, they are killed with a complaint.
        if shutdown := getattr(getattr(engine, "engine_core", None), "shutdown", None):
            shutdown()


if __name__ == "__main__":
    main()
