"""The sandbox that templates run in: Jinja's own, for plain values, with limits on what a rendering may make.

A few characters of a template can ask for gigabytes: by repetition, by powers, by formats and by padding to a width.
Each is looked at before it is carried out. Whatever is made is counted, so that a rendering as a whole is bounded too.
"""

from __future__ import annotations

import re
import string
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined, nodes, runtime
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace, generate_lorem_ipsum
from jinja2.visitor import NodeTransformer

MAX_REPEATED = 10_000_000
MAX_EXPONENT = 1000
MAX_BITS = 1_000_000
MAX_WORK = 20_000_000
"""Characters, items and steps of one rendering."""
_CALL = 100
"""What a call costs of that: macros that call themselves twice make no long text, but many calls."""
_PLAIN_MODULES = frozenset({"builtins", "collections", "markupsafe"})
_JINJAS_OWN = (
    runtime.LoopContext,
    runtime.Macro,
    runtime.TemplateReference,
    runtime.BlockReference,
    runtime.Undefined,
    Cycler,
    Joiner,
    Namespace,
)
_PERCENT = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\d+|\*)?(?:\.(\d+|\*))?")
_PADDING = frozenset({"ljust", "rjust", "center", "zfill", "to_bytes"})
_FORMATS = frozenset({"format", "format_map"})
_GROWING = frozenset({"extend", "update", "join", "replace", "translate"})
_WALKING = frozenset(
    {"index", "count", "remove", "sort", "copy", "format", "format_map", "join", "replace", "translate", "find"}
)
"""Methods that go through what they belong to."""
_WATCHED = _PADDING | _FORMATS | _GROWING | {"expandtabs"}
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


_SIZED = (str, bytes, list, tuple, dict, set)
_spent = threading.local()


def begin_rendering() -> None:
    _spent.work = 0


def spend(work: int) -> None:
    work += _spent.work
    _spent.work = work
    if work > MAX_WORK:
        raise TemplateLimit(f"it produces or processes more than {MAX_WORK:,} characters and items")


_UNWEIGHED = (int, float, bool, type(None))
_CHARACTERS = 16
"""Characters that are compared, hashed or copied in the time of one step."""
_ITEM = 10
"""What an item costs that is looked at."""


