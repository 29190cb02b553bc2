"""Limits for commands that only look at files, which may be anybody's: a file without Python can still ask for years of work.

Such a command works in a process of its own, which the kernel ends; the first process waits for it and says what happened.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence

SECONDS = {"ls": 300, "show": 300, "validate": 900, "export": 3600, "import": 3600}
"""Of processor time, by verb: waiting for a download counts nothing."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SI_KERNEL = 0x80


def limit_looking(arguments: Sequence[str]) -> None:
    """Go on in a worker process with limits, if this is a command that only looks; the first process ends here with its exit code."""
    verb = next((argument for argument in arguments if not argument.startswith("-")), "")
    if verb not in SECONDS or not sys.platform.startswith("linux"):
        return
    from assay.timelimit import chosen_seconds, most_memory

    seconds, first = chosen_seconds(SECONDS[verb]), os.getpid()
    awaited = {*_PASSED_ON, signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # one that is ignored would never be heard of
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    try:
        worker = os.fork()
    except OSError as error:  # no more processes
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _say(f"no process with limits could be started ({error.strerror}); going on without them")
        return
    if worker:
        os._exit(_exit_code(worker, seconds, awaited))
    _end_with(first)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _limit(seconds, most_memory())


def _exit_code(worker: int, seconds: int, awaited: set[signal.Signals]) -> int:
    """Wait for the worker. What a terminal sends reaches both processes; a signal to this one alone is passed on."""
    while True:
        ended, status, used = os.wait4(worker, os.WNOHANG)
        if ended:
            break
        told = signal.sigwaitinfo(awaited)
        if told.si_signo != signal.SIGCHLD and told.si_code != _SI_KERNEL:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, told.si_signo)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    if -code == signal.SIGXCPU or used.ru_utime + used.ru_stime >= seconds:
        _say(f"given up after {seconds} s of processor time; a file asks for more work than any benchmark needs")
        return 2
    _say(f"ended by {signal.Signals(-code).name}" + ("; was there enough memory?" if code == -signal.SIGKILL else ""))
    return 128 - code


def _say(message: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"assay: {message}\n".encode())


def _end_with(first: int) -> None:
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != first:  # it was killed before that
        os._exit(128 + signal.SIGKILL)


def _limit(seconds: int, memory: int) -> None:
    import resource

    from assay.timelimit import GRACE

    for what, value, most in (
        (resource.RLIMIT_CPU, seconds, seconds + GRACE),
        (resource.RLIMIT_DATA, memory, memory),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        _, hard = resource.getrlimit(what)
        if hard == resource.RLIM_INFINITY or hard > most:
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(what, (value, most))
