"""Whether Python code that task files name may run.

A run implies trust. A verb that only looks (`ls`, `show`, `validate`) does its work inside `reading_only`: code outside
this package is then read (`assay.config.outlines`) and never run, whichever way it is reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from assay.errors import UntrustedCode

_PACKAGE = Path(__file__).resolve().parent.parent
_reading_only: ContextVar[bool] = ContextVar("reading_only", default=False)


@contextmanager
def reading_only(on: bool = True) -> Iterator[None]:
    """Inside, asking for code that is not part of this package is `UntrustedCode`."""
    token = _reading_only.set(on)
    try:
        yield
    finally:
        _reading_only.reset(token)


def may_run(place: Path | None) -> bool:
    """Whether code in this file, or named by a file in this directory, may run now."""
    return not _reading_only.get() or (place is not None and place.resolve().is_relative_to(_PACKAGE))


def untrusted(what: str) -> UntrustedCode:
    return UntrustedCode(
        f"{what} is Python code, which was read and not run", hint="Read it yourself, then run it with --trust."
    )
