"""llama.cpp's server in a process of its own: `python -m assay.models.llama_cpp.serving FD`.

It is told over the pipe FD what to load, answers with its address, and ends when the other end is closed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from assay.errors import ModelError


@dataclass(frozen=True, slots=True)
class ServerStart:
    """What to serve, and how."""

    path: str
    slots: int
    context: int
    """Tokens of one slot; no more than the model was trained with."""
    cache_type: str
    flash_attention: bool
    key: str = field(repr=False)
    """What requests must carry: other users of the machine, and web pages in a browser, reach its ports too."""
    threads: int | None = None
    gpu_layers: int | None = None


def load(start: ServerStart) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = start.path
    params.port, params.warmup, params.verbosity = 0, False, 2
    params.api_keys, params.ui, params.endpoint_slots = [start.key], False, False
    params.n_parallel, params.n_ctx = start.slots, start.slots * start.context
    params.kv_unified, params.use_jinja = False, True
    params.cache_type_k = params.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{start.cache_type.upper()}")
    attention = "ENABLED" if start.flash_attention else "DISABLED"
    params.flash_attn_type = getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{attention}")
    if start.threads is not None:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = start.threads
    if start.gpu_layers is not None:
        params.n_gpu_layers = start.gpu_layers
    return xllamacpp.Server(params)


def wait_for_end(pipe: Connection, loaded: threading.Event, ended: threading.Event) -> None:
    with suppress(EOFError, OSError):
        pipe.recv()
    if not loaded.is_set():  # loading hears of nothing, and may take minutes
        os.killpg(os.getpgrp(), signal.SIGKILL)
    ended.set()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began it says when it ends
    pipe = Connection(int(sys.argv[1]))
    start: ServerStart = pipe.recv()
    loaded, ended = threading.Event(), threading.Event()
    threading.Thread(target=wait_for_end, args=(pipe, loaded, ended), daemon=True).start()
    try:
        server = load(start)
        loaded.set()
        pipe.send(str(server.listening_address))
        ended.wait()
        del server
    except BrokenPipeError:  # nobody is there to be told
        pass
    except Exception as error:
        pipe.send(ModelError(f"{type(error).__name__}: {error}"))
        raise  # the rest is for the log


if __name__ == "__main__":
    main()
