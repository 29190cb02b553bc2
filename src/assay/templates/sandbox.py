"""The sandbox that templates run in: Jinja's own, with limits on what one operation may make.

A few characters of a template can ask for gigabytes: by repetition, by powers, by formats and by padding to a width.
Each is looked at before it is carried out.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

MAX_REPEATED = 10_000_000
MAX_EXPONENT = 1000
_PERCENT = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\d+|\*)?(?:\.(\d+|\*))?")
_PADDING = frozenset({"ljust", "rjust", "center", "zfill", "to_bytes"})
_FORMATS = frozenset({"format", "format_map"})
_WATCHED = _PADDING | _FORMATS | {"expandtabs"}
_FILTER_LIMITS = {
    "center": MAX_REPEATED,
    "indent": 10_000,
    "batch": MAX_REPEATED,
    "slice": 100_000,
    "round": MAX_EXPONENT,
}
"""Filters that make as much as a number in their arguments says."""


class TemplateLimit(Exception):
    """A template asked for more work than any prompt needs."""


class Sandbox(SandboxedEnvironment):
    """Undefined names are errors, and no operation makes more than `MAX_REPEATED` characters or items."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        for name, most in _FILTER_LIMITS.items():
            self.filters[name] = _limited(self.filters[name], most)
        self.filters["format"] = _limited_format(self.filters["format"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            _check_repetition(left, right)
        elif operator == "%":
            _check_percent(left, right)
        elif isinstance(right, int | float) and abs(right) > MAX_EXPONENT:
            raise TemplateLimit(f"the exponent {right} is too large")
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        if getattr(__obj, "__name__", None) in _WATCHED:
            _check_method(getattr(__obj, "__wrapped__", __obj), args, kwargs)
        return super().call(__context, __obj, *args, **kwargs)


def _check(size: int, what: str, most: int = MAX_REPEATED) -> None:
    if size > most:
        raise TemplateLimit(f"{what} makes {size:,} characters or items; at most {most:,} are allowed")


def _check_repetition(left: Any, right: Any) -> None:
    length = next((len(x) for x in (left, right) if isinstance(x, str | bytes | list | tuple)), None)
    count = next((x for x in (left, right) if isinstance(x, int)), 0)
    if length is not None:
        _check(length * count, "a repetition")


def _check_percent(left: Any, right: Any) -> None:
    """`"%0300d" % n`: widths and precisions are summed; a `*` takes its width from the values."""
    if isinstance(left, bytes):
        left = left.decode("latin-1")
    if not isinstance(left, str):
        return
    given = [width for match in _PERCENT.finditer(left) for width in match.groups() if width]
    _check(sum(int(width) for width in given if width != "*"), "a format")
    if "*" in given:
        _check(_largest(right if isinstance(right, tuple) else (right,)), "a format")


def _check_method(method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Methods of text, bytes and numbers that pad; objects of the docs may have others by these names."""
    owner, name = getattr(method, "__self__", None), method.__name__
    if not isinstance(owner, str | bytes | bytearray | int):
        return
    largest = _largest((*args, *kwargs.values()))
    if name in _PADDING:
        _check(largest, name)
    elif name == "expandtabs" and not isinstance(owner, int):
        tabs = owner.count("\t") if isinstance(owner, str) else owner.count(b"\t")
        _check(tabs * largest, name)
    elif name in _FORMATS and isinstance(owner, str):
        values = args[0].values() if name == "format_map" and args and isinstance(args[0], dict) else ()
        _check_format(owner, max(largest, _largest(values)))


def _check_format(text: str, largest: int) -> None:
    """`"{:300}".format(x)`: widths are summed; one that is itself a field may be any number of the arguments."""
    for _, _, spec, _ in string.Formatter().parse(text):
        if spec and "{" in spec:
            _check(largest, "a format")
        _check(sum(map(int, re.findall(r"\d+", spec or ""))), "a format")


def _largest(values: Iterable[Any]) -> int:
    return max((value for value in values if isinstance(value, int)), default=0)


def _limited(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    # What a filter is applied to comes first, or after the environment that Jinja hands to some.
    first = 2 if hasattr(function, "jinja_pass_arg") else 1

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        _check(_largest((*args[first:], *kwargs.values())), f"the filter {function.__name__.removeprefix('do_')}", most)
        return function(*args, **kwargs)

    return checked


def _limited_format(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def checked(value: Any, *args: Any, **kwargs: Any) -> Any:
        _check_percent(str(value), args or tuple(kwargs.values()))
        return function(value, *args, **kwargs)

    return checked
