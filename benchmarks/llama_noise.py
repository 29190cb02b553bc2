"""`assay noise` on real llama.cpp servers on loopback, with different numbers of slots and threads.

    python benchmarks/llama_noise.py MODEL.gguf [--limit 60]

Needs xllamacpp. Prints the table of each setting and of all of them together.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SETTINGS = {"1 slot, 1 thread": (1, 1), "4 slots, 1 thread": (4, 1), "4 slots, 2 threads": (4, 2)}


def start(path: Path, slots: int, threads: int) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.port, params.warmup = 1024 * slots, slots, 0, False
    params.cpuparams.n_threads = threads
    return xllamacpp.Server(params)


def measure(name: str, urls: list[str], limit: int, replays: int, directory: Path) -> None:
    words = ["--model", "local-completions", "--model_args", "model=smollm2-135m", "--tasks", "demo_addition"]
    greedy = ["--gen_kwargs", "do_sample=false,temperature=0", "--repeats", "1", "--limit", str(limit)]
    servers = [word for url in urls for word in ("--server", url)]
    more = ["--replays", str(replays), "--concurrency", "4,2,1", "--run_dir", str(directory / name.replace(" ", "-"))]
    print(f"\n## {name}", flush=True)
    subprocess.run([sys.executable, "-m", "assay", "noise", *words, *greedy, *servers, *more], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--replays", type=int, default=5)
    given = parser.parse_args()
    servers = {name: start(given.model, *how) for name, how in SETTINGS.items()}
    with tempfile.TemporaryDirectory() as place:
        for name, server in servers.items():
            measure(name, [server.listening_address], given.limit, given.replays, Path(place))
        urls = [server.listening_address for server in servers.values()]
        measure("all three in turn", urls, given.limit, 2 * len(urls), Path(place))


if __name__ == "__main__":
    main()
