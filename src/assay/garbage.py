"""When Python looks for garbage, and when freed memory goes back to the system."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress


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


def return_free_memory() -> None:
    """Give back what the C library keeps of freed memory, where it is one that can be asked to (glibc).

    While docs come and go, it is used again and again. After the last of them it would lie idle beside what error bars take.
    """
    import ctypes

    with suppress(OSError, AttributeError, TypeError):  # TypeError: Windows, which has no library of the process itself
        ctypes.CDLL(None).malloc_trim(0)
