"""Where vLLM runs: in this process, or once per group of devices in processes of their own (data parallel)."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol

from assay.errors import ConfigError, ModelError
from assay.models.vllm.protocol import Output, Request, read_output


class VLLMEngine(Protocol):
    def generate(self, chunks: Iterable[Sequence[Request]]) -> Iterator[tuple[int, list[Output]]]:
        """`(number of the chunk, its outputs)` as chunks are done."""

    def close(self) -> None: ...


class OneEngine:
    """vLLM in this process."""

    def __init__(self, arguments: Mapping[str, Any], lora: str | None = None) -> None:
        vllm = import_vllm()
        self.llm = vllm.LLM(**arguments)
        self._params = vllm.SamplingParams
        self._lora = None
        if lora:
            from vllm.lora.request import LoRARequest

            self._lora = LoRARequest("adapter", 1, lora)

    def generate(self, chunks: Iterable[Sequence[Request]]) -> Iterator[tuple[int, list[Output]]]:
        for number, chunk in enumerate(chunks):
            yield number, self.generate_chunk(chunk)

    def generate_chunk(self, chunk: Sequence[Request]) -> list[Output]:
        prompts = [{"prompt_token_ids": list(request.prompt)} for request in chunk]
        params = [self._params(**request.params) for request in chunk]
        outputs = self.llm.generate(prompts, params, use_tqdm=False, lora_request=self._lora)
        return [read_output(output) for output in outputs]

    def close(self) -> None:
        del self.llm


class ManyEngines:
    """`count` engines, each in a process that sees its own devices. Chunks go to whoever is free."""

    def __init__(self, count: int, arguments: Mapping[str, Any], lora: str | None = None) -> None:
        import_vllm()
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        places = context.Queue()
        for devices in device_groups(count, int(arguments.get("tensor_parallel_size", 1))):
            places.put(devices)
        self._pool = ProcessPoolExecutor(count, context, _start_engine, (places, dict(arguments), lora))
        self._count = count

    def generate(self, chunks: Iterable[Sequence[Request]]) -> Iterator[tuple[int, list[Output]]]:
        waiting = iter(enumerate(chunks))
        running: dict[Future[list[Output]], int] = {}
        try:
            while True:
                # One chunk in reserve for each engine keeps them busy without sending everything ahead.
                while len(running) < 2 * self._count and (following := next(waiting, None)) is not None:
                    running[self._pool.submit(_run_engine, list(following[1]))] = following[0]
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except Exception as error:
            raise ModelError(f"an engine of vLLM ended: {type(error).__name__}: {error}") from error
        finally:
            for future in running:
                future.cancel()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


_engine: OneEngine | None = None


def _start_engine(places: Any, arguments: dict[str, Any], lora: str | None) -> None:
    global _engine
    os.environ["CUDA_VISIBLE_DEVICES"] = places.get()
    _engine = OneEngine(arguments, lora)


def _run_engine(chunk: list[Request]) -> list[Output]:
    assert _engine is not None
    return _engine.generate_chunk(chunk)


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
