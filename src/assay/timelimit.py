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
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeVar

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
