"""Regular expressions that cannot hang a run.

A pattern such as `(a+)+$` needs exponential time on a text made to fool it, and model output is text nobody checked.
`TimedPattern` looks like a compiled pattern and gives up after `MATCH_SECONDS` per call: then there is no match, and
`timeouts` counts it, unless it was made to raise. Python's matcher polls for signals, so in the main thread an interval
timer ends it exactly where `re` would have gone on. Other threads get no signals; there the `regex` package, which has
a time limit of its own, does the matching.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar

from assay.errors import ConfigError

T = TypeVar("T")

MATCH_SECONDS = 5.0


class MatchTimeout(Exception):
    """A match took longer than its limit."""


def _give_up(signum: int, frame: object) -> None:
    raise MatchTimeout


def within(seconds: float, work: Callable[[], T]) -> T:
    """Run `work` in the main thread for at most `seconds`, else raise `MatchTimeout`.

    An alarm that somebody else has set keeps running: it is put back with the time that it had left.
    """
    previous = signal.signal(signal.SIGALRM, _give_up)
    waiting, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return work()
    finally:
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if waiting:
            signal.setitimer(signal.ITIMER_REAL, max(waiting - (seconds - left), 1e-6), interval)


def limited(seconds: float, work: Callable[[], T]) -> T:
    """The same in any thread; outside the main one it ends what is written in Python, within a second more."""
    if signals_work_here():
        return within(seconds, work)
    with watched():
        begin(seconds)
        return work()


def signals_work_here() -> bool:
    return hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()


DOC_SECONDS = 60.0
"""The most that reading or scoring one doc may take."""


class _Clock(threading.local):
    """When the work of this thread began, and how long it may take."""

    began = math.inf
    seconds = math.inf

    def is_late(self) -> bool:
        return time.monotonic() - self.began > self.seconds


_clock = _Clock()


@contextmanager
def watched() -> Iterator[None]:
    """Inside, each piece of work that follows a `begin` ends in time, or is a `MatchTimeout`.

    For code whose patterns nobody has timed: that of task files, and of libraries. A timer for each doc would cost more
    than most metrics; here one ticks every second and looks at the clock. Outside the main thread, which alone gets signals,
    it ends what is written in Python, and not a single call of C that runs on and on, such as one match of `re`.
    """
    before = _clock.began, _clock.seconds
    _clock.began = math.inf
    try:
        with _signals() if signals_work_here() else _watcher():
            yield
    finally:
        _clock.began, _clock.seconds = before


@contextmanager
def _signals() -> Iterator[None]:
    def look(signum: int, frame: object) -> None:
        if _clock.is_late():
            _clock.began = math.inf
            raise MatchTimeout(f"it took more than {_clock.seconds:g} seconds")

    previous = signal.signal(signal.SIGALRM, look)
    waiting, interval = signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, waiting, interval)
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def _watcher() -> Iterator[None]:
    """A second thread that looks at the clock of this one, and raises in it.

    By `PyThreadState_SetAsyncExc`, the one way that Python has to end code of another thread. A process of its own could
    be killed instead, but scorers and the functions of task files live in this one and remember what they have seen.
    """
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    clock, worker, ended = vars(_clock), ctypes.c_ulong(threading.get_ident()), threading.Event()

    def look() -> None:
        while not ended.wait(1.0):
            if time.monotonic() - clock["began"] > clock.get("seconds", math.inf):
                clock["began"] = math.inf
                raise_in(worker, ctypes.py_object(MatchTimeout))

    threading.Thread(target=look, name="assay-clock", daemon=True).start()
    try:
        yield
    finally:
        with suppress(MatchTimeout):  # of work that ended at the same moment
            _clock.began = math.inf
            ended.set()
        ended.set()


def begin(seconds: float | None = None) -> None:
    """A new piece of work begins: it may take so long, and what came before it has ended."""
    _clock.began, _clock.seconds = time.monotonic(), DOC_SECONDS if seconds is None else seconds


class TimedPattern:
    """A compiled pattern whose calls end in time. Only the methods that somebody uses.

    With `raises`, a call that does not end is a `MatchTimeout`: for text that must not go on as if nothing had matched.
    """

    def __init__(
        self, pattern: str | re.Pattern[str], flags: int = 0, *, seconds: float | None = None, raises: bool = False
    ) -> None:
        self.compiled = re.compile(pattern, flags)
        self.seconds = seconds
        self.raises = raises
        self.timeouts = 0

    @property
    def pattern(self) -> str:
        return self.compiled.pattern

    def findall(self, text: str) -> list[Any]:
        return self._call("findall", [], text)  # type: ignore[no-any-return]

    def search(self, text: str) -> Any:
        return self._call("search", None, text)

    def match(self, text: str) -> Any:
        return self._call("match", None, text)

    def fullmatch(self, text: str) -> Any:
        return self._call("fullmatch", None, text)

    def split(self, text: str) -> list[str]:
        return self._call("split", [text], text)  # type: ignore[no-any-return]

    def sub(self, replacement: str, text: str, count: int = 0) -> str:
        return self._call("sub", text, replacement, text, count)  # type: ignore[no-any-return]

    def _call(self, method: str, on_timeout: Any, *args: Any) -> Any:
        seconds = MATCH_SECONDS if self.seconds is None else self.seconds
        try:
            if signals_work_here():
                return within(seconds, lambda: getattr(self.compiled, method)(*args))
            return self._in_thread(method, seconds, *args)
        except (MatchTimeout, TimeoutError):
            self.timeouts += 1
            if self.raises:
                raise MatchTimeout(f"the pattern {self.pattern!r} ran for more than {seconds:g} seconds") from None
            return on_timeout

    def _in_thread(self, method: str, seconds: float, *args: Any) -> Any:
        import regex

        timed = regex.compile(self.compiled.pattern, self.compiled.flags & ~re.UNICODE)
        return getattr(timed, method)(*args, timeout=seconds)


@lru_cache(maxsize=512)
def timed(pattern: str, flags: int = 0) -> TimedPattern:
    """A pattern for text of a model, whose calls end in time or are a `MatchTimeout`, which fails the doc."""
    return TimedPattern(pattern, flags, raises=True)


PLANNING_SECONDS = 3600
"""Of processor time: what reading tasks and their docs may take. `ASSAY_LOOKING_SECONDS` sets another number."""
PLANNING_BYTES = 16 << 30
"""What it may add to the memory of the process; less where the machine has less."""
GRACE = 5
"""Seconds after which work that cannot be told to end is ended by the kernel."""


class _PlanningTimeout(BaseException):
    """No error of a file: code that notes a bad file and goes on to the next one must not catch it."""


def chosen_seconds(usual: int) -> int:
    """The limit of processor time that the environment sets, else the usual one."""
    chosen = os.environ.get("ASSAY_LOOKING_SECONDS", "")
    return int(chosen) if chosen.isascii() and chosen.isdigit() and 0 < int(chosen[:10]) < 10**9 else usual


def most_memory() -> int:
    """Bytes that reading files may take: what the machine has, at least 1 GB and at most 16."""
    return min(PLANNING_BYTES, max(1 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")))


@contextmanager
def bounded_planning() -> Iterator[None]:
    """Bound what happens inside in processor time and memory: task files may be anybody's, and a file without any Python can
    ask for years of work. Models are loaded outside.

    The kernel counts, so that waiting for a download costs nothing; where it does not (in threads, on other systems than
    Linux) there is no limit. A single call of C that runs on and on hears no signal, and is ended with its process.
    """
    if not (sys.platform.startswith("linux") and threading.current_thread() is threading.main_thread()):
        yield
        return
    import resource

    seconds = chosen_seconds(PLANNING_SECONDS)

    def give_up(number: int, frame: object) -> None:
        raise _PlanningTimeout

    before = {what: resource.getrlimit(what) for what in (resource.RLIMIT_CPU, resource.RLIMIT_DATA)}
    most = {
        resource.RLIMIT_CPU: math.ceil(time.process_time()) + seconds,
        resource.RLIMIT_DATA: _data() + most_memory(),
    }
    handler = signal.signal(signal.SIGXCPU, give_up)
    timer = signal.setitimer(signal.ITIMER_PROF, seconds + GRACE)
    try:
        for what, (soft, hard) in before.items():
            lower = [each for each in (most[what], soft, hard) if each != resource.RLIM_INFINITY]
            resource.setrlimit(what, (min(lower), hard))
        yield
    except _PlanningTimeout:
        raise ConfigError(
            f"given up after {seconds} s of processor time: a task file asks for more work than any benchmark needs",
            hint="`assay validate` finds it; ASSAY_LOOKING_SECONDS sets another limit.",
        ) from None
    finally:
        for what, limits in before.items():
            resource.setrlimit(what, limits)
        signal.setitimer(signal.ITIMER_PROF, *timer)
        signal.signal(signal.SIGXCPU, handler)


def _data() -> int:
    """Bytes that the process may write to now."""
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    return 0