def weigh(value: Any) -> Any:
    """The value itself, paid for as it would be walked through: a list that holds one list twice, which holds another twice, and so
    on forty times, is small in memory and endless to print, compare, hash or write."""
    kind = type(value)
    if kind in _UNWEIGHED:
        return value
    if kind is str:
        spend(len(value) // _CHARACTERS)
        return value
    steps, left = 0, [value]
    while left:
        each = left.pop()
        if isinstance(each, str | bytes):
            steps += 1 + len(each) // _CHARACTERS
        elif isinstance(each, dict):
            steps += _ITEM * (1 + len(each))
            left += each.keys()
            left += each.values()
        elif isinstance(each, list | tuple | set | frozenset):
            steps += _ITEM * (1 + len(each))
            left += each
        if steps > MAX_WORK:
            spend(steps)
    spend(steps)
    return value


def size_of(value: Any) -> int:
    return len(value) if isinstance(value, _SIZED) else 1


class LimitedEnvironment(SandboxedEnvironment):
    """Undefined names are errors, objects that are no plain values are only shown, and all that is made is counted."""

    intercepted_binops = frozenset({"*", "**", "%", "+", "-", "/", "//"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        for name, most in _FILTER_LIMITS.items():
            self.filters[name] = _limited(self.filters[name], most)
        self.filters["format"] = _limited_format(self.filters["format"])
        self.filters = {name: _charged(name, function) for name, function in self.filters.items()}
        self.filters["_concatenated"] = _concatenated
        self.filters["_weighed"] = weigh
        self.filters["_sliced"] = _sliced
        self.globals["lipsum"] = _limited(generate_lorem_ipsum, 1000, first=0)

    @staticmethod
    def concat(parts: Iterable[str]) -> str:  # what the blocks of a template are joined with
        return _joined(parts)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """A method of whatever a column holds (an image's `save`) could do anything."""
        return is_plain(obj) and super().is_safe_attribute(obj, attr, value)

    def is_safe_callable(self, obj: Any) -> bool:
        owner = getattr(obj, "__self__", None)
        return (owner is None or is_plain(owner)) and super().is_safe_callable(obj)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            _check_repetition(left, right)
        elif operator == "%":
            _check_percent(left, right)
            weigh(right)
        elif operator == "+":
            _check(size_of(left) + size_of(right), "a sum")
        elif operator == "**" and isinstance(right, int | float) and abs(right) > MAX_EXPONENT:
            raise TemplateLimit(f"the exponent {right} is too large")
        if operator in ("*", "**") and isinstance(left, int) and isinstance(right, int):
            times = right if operator == "**" else 1
            _check(left.bit_length() * times + right.bit_length(), "a number", MAX_BITS)
        if isinstance(left, int) and isinstance(right, int):
            spend(left.bit_length() * right.bit_length() >> 14)  # what long multiplication takes
        result = super().call_binop(context, operator, left, right)
        spend(size_of(result))
        return result

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        if getattr(__obj, "__name__", None) in _WATCHED:
            _check_method(getattr(__obj, "__wrapped__", __obj), args, kwargs)
        spend(_CALL)
        if getattr(__obj, "__name__", None) in _WALKING:
            weigh(getattr(__obj, "__self__", None))
        for each in (*args, *kwargs.values()):
            weigh(each)
        result = super().call(__context, __obj, *args, **kwargs)
        if isinstance(result, _SIZED) and len(result) > _CALL:
            spend(len(result))
        return result

    def getitem(self, obj: Any, argument: Any) -> Any:
        return super().getitem(obj, argument if type(argument) in (str, int) else weigh(argument))

    def add_filter(self, name: str, function: Callable[..., Any]) -> None:
        """A filter of ours, with the limits that Jinja's have."""
        self.filters[name] = _charged(name, function)


def is_plain(value: Any) -> bool:
    """Text, numbers, None, lists, dicts, and the template's own things."""
    return type(value).__module__ in _PLAIN_MODULES or isinstance(value, _JINJAS_OWN)


class Counting(NodeTransformer):
    """Puts what the environment cannot intercept into its hands: `~` and slices, and whatever walks through a value."""

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.expr = _weighed(node.expr)
        for operand in node.ops:
            operand.expr = _weighed(operand.expr)
        return node

    def visit_Test(self, node: nodes.Test) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if node.name not in ("defined", "undefined"):
            node.node = _weighed(node.node)
        node.args = [_weighed(each) for each in node.args or ()]
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [_weighed(each) for each in node.nodes]
        return node

    def visit_Pair(self, node: nodes.Pair) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.key = _weighed(node.key)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, "_concatenated", [], [], None, None, lineno=node.lineno)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        none = nodes.Const(None, lineno=node.lineno)
        bounds = [part or none for part in (node.arg.start, node.arg.stop, node.arg.step)]
        return nodes.Filter(node.node, "_sliced", bounds, [], None, None, lineno=node.lineno)


def _weighed(node: nodes.Expr) -> nodes.Expr:
    """A field of the doc is as large as it is; only what a template makes itself can be larger than it looks."""
    if isinstance(node, nodes.Const | nodes.TemplateData):
        return node
    return nodes.Filter(node, "_weighed", [], [], None, None, lineno=node.lineno)


def _concatenated(parts: list[Any]) -> str:
    weigh(parts)
    return _joined(map(str, parts))


def _sliced(value: Any, start: Any, stop: Any, step: Any) -> Any:
    part = value[start:stop:step]
    spend(size_of(part))
    return part


def join_at_once(parts: Iterable[str]) -> str:
    """The text of a rendering that does nothing but fill in fields: all that it makes is what is joined here."""
    parts = [*parts]
    if sum(map(len, parts)) > MAX_WORK:
        begin_rendering()
        spend(sum(map(len, parts)))
    return "".join(parts)


def _joined(parts: Iterable[str]) -> str:
    parts = list(parts)
    spend(sum(map(len, parts)))
    return "".join(parts)


_MULTIPLYING = frozenset({"replace", "join", "indent", "wordwrap"})


def _charge_for(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Before a filter runs, what it would make of its arguments."""
    others = (*args[1:], *kwargs.values())
    if name == "replace" and len(args) > 2:
        text, old, new = (str(each) for each in args[:3])
        _check(len(text) + text.count(old) * len(new), "the filter replace")
    elif name == "join" and args and not isinstance(args[0], str):
        items = args[0]
        spend(4 * len(items))  # items are slower than characters
        spend(sum(map(size_of, items)) + len(items) * size_of((*others, "")[0]))
    elif name in ("indent", "wordwrap"):
        lines = size_of(args[0]) if args else 0
        _check(lines * max(_largest(others), 1), f"the filter {name}", 10 * MAX_REPEATED)


def _weigh_all(args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    for each in args:
        weigh(each)
    for each in kwargs.values():
        weigh(each)


def _charged(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, with what it is given looked at first where it can multiply that, and what it makes counted."""
    first = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def charged(*args: Any, **kwargs: Any) -> Any:
        if name == "join" and len(args) > first and not isinstance(args[first], str):
            args = (*args[:first], list(args[first]), *args[first + 1 :])  # it may be a generator, which is read once
        _charge_for(name, args[first:], kwargs)
        _weigh_all(args, kwargs)
        result = function(*args, **kwargs)
        spend(size_of(result))
        return result

    if name not in _MULTIPLYING:

        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            _weigh_all(args, kwargs)
            result = function(*args, **kwargs)
            spend(len(result) if isinstance(result, _SIZED) else 1)
            return result

        return counted
    return charged


def _check(size: int, what: str, most: int = MAX_REPEATED) -> None:
    if size > most:
        raise TemplateLimit(f"{what} produces {size:,} characters or items; at most {most:,} are allowed")


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
    if name in _GROWING:
        _check_growth(owner, name, args)
        return
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


def _check_growth(owner: Any, name: str, args: tuple[Any, ...]) -> None:
    """Methods that make much of what they are given."""
    if name == "replace" and isinstance(owner, str | bytes) and len(args) > 1:
        _check(len(owner) + owner.count(args[0]) * size_of(args[1]), name)
    elif name == "join" and isinstance(owner, str | bytes) and args and isinstance(args[0], list | tuple):
        _check(sum(map(size_of, args[0])) + len(args[0]) * len(owner), name)
    elif name in ("extend", "update") and args:
        _check(size_of(owner) + size_of(args[0]), name)
        spend(size_of(args[0]))


def _check_format(text: str, largest: int) -> None:
    """`"{:300}".format(x)`: widths are summed; one that is itself a field may be any number of the arguments."""
    for _, _, spec, _ in string.Formatter().parse(text):
        if spec and "{" in spec:
            _check(largest, "a format")
        _check(sum(map(int, re.findall(r"\d+", spec or ""))), "a format")


def _largest(values: Iterable[Any]) -> int:
    return max((value for value in values if isinstance(value, int)), default=0)


def _limited(function: Callable[..., Any], most: int, first: int | None = None) -> Callable[..., Any]:
    # What a filter is applied to comes first, or after the environment that Jinja hands to some.
    first = (2 if hasattr(function, "jinja_pass_arg") else 1) if first is None else first

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
