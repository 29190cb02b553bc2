"""When Python looks for garbage: work that makes many objects which all live need not be searched again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rare_collections(new_objects: int = 400_000) -> Iterator[None]:
    """Look for reference cycles after every 400,000 new objects instead of every 700.

    A window of docs is some hundred thousand objects that all live until it is scored and form no cycles. Searching
    them again and again takes a third of the time of a run whose model answers at once.
    """
    before = gc.get_threshold()
    if 0 < before[0] < new_objects:
        gc.set_threshold(new_objects, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
