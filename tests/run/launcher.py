"""Starts `assay` again and again, each time in a process of its own, without paying for its imports each time.

Reads lines of JSON, `{"words": [...], "env": {...}}`, forks, and prints the number of the new process.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import aiohttp  # noqa: F401
import torch  # noqa: F401
import transformers  # noqa: F401

import assay.models.hf
import assay.models.openai
import assay.report
import assay.run  # noqa: F401
from assay.cli.entry import main


def child(words: list[str], env: dict[str, str]) -> None:
    os.environ.update(env)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(env["LAUNCH_LOG"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, target in ((0, nothing), (1, nothing), (2, log)):
        os.dup2(target, number)
    try:
        main(words)
    except SystemExit as end:
        os._exit(int(end.code or 0))
    os._exit(0)


def serve() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: they are killed, or they end
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        number = os.fork()
        if number == 0:
            child(job["words"], job["env"])
        print(number, flush=True)


if __name__ == "__main__":
    serve()
