"""How many tokens go through the model at once: what memory allows, and no more than makes it faster."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
from pathlib import Path
from typing import Any

import torch

from assay.errors import ModelError

logger = logging.getLogger(__name__)

_FASTEST = {"cpu": 1024, "cuda": 2048}
"""Beyond this many tokens a pass is not faster by the token; on a CPU larger ones fall out of its caches."""
_SMALLEST = 16
SCORES_BYTES = 256 << 20
"""Scores of attention that are held at a time where no kernel keeps them to itself."""
_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 512 << 20


class TokenBudget:
    """Tokens per forward pass. Out of memory halves it for now: others may have had the memory, and give it back."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.most = tokens

    def grow(self) -> None:
        """Twice as many again, up to what it began with: called at the start of each lot of requests."""
        self.tokens = min(self.most, 2 * self.tokens)

    def halve(self, error: BaseException) -> None:
        if self.tokens // 2 < _SMALLEST:
            raise ModelError(
                f"out of memory with {self.tokens} tokens per pass: {str(error).splitlines()[0]}",
                hint="Use a smaller model or dtype, another device, or a smaller max_length.",
            ) from error
        self.tokens //= 2
        logger.warning("out of memory: continuing with %d tokens per pass", self.tokens)
        release_memory()


def choose_budget(model: Any) -> int:
    """From the memory that is free now, counting activations, scores of attention and logits of every token."""
    config = getattr(model.config, "text_config", None) or model.config
    itemsize = torch.empty(0, dtype=model.dtype).element_size()
    logits = int(getattr(config, "vocab_size", 32000)) * (itemsize + 4)
    # Scores, their exponentials and a mask of the same shape.
    scores = 0 if model.device.type == "cpu" else 3 * SCORES_BYTES
    free: int = min(free_memory(device) for device in devices_of(model)) - scores
    fits = int(0.25 * free / (bytes_per_token(model) + logits))
    return max(_SMALLEST, min(_FASTEST.get(model.device.type, 1024), fits))


def devices_of(model: Any) -> set[Any]:
    """Where its layers are; what is offloaded has no place of its own."""
    return {part.device for part in model.parameters() if part.device.type != "meta"} or {model.device}


def bytes_per_token(model: Any) -> int:
    """What a token takes while it goes through a layer."""
    config = getattr(model.config, "text_config", None) or model.config
    itemsize = torch.empty(0, dtype=model.dtype).element_size()
    hidden = int(getattr(config, "hidden_size", 1024))
    inner = int(getattr(config, "intermediate_size", None) or 4 * hidden)
    return int(itemsize * (16 * hidden + 4 * inner))


def free_memory(device: Any) -> int:
    """Bytes to be had on the device: on a CPU what the machine has, or the container if that is less."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    available = _fields(_MEMINFO).get("MemAvailable:")
    machine = available * 1024 if available else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    limit, used = (_lines(_CGROUP / name) for name in ("memory.max", "memory.current"))
    if not limit or not used or not limit[0].isdigit():
        return int(machine)
    # Cached files count as used, though the kernel drops them when memory is needed.
    cached = _fields(_CGROUP / "memory.stat").get("inactive_file", 0)
    return int(max(0, min(machine, int(limit[0]) - int(used[0]) + cached)))


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("can't allocate memory" in text or "out of memory" in text)


def release_memory() -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def available_cores() -> int:
    """Cores this process may use: its affinity, and the quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for line in _lines(_CGROUP / "cpu.max"):
        quota, _, period = line.partition(" ")
        if quota.isdigit() and period.strip().isdigit():
            cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


def keep_freed_memory() -> None:
    """Let glibc keep the memory of activations for the next layer instead of giving it back to the system.

    Tensors of some megabytes go back at every free and are faulted in page by page at the next use, which takes a tenth
    of the time of a pass. What the environment says about it (`MALLOC_…`) stands.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


def set_threads(threads: int | None) -> None:
    """As many threads as cores, unless the caller or the environment says otherwise."""
    if threads is None and os.environ.get("OMP_NUM_THREADS"):
        return
    torch.set_num_threads(threads or available_cores())


def _fields(path: Path) -> dict[str, int]:
    """The numbers of a file of the kernel with a name and a number in each line."""
    words = (line.split() for line in _lines(path))
    return {word[0]: int(word[1]) for word in words if len(word) > 1 and word[1].isdigit()}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
