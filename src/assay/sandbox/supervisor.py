"""Runs strange programs, one after the other, and kills whatever they leave behind. Started by the host as `python -I supervisor.py`.

    host ── supervisor ── keeper ─┬─ test runner  runs the tests, says the verdict
                                  └─ program      runs what the model wrote, in an interpreter started afresh

The supervisor reads jobs from its input and writes verdicts to its output. For each job it makes a keeper, and the keeper makes the
other two, both isolated, with a channel between them on which plain data goes. The verdict leaves the test runner by a pipe that
the program does not have. Tests that need objects of the program's are run once more, by the program's process alone: such a
verdict is not independent of the program. The keeper watches the clock, the disk and the number of threads. When the host dies,
however it dies, the supervisor's input ends, and it clears up.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from assay.sandbox import isolation, program, test_runner
    from assay.sandbox.channel import Channel, ProgramError
    from assay.sandbox.clearing import remove
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import isolation
    import program
    import test_runner
    from channel import Channel, ProgramError
    from clearing import remove

TICK = 0.02
"""Seconds between two looks at what a program uses."""

Job = dict[str, Any]


def serve(folder: str, settings: dict[str, Any]) -> None:
    """Say which protections are missing, then do jobs until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host decides
    isolation.adopt_orphans()
    answer({"missing": missing_isolation(folder)})
    while (job := read_job()) is not None:
        place = os.path.join(folder, "job")
        os.mkdir(place)
        result, independent = run_job({**settings, **job, "place": place})
        remove(place)
        answer({"result": result, "independent": independent})


def read_job() -> Job | None:
    head = read_exactly(4)
    return None if head is None else json.loads(read_exactly(struct.unpack("=I", head)[0]) or b"{}")


def read_exactly(size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(0, size - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def answer(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def missing_isolation(folder: str) -> list[str]:
    """Put them up in a process made for it, and ask it."""
    limits: dict[str, float] = {"cpu_seconds": 5, "memory": 1 << 30, "file_size": 0, "open_files": 64}
    said = in_child(lambda: json.dumps(isolation.confine(limits, folder)))
    return list(json.loads(said)) if said else list(isolation.PARTS)


def in_child(function: Callable[[], str]) -> str:
    """What a process made for it says. It is killed when the host is gone."""
    inlet, outlet = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.write(outlet, function().encode("utf-8", "replace"))
        os._exit(0)
    os.close(outlet)
    said = b""
    while True:
        ready = select.select([inlet, 0], [], [])[0]
        if inlet not in ready:  # the host sends nothing before it has its answer: this is the end of the input
            os.kill(pid, signal.SIGKILL)
            break
        if not (part := os.read(inlet, 4096)):
            break
        said += part
    os.close(inlet)
    os.waitpid(pid, 0)
    return said.decode("utf-8", "replace")


def run_job(job: Job) -> tuple[str, bool]:
    """The verdict, and whether the program had no part in it."""
    result = in_child(lambda: keep(job, test_apart))
    kill_descendants()
    independent = result != test_runner.NEEDS_PROGRAM
    if not independent:
        remove(job["place"])
        os.mkdir(job["place"])
        result = in_child(lambda: keep(job, test_together))
        kill_descendants()
        result = result if result == "passed" or result.startswith(("failed", "timed out")) else "failed"
    return result or "failed: its keeper was killed", independent


def keep(job: Job, test: Callable[[Job], tuple[int, list[int]]]) -> str:
    """Start what a test needs, wait for the verdict; what it is. Runs in a process of its own, which may leave namespaces."""
    isolation.die_with_parent()
    isolation.adopt_orphans()
    if job["namespaces"]:
        isolation.leave_namespaces()
    inlet, (running, *others) = test(job)
    verdict = watch(inlet, running, job)
    for pid in (running, *others):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    kill_descendants()
    return verdict


def test_apart(job: Job) -> tuple[int, list[int]]:
    """Test runner and program, each in its process: where the verdict comes from, and both of them."""
    here, there = socket.socketpair()
    inlet, outlet = os.pipe()
    testing = start_tests(job, here.fileno(), outlet)
    running = start_program(there.fileno())
    for each in (here, there):
        each.close()
    os.close(outlet)
    return inlet, [running, testing]


def test_together(job: Job) -> tuple[int, list[int]]:
    """The program with its tests in one process, which says of itself whether it passed."""
    here, there = socket.socketpair()
    running = start_program(there.fileno())
    there.close()
    with contextlib.suppress(ProgramError):
        Channel(here.fileno()).send(job)
    return here.detach(), [running]


def start_tests(job: Job, channel: int, outlet: int) -> int:
    """An isolated process that has these descriptors and no others."""
    pid = os.fork()
    if pid:
        return pid
    try:
        isolation.die_with_parent()
        os.chdir("/")
        attach_null()
        close_all_but(channel, outlet)
        sys.path.remove(os.path.dirname(os.path.abspath(__file__)))
        if not set(isolation.confine(job)) & set(job["required"]):
            tests = job.pop("tests")
            program_end = Channel(channel)
            with contextlib.suppress(ProgramError):  # the first test finds that out
                program_end.send(job)
            os.write(outlet, test_runner.run_tests(program_end, tests).encode("utf-8", "replace"))
    finally:
        os._exit(0)


def start_program(channel: int) -> int:
    """A new interpreter that has this descriptor and no others: nothing of what this process knows is in its memory."""
    pid = os.fork()
    if pid:
        return pid
    try:
        isolation.die_with_parent()
        attach_null()
        os.dup2(channel, program.CHANNEL)
        os.set_inheritable(program.CHANNEL, True)
        close_all_but(program.CHANNEL)
        os.execve(sys.executable, [sys.executable, "-I", "-B", str(program.__file__)], {})
    finally:
        os._exit(0)


def attach_null() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)


def close_all_but(*keep_open: int) -> None:
    last = 2
    for number in sorted(keep_open):
        os.closerange(last + 1, number)
        last = number
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))


