"""Starts `assay` again and again, each time in a process of its own, without paying for its imports each time.

The arguments are modules to import first. Reads lines of JSON and answers each with a line: `{"words": [...], "env": {...}}`
forks and gives the number of the new process; `{"poll": number}` gives its exit code or null, and `{"wait": number}` its exit
code when it has ended.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

from assay.cli.entry import main


def child(words: list[str], env: dict[str, str]) -> None:
    os.environ.update(env)
    nothing = os.open(os.devnull, os.O_RDWR)
    log = os.open(env["LAUNCH_LOG"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, target in ((0, nothing), (1, nothing), (2, log)):
        os.dup2(target, number)
    try:
        main(words)
    except SystemExit as end:
        os._exit(int(end.code or 0))
    os._exit(0)


def answer(job: dict[str, Any]) -> Any:
    if "words" in job:
        number = os.fork()
        if number == 0:
            child(job["words"], job["env"])
        return number
    number, status = os.waitpid(job.get("poll") or job["wait"], os.WNOHANG if "poll" in job else 0)
    return os.waitstatus_to_exitcode(status) if number else None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
