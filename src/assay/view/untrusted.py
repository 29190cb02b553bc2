"""Files of a run may be anybody's. What is read from them is held against the types its fields declare.

A page then either shows a run or says what is wrong with its files; it never stumbles over them half-way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from assay.errors import AssayError, DataError
from assay.paths import read_regular
from assay.results import RunResult, fitting

T = TypeVar("T")

MOST_BYTES = 256 << 20


def read_json(path: Path, parse: Callable[[Any], T]) -> T:
    """What `parse` makes of a file, or a `DataError` that names the file, whatever is wrong with it."""
    with blaming(path):
        parsed = parse(json.loads(read_regular(path, MOST_BYTES).decode("utf-8", "surrogatepass")))
        return fitting(parsed, path.stem)


def require_plain_files(path: Path, root: Path) -> None:
    """Refuse pipes, devices and links out of `root`, at or beside a file or below a folder: readers of other harnesses' runs open
    what they find there."""
    for folder, inner, files in os.walk(path if path.is_dir() else path.parent, followlinks=False):
        if not path.is_dir():
            inner.clear()
        for name in files:
            file = Path(folder, name)
            if not file.is_file():
                raise DataError(f"{name} beside it is no regular file")
            if file.is_symlink() and not file.resolve().is_relative_to(root):
                raise DataError(f"{name} beside it is a link that leads out of {root.name}")


@contextmanager
def blaming(path: Path) -> Iterator[None]:
    """Whatever goes wrong in here is the file's fault, and is said so."""
    try:
        yield
    except AssayError as error:
        raise DataError(f"{path.name} of this run cannot be read: {error.message}") from error
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        MemoryError,
    ) as error:
        raise DataError(f"{path.name} of this run cannot be read: {type(error).__name__}: {error}") from error


def parse_result(data: Any) -> RunResult:
    """A results file of ours."""
    if not isinstance(data, dict):
        raise DataError("it is not a JSON object")
    return RunResult.from_dict(data)
