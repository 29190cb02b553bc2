"""Files of a run may be anybody's. What is read from them is held against the types its fields declare.

A page then either shows a run or says what is wrong with its files; it never stumbles over them half-way.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from assay.errors import AssayError, DataError
from assay.paths import read_regular
from assay.results import GroupResult, RunResult

T = TypeVar("T")

MOST_ROWS = 200_000
MOST_BYTES = 256 << 20
DEEPEST = 64
"""Levels of groups. The demo has two; a file whose groups contain one another has any number."""
_LARGEST = 2**63


def read_json(path: Path, parse: Callable[[Any], T]) -> T:
    """What `parse` makes of a file, or a `DataError` that names the file, whatever is wrong with it."""
    with blaming(path):
        parsed = parse(json.loads(read_regular(path, MOST_BYTES).decode("utf-8", "surrogatepass")))
        return fitting(parsed, path.stem)


def fitting(value: T, where: str) -> T:
    """The value itself, if everything in it is of the declared type."""
    for problem in misfits(value, type(value), where):
        raise DataError(problem)
    return value


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


def misfits(value: Any, hint: Any, where: str) -> Iterator[str]:
    """What in a value is not of the declared type.

    >>> list(misfits({"a": 1, "b": "x"}, dict[str, int], "counts"))
    ["counts.b is 'x', not int"]
    >>> list(misfits("up", Literal["above", "below"], "shown"))
    ["shown is 'up', not typing.Literal['above', 'below']"]
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or origin is Callable:
        return
    if origin in (Union, UnionType):
        if all(any(True for _ in misfits(value, each, where)) for each in inner):
            yield _misfit(value, hint, where)
    elif origin is Literal:
        if not isinstance(value, str) or value not in inner:
            yield _misfit(value, hint, where)
    elif hint in (int, float):
        # JSON does not tell 1 from 1.0, and has integers that no float holds.
        if not isinstance(value, int | float) or (isinstance(value, int) and abs(value) >= _LARGEST):
            yield _misfit(value, hint, where)
    elif not isinstance(value, _accepted(origin or hint)):
        yield _misfit(value, hint, where)
    elif origin is dict:
        for key, item in value.items():
            yield from misfits(key, inner[0], f"a key of {where}")
            yield from misfits(item, inner[1], f"{where}.{key}")
    elif origin in (list, tuple):
        hints = inner if origin is tuple and inner[-1] is not Ellipsis else (inner[0],) * len(value)
        if len(hints) != len(value):
            yield _misfit(value, hint, where)
        for i, (item, each) in enumerate(zip(value, hints)):
            yield from misfits(item, each, f"{where}[{i}]")
    elif is_dataclass(hint) or hasattr(hint, "_fields"):
        for name, each in _hints(hint).items():
            item = getattr(value, name)
            if type(item) not in _fit_at_a_glance(each):
                yield from misfits(item, each, f"{where}.{name}")


def _misfit(value: Any, hint: Any, where: str) -> str:
    shown = repr(value)
    name = hint.__name__ if isinstance(hint, type) else str(hint)
    return f"{where} is {shown if len(shown) <= 60 else shown[:59] + '…'}, not {name}"


def _accepted(kind: Any) -> Any:
    """JSON has lists for tuples, and any mapping will do for a dict that is only read."""
    return {tuple: (tuple, list), dict: Mapping, None: NoneType}.get(kind, kind)


@cache
def _fit_at_a_glance(hint: Any) -> frozenset[type]:
    """Types of which every value fits: most fields are a text, a float or None, and a suite has a hundred thousand."""
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else [hint]
    return frozenset(each for each in choices if each in (str, float, bool, NoneType))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields
    return {name: hints[name] for name in names}


def parse_result(data: Any) -> RunResult:
    """A results file of ours whose tree can be drawn."""
    if not isinstance(data, dict):
        raise DataError("it is not a JSON object")
    return with_finite_tree(RunResult.from_dict(data))


def with_finite_tree(result: RunResult) -> RunResult:
    """The result itself. Groups that contain one another, or each the next twice, would never end as a table."""
    sizes: dict[str, tuple[int, int]] = {}

    def size(name: str, depth: int) -> tuple[int, int]:
        """Rows of the table from here down, and levels."""
        if name not in sizes:
            if depth > DEEPEST:
                raise DataError(f"its groups are nested more than {DEEPEST} deep, or contain each other")
            node = result[name]
            children = node.children if isinstance(node, GroupResult) else ()
            below = [size(child, depth + 1) for child in children if child in result]
            rows = max(1, len(node)) + sum(rows for rows, _ in below)
            sizes[name] = rows, 1 + max((levels for _, levels in below), default=0)
        if depth + sizes[name][1] > DEEPEST + 1:
            raise DataError(f"its groups are nested more than {DEEPEST} deep")
        return sizes[name]

    rows = sum(size(root, 0)[0] for root in result.roots if root in result)
    if rows > MOST_ROWS:
        raise DataError(f"its table has {rows:,} rows, more than {MOST_ROWS:,}")
    return result
