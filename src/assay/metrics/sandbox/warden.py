"""Runs one strange program and kills whatever it leaves behind. Started by the host as `python -I warden.py …`.

Two processes: the warden, which waits, and its child, which gives up its rights and runs the program. The program
arrives on descriptor 0 behind 32 bytes of nonce. The child proves that the program ran to its very end by writing the
nonce to the proof channel. The program shares an interpreter with that proof, so the nonce must not be within its reach
while it runs: it is in no frame, no module and no file, only in a partial object on the C stack of `deque(map(call,
…))`, behind the call that runs the program. To leave early (`os._exit(0)`, an exception) is to leave without proof.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
import types
from collections import deque
from functools import partial
from operator import call
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.metrics.sandbox import guard, jail

NONCE_SIZE = 32
ENDED, KILLED = 0, 1


def main(settings: dict[str, Any]) -> None:
    """Fork; the parent supervises and never returns, the child comes back confined."""
    jail.adopt_orphans()
    isolated = jail.leave_namespaces()
    child = os.fork()
    if child:
        os.close(0)
        os.close(settings["proof"])
        supervise(child, settings["seconds"])
    jail.die_with_parent()
    os.setpgid(0, 0)
    # In a namespace of its own the count starts at nothing; otherwise it is that of the user.
    processes = settings["processes"] + (0 if isolated else count_processes())
    jail.limit_resources(
        settings["cpu_seconds"], settings["memory"], settings["file_size"], settings["open_files"], processes
    )
    os.set_inheritable(settings["proof"], False)
    jail.write_only_below(os.getcwd())
    jail.forbid_sockets()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.dup2(null, 2)


def count_processes() -> int:
    return sum(1 for name in os.listdir("/proc") if name.isdigit()) if os.path.isdir("/proc") else 256


def supervise(child: int, seconds: float) -> None:
    """Wait for the child, at most so long; then kill it and every process that came of it."""
    watch = os.pidfd_open(child)
    ended, _, _ = select.select([watch], [], [], seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    kill_descendants()
    os._exit(ENDED if ended else KILLED)


def kill_descendants() -> None:
    """Orphans are handed to this process, so killing its children until there are none ends the whole tree."""
    while True:
        for pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children") as listing:
            return [int(pid) for pid in listing.read().split()]
    except OSError:
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and parent_of(pid) == me]


def parent_of(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def steps(proof: int) -> list[Any]:
    """First run the program, then prove it. Called when nothing of the program has run yet."""
    chunks = []
    while chunk := os.read(0, 1 << 16):
        chunks.append(chunk)
    os.dup2(1, 0)
    data = b"".join(chunks)
    nonce, source = data[:NONCE_SIZE], data[NONCE_SIZE:]
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
    sys.argv[:] = ["program"]
    program = compile(source, "<program>", "exec")
    guard.install(os.getcwd())
    for name in ("guard", "jail"):
        sys.modules.pop(name, None)
    return [partial(exec, program, vars(module)), partial(os.write, proof, nonce)]


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import guard  # type: ignore[import-not-found,no-redef]
    import jail  # type: ignore[import-not-found,no-redef]

    settings = json.loads(sys.argv[1])
    main(settings)
    try:
        deque(map(call, iter(steps(settings["proof"]))), 0)
    except BaseException as error:
        os.write(settings["proof"], f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:400])
    os._exit(0)
