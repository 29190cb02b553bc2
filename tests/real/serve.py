"""llama.cpp's own server on a GGUF file: `serve.py FILE`. It prints its address and serves until it is ended."""

from __future__ import annotations

import signal
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.port, params.warmup = 8192, 1, 0, False
params.cpuparams.n_threads = 2
params.use_jinja = True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
signal.pause()
