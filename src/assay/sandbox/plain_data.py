"""Plain data as JSON and back: numbers, text, bytes and the collections of Python's library, each of exactly that class.

This is all that crosses between the tests and the program. Nothing in it names a function, a class or a module, so nothing
that a program sends is looked up, called or imported where the tests are.

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import collections
import decimal
import fractions
from collections.abc import Callable, Sequence
from typing import Any

_PARTS: dict[type, Callable[[Any], list[Any]]] = {
    complex: lambda value: [value.real, value.imag],
    range: lambda value: [value.start, value.stop, value.step],
    decimal.Decimal: lambda value: [str(value)],
    fractions.Fraction: lambda value: [value.numerator, value.denominator],
}
_IN_PARTS = {cls.__name__: cls for cls in _PARTS}
_FROZEN: dict[str, type] = {"tuple": tuple, "frozenset": frozenset}
_MUTABLE: dict[str, type] = {
    "list": list,
    "dict": dict,
    "set": set,
    "bytearray": bytearray,
    "deque": collections.deque,
    "Counter": collections.Counter,
    "OrderedDict": collections.OrderedDict,
}
_MUTABLE_NAMES = {cls: name for name, cls in _MUTABLE.items()}


class NotPlainError(Exception):
    """A value that is no plain data."""


class PlainEncoder:
    """`objects` are the mutable values met so far, by number: the same object twice is sent once."""

    def __init__(self, objects: Sequence[Any] = ()) -> None:
        self.objects = list(objects)
        self._numbers = {id(each): n for n, each in enumerate(self.objects)}

    def encode(self, value: Any) -> Any:
        cls = type(value)
        if value is None or cls is bool or cls is str or cls is float:
            return value
        if cls is int:
            return value if value.bit_length() < 1000 else ["int", hex(value)]
        if cls is bytes:
            return ["bytes", value.hex()]
        if cls in _FROZEN.values():
            return [cls.__name__, [self.encode(each) for each in value]]
        if cls in _PARTS:
            return [cls.__name__, [self.encode(each) for each in _PARTS[cls](value)]]
        if cls not in _MUTABLE_NAMES:
            raise NotPlainError(cls.__name__)
        if id(value) in self._numbers:
            return ["again", self._numbers[id(value)]]
        self._numbers[id(value)] = len(self.objects)
        self.objects.append(value)
        return [_MUTABLE_NAMES[cls], self.contents(value), value.maxlen if cls is collections.deque else None]

    def contents(self, value: Any) -> Any:
        if isinstance(value, bytearray):
            return value.hex()
        if isinstance(value, dict):
            return [[self.encode(key), self.encode(each)] for key, each in value.items()]
        return [self.encode(each) for each in value]


class PlainDecoder:
    """Builds values of what the other side sent. What is not as it should be raises."""

    def __init__(self, objects: Sequence[Any] = ()) -> None:
        self.objects = list(objects)

    def decode(self, sent: Any) -> Any:
        if sent is None or isinstance(sent, bool | int | float | str):
            return sent
        kind, content, *rest = sent
        if kind == "int":
            return int(content, 16)
        if kind == "bytes":
            return bytes.fromhex(content)
        if kind == "again":
            return self.objects[content]
        if kind in _FROZEN:
            return _FROZEN[kind]([self.decode(each) for each in content])
        if kind in _IN_PARTS:
            return _IN_PARTS[kind](*[self.decode(each) for each in content])
        made = collections.deque(maxlen=rest[0]) if kind == "deque" else _MUTABLE[kind]()
        self.objects.append(made)
        self.fill(made, content)
        return made

    def fill(self, target: Any, contents: Any) -> None:
        if isinstance(target, bytearray):
            target[:] = bytes.fromhex(contents)
        elif isinstance(target, dict):
            pairs = [(self.decode(key), self.decode(value)) for key, value in contents]
            target.clear()
            for key, value in pairs:
                target[key] = value
        else:
            items = [self.decode(each) for each in contents]
            target.clear()
            target.update(items) if isinstance(target, set) else target.extend(items)


def snapshot(value: Any) -> list[Any]:
    """What a mutable value holds now, to see later whether that has changed."""
    return [part for pair in value.items() for part in pair] if isinstance(value, dict) else list(value)


def same(before: list[Any], after: list[Any]) -> bool:
    return len(before) == len(after) and all(a is b for a, b in zip(before, after))
