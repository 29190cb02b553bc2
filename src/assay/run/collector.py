"""Python's search for reference cycles, made rare while docs are asked and scored."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 50_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for cycles after every 50,000 new objects instead of every 700.

    A window of docs is some hundred thousand objects that all live until it is scored and form no cycles. Searching
    them again and again takes a third of the time of a run whose model answers at once.
    """
    before = gc.get_threshold()
    if 0 < before[0] < NEW_OBJECTS:
        gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
