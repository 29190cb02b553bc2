"""What is being waited for just now, by whoever waits: a server that refuses connections, or one that has not answered.

A run asks every second and shows it, so that nobody looks at a line that says something else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

_lock = Lock()
_waiting: dict[int, Callable[[float], str | None]] = {}


@contextmanager
def told_while(tell: Callable[[float], str | None]) -> Iterator[None]:
    """While this goes on, `tell(now)` says what is waited for; None where nothing is worth a word."""
    with _lock:
        _waiting[id(tell)] = tell
    try:
        yield
    finally:
        with _lock:
            _waiting.pop(id(tell), None)


def waiting_for() -> str | None:
    """The first thing that somebody waits for, in one line."""
    with _lock:
        asked = list(_waiting.values())
    now = time.monotonic()
    return next((text for tell in asked if (text := tell(now)) is not None), None)


def rounded_seconds(seconds: float) -> str:
    """Seconds as people wait for them, in steps that do not change too often.

    >>> rounded_seconds(3.2), rounded_seconds(33.0), rounded_seconds(-1)
    ('5 s', '40 s', '5 s')
    """
    step = 5 if seconds <= 30 else 10
    return f"{max(1, -int(-seconds // step)) * step} s"
