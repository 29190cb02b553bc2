"""Runs the commands of one trajectory, one after the other, in one directory. Started by the host as `python -I shell_keeper.py`.

    host ── keeper ── holder ── command and all that it starts

Each command has a holder of its own, which watches clock, output, disk and processes, and leaves nothing running behind it.
The keeper itself runs nothing of the model's: it writes the files that the task gives, and reads those that are left at the end.
When the host dies, however it dies, the keeper's input ends, and it clears up.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import select
import signal
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from assay.sandbox import isolation, supervisor
    from assay.sandbox.clearing import remove
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import isolation
    import supervisor
    from clearing import remove

CHECK = ".check"
"""Below the directory: what a check calls `/tests` and `/logs`."""
CHECK_ROOTS = ("/tests", "/logs")
MOST_FILES = 5000
FILE_BYTES = 256 << 10
"""Of larger files only the hash is given back."""
OUTPUT = 256 << 10
"""Bytes that are stored of the beginning, and of the end, of what a command prints."""


def serve(folder: str, settings: dict[str, Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host decides
    isolation.adopt_orphans()
    place = os.path.join(folder, "work")
    os.mkdir(place)
    supervisor.answer({"missing": supervisor.missing_isolation(folder)})
    while (job := supervisor.read_job()) is not None:
        try:
            said = DOES[job["do"]](place, {**settings, **job})
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        supervisor.answer(said)


def write_files(place: str, job: dict[str, Any]) -> dict[str, Any]:
    """Before the first command: nobody has put links in the way yet."""
    for path, content in job["files"].items():
        target = os.path.join(place, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(base64.b64decode(content))
        if path.endswith(".sh"):
            os.chmod(target, 0o755)
    return {}


def names_of(place: str, job: dict[str, Any]) -> dict[str, str]:
    """What commands call a place, and where it is: a result must not depend on that."""
    checks = {root: f"{place}/{CHECK}{root}" for root in CHECK_ROOTS} if job["do"] == "check" else {}
    return {**checks, job["shown"]: place}


def placed(text: str, names: dict[str, str]) -> str:
    """Paths as they are on this machine: `/app/x` is one of `/app`, and `/apple` and `/my/app` are not."""
    wanted = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.sub(rf"(?<![\w.-])(?:{wanted})(?![\w-])", lambda found: names[found[0]], text)


def shown(text: str, names: dict[str, str]) -> str:
    """The inverse, in what is given back."""
    for name, place in names.items():
        text = text.replace(place, name)
    return text


def check(place: str, job: dict[str, Any]) -> dict[str, Any]:
    """A last command, with files that no other saw, below a directory that nobody had a hand in."""
    names, below = names_of(place, job), os.path.join(place, CHECK)
    if os.path.isdir(below) and not os.path.islink(below):
        remove(below)
    elif os.path.lexists(below):
        os.unlink(below)
    files = {path: base64.b64decode(content) for path, content in job["files"].items()}
    made = {path: placed_file(content, names) for path, content in files.items()}
    write_files(below, {"files": {path.lstrip("/"): base64.b64encode(content) for path, content in made.items()}})
    for path in (*CHECK_ROOTS, *map(os.path.dirname, job["reads"])):
        os.makedirs(below + path, exist_ok=True)
    done = run_command(place, job)
    found = read_files(below, {**job, "names": names})["files"]
    return {**done, "files": {path: found[path.lstrip("/")] for path in job["reads"] if path.lstrip("/") in found}}


def placed_file(content: bytes, names: dict[str, str]) -> bytes:
    try:
        return placed(content.decode(), names).encode()
    except UnicodeDecodeError:
        return content


def read_files(place: str, job: dict[str, Any]) -> dict[str, Any]:
    """Plain files, no links followed; what is too large by its hash."""
    files: dict[str, str] = {}
    large: dict[str, str] = {}
    called = job.get("names") or names_of(place, job)
    for here, folders, names, descriptor in os.fwalk(place, follow_symlinks=False):
        folders[:] = sorted(name for name in folders if name not in (".tmp", CHECK))
        for name in sorted(names):
            if len(files) + len(large) >= MOST_FILES:
                return {"files": files, "large": large}
            with contextlib.suppress(OSError):
                path = os.path.relpath(os.path.join(here, name), place)
                opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
                with open(opened, "rb") as file:
                    found = os.fstat(opened)
                    if not stat.S_ISREG(found.st_mode):
                        continue
                    key = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
                    if found.st_size <= FILE_BYTES:
                        text = file.read(FILE_BYTES).decode("utf-8", "surrogateescape")
                        content = shown(text, called).encode("utf-8", "surrogateescape")
                        files[key] = base64.b64encode(content).decode()
                    else:
                        large[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return {"files": files, "large": large}


def run_command(place: str, job: dict[str, Any]) -> dict[str, Any]:
    said = supervisor.in_child(lambda: json.dumps(hold(place, job)))
    supervisor.kill_descendants()
    return dict(json.loads(said)) if said else {"error": "its holder was killed"}


def hold(place: str, job: dict[str, Any]) -> dict[str, Any]:
    """Run one command; what it printed, and how it ended."""
    isolation.die_with_parent()
    isolation.adopt_orphans()
    if job["namespaces"]:
        isolation.leave_namespaces(network=job["network"])
    inlet, outlet = os.pipe()
    pid = start(place, job, outlet)
    os.close(outlet)
    output = CommandOutput()
    ended = watch(pid, inlet, output, place, job)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    supervisor.kill_descendants()
    while select.select([inlet], [], [], 0)[0] and (part := os.read(inlet, 1 << 16)):
        output.add(part)
    text = shown(output.text(), names_of(place, job))
    return {"output": text, "code": os.waitstatus_to_exitcode(status), "ended": ended}


class CommandOutput:
    """The beginning and the end of what was printed."""

    def __init__(self) -> None:
        self.head, self.tail, self.size = bytearray(), bytearray(), 0

    def add(self, part: bytes) -> None:
        self.size += len(part)
        room = OUTPUT - len(self.head)
        self.head += part[:room]
        self.tail += part[max(room, 0) :]
        if len(self.tail) > 2 * OUTPUT:
            del self.tail[:-OUTPUT]

    def text(self) -> str:
        left = self.size - len(self.head) - len(self.tail[-OUTPUT:])
        gap = f"\n… {left:,} bytes left out …\n".encode() if left > 0 else b""
        return bytes(self.head + gap + self.tail[-OUTPUT:]).decode("utf-8", "replace")


def start(place: str, job: dict[str, Any], outlet: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        isolation.die_with_parent()
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(outlet, 1)
        os.dup2(outlet, 2)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        scratch = os.path.join(place, ".tmp")
        os.makedirs(scratch, exist_ok=True)
        os.chdir(place)
        missing = isolation.confine_shell(job, place, job["hidden"], network=job["network"])
        if set(missing) & set(job["required"]):
            os.write(2, f"the sandbox lacks {', '.join(missing)}".encode())
            os._exit(126)
        python = os.path.dirname(os.path.realpath(sys.executable))
        names = {"PATH": f"/usr/local/bin:/usr/bin:/bin:{python}", "HOME": place, "TMPDIR": scratch, "LANG": "C.UTF-8"}
        names |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "TERM": "dumb", "GIT_CONFIG_NOSYSTEM": "1"}
        words = [placed(word, names_of(place, job)) for word in job["words"]]
        program = os.path.realpath(sys.executable) if words[0] == "python" else words[0]
        os.execve(program, [program, *words[1:]], names)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(127)


def watch(pid: int, inlet: int, output: CommandOutput, place: str, job: dict[str, Any]) -> str:
    """How it ended: by itself, or because it used more than it may."""
    end, look = time.monotonic() + job["seconds"], 0.0
    process = os.pidfd_open(pid)
    waits = [process, inlet]
    while (left := end - time.monotonic()) > 0:
        ready = select.select(waits, [], [], min(supervisor.TICK, left))[0]
        if inlet in ready:
            part = os.read(inlet, 1 << 16)
            output.add(part)
            if not part:
                waits.remove(inlet)
        elif process in ready:
            return "exited"
        if (now := time.monotonic()) > look:
            look = now + supervisor.TICK
            if supervisor.disk_use(place, job["disk"]) > job["disk"]:
                return f"it wrote more than {job['disk']:,} bytes of files"
            if count_processes() > job["threads"]:
                return f"it started more than {job['threads']} processes and threads"
    return "timed out"


def count_processes() -> int:
    """Threads of all that the holder has started, however deep."""
    total, parents = 0, [os.getpid()]
    while parents:
        parent = parents.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children") as listing:
                    below = [int(pid) for pid in listing.read().split()]
                parents += below
                total += sum(supervisor.count_threads(pid) for pid in below)
    return total


DOES = {"write": write_files, "run": run_command, "read": read_files, "check": check}


if __name__ == "__main__":
    home = sys.argv[1]
    try:
        serve(home, json.loads(sys.argv[2]))
    finally:
        with contextlib.suppress(OSError):
            remove(home)