def watch(inlet: int, running: int, job: Job) -> str:
    """The verdict, or the reason why there is none."""
    end = time.monotonic() + job["seconds"]
    while (left := end - time.monotonic()) > 0:
        if select.select([inlet], [], [], min(TICK, left))[0]:
            with contextlib.suppress(OSError):
                if said := os.read(inlet, 4096):
                    return said.decode("utf-8", "replace")
            return "failed: it ended before its tests"
        if disk_use(job["place"], job["disk"]) + unlinked_use(running) > job["disk"]:
            return f"failed: it wrote more than {job['disk']:,} bytes of files"
        if count_threads(running) > job["threads"]:
            return f"failed: it started more than {job['threads']} threads"
    return "timed out"


def disk_use(place: str, most: int) -> int:
    """Bytes below a directory, each entry counted as a block at least; stops counting when it is more than `most`."""
    total, folders = 0, [place]
    while folders and total <= most:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        found = entry.stat(follow_symlinks=False)
                        total += max(found.st_blocks * 512, 4096)
                        if stat.S_ISDIR(found.st_mode):
                            folders.append(entry.path)
        except OSError:
            continue
    return total


def unlinked_use(pid: int) -> int:
    """Bytes of files that a process removed and still holds, open or mapped: each is counted once, by its number."""
    held: dict[int, int] = {}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/maps") as listing:
        for line in listing:
            if line.endswith(" (deleted)\n"):
                span, _, _, _, inode, *_ = line.split()
                low, high = (int(each, 16) for each in span.split("-"))
                held[int(inode)] = held.get(int(inode), 0) + high - low
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{name}")
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    held[found.st_ino] = found.st_blocks * 512
    return sum(held.values())


def count_threads(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as listing:
            return int(listing.read().rpartition(")")[2].split()[17])
    except (OSError, IndexError, ValueError):
        return 0


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
        with open(f"/proc/{pid}/stat") as listing:
            return int(listing.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


if __name__ == "__main__":
    home = sys.argv[1]
    try:
        serve(home, json.loads(sys.argv[2]))
    finally:
        with contextlib.suppress(OSError):
            remove(home)
