"""Files of a run may be anybody's. What is read from them is held against the types its fields declare, where it enters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from assay.errors import DataError

T = TypeVar("T")

MOST_ROWS = 200_000
DEEPEST = 64
"""Levels of groups. The demo has two; a file whose groups contain one another has any number."""
_LARGEST = 2**63
_LARGEST_FLOAT = 1e150
"""The square of a larger number is none."""


def fitting(value: T, where: str) -> T:
    """The value itself, if everything in it is of the declared type."""
    for problem in misfits(value, type(value), where):
        raise DataError(problem)
    return value


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
        if not isinstance(value, int | float) or _is_too_large(value) or (hint is int and not math.isfinite(value)):
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
            if type(item) not in _fit_at_a_glance(each) or (type(item) is float and _is_too_large(item)):
                yield from misfits(item, each, f"{where}.{name}")


def _is_too_large(number: float) -> bool:
    return (_LARGEST_FLOAT if isinstance(number, float) else _LARGEST) <= abs(number) < math.inf


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


def require_finite_tree(
    children: Mapping[str, Sequence[str]], roots: Iterable[str], size: Callable[[str], int]
) -> None:
    """Groups that contain one another, or each the next twice, would never end as a table. `size` is the rows of one name."""
    sizes: dict[str, tuple[int, int]] = {}

    def below(name: str, depth: int) -> tuple[int, int]:
        """Rows of the table from here down, and levels."""
        if name not in sizes:
            if depth > DEEPEST:
                raise DataError(f"its groups are nested more than {DEEPEST} deep, or contain each other")
            inside = [below(child, depth + 1) for child in children.get(name, ())]
            rows = max(1, size(name)) + sum(rows for rows, _ in inside)
            sizes[name] = rows, 1 + max((levels for _, levels in inside), default=0)
        if depth + sizes[name][1] > DEEPEST + 1:
            raise DataError(f"its groups are nested more than {DEEPEST} deep")
        return sizes[name]

    rows = sum(below(root, 0)[0] for root in roots)
    if rows > MOST_ROWS:
        raise DataError(f"its table has {rows:,} rows, more than {MOST_ROWS:,}")
