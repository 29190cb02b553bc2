"""The version of this package, as results record it."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def assay_version() -> str:
    try:
        return version("assay")
    except PackageNotFoundError:  # a source tree on the path, never installed
        return "unknown"
