"""Values as JSON and back. Plain types are copied; what cannot be copied is named by a number (see `wire`).

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import fractions
import importlib
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from assay.sandbox.proxies import Proxy
else:
    from proxies import Proxy

_DATA_CLASSES: dict[str, Callable[..., Any]] = {
    "complex": complex,
    "range": range,
    "slice": slice,
    "Decimal": decimal.Decimal,
    "Fraction": fractions.Fraction,
    "date": datetime.date,
    "datetime": datetime.datetime,
    "time": datetime.time,
    "timedelta": datetime.timedelta,
}
_TAKEN_APART: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    complex: lambda value: (value.real, value.imag),
    range: lambda value: (value.start, value.stop, value.step),
    slice: lambda value: (value.start, value.stop, value.step),
    decimal.Decimal: lambda value: (str(value),),
    fractions.Fraction: lambda value: (value.numerator, value.denominator),
    datetime.date: lambda value: (value.year, value.month, value.day),
    datetime.timedelta: lambda value: (value.days, value.seconds, value.microseconds),
}
_MUTABLE: dict[str, type] = {
    "list": list,
    "dict": dict,
    "set": set,
    "bytearray": bytearray,
    "deque": collections.deque,
    "Counter": collections.Counter,
    "OrderedDict": collections.OrderedDict,
    "defaultdict": collections.defaultdict,
}
_MUTABLE_NAMES = {cls: name for name, cls in _MUTABLE.items()}
_CONSTANTS = {"...": ..., "NotImplemented": NotImplemented}

# Modules whose members are the same on both sides: named, not sent. What opens, evaluates or sets things is left out.
_SHARED_NAMES = """
bisect builtins cmath collections copy datetime decimal fractions functools heapq itertools json math operator random re
statistics string typing
"""
_SHARED_MODULES = frozenset(_SHARED_NAMES.split())
_KEPT_BACK = """
breakpoint compile copyright credits delattr eval exec exit getattr globals help input license locals memoryview open quit
setattr vars attrgetter methodcaller get_type_hints
"""
_NOT_SHARED = frozenset(_KEPT_BACK.split())


class ProgramError(Exception):
    """The other side is gone, or what it says cannot be read."""


class ValueEncoder:
    def __init__(self, peer: Any, mutables: list[Any] | None = None) -> None:
        self._peer = peer
        self.mutables: list[Any] = list(mutables or [])
        self._seen = {id(each): n for n, each in enumerate(self.mutables)}

    def encode(self, value: Any) -> Any:
        cls = type(value)
        if value is None or cls is bool or cls is str or cls is float:
            return value
        if cls is int:
            return value if value.bit_length() < 1000 else ["int", hex(value)]
        if cls is tuple or cls is frozenset:
            return [cls.__name__, [self.encode(each) for each in value]]
        if cls is bytes:
            return ["bytes", value.hex()]
        if cls in _MUTABLE_NAMES:
            return self._mutable(value)
        if cls in _TAKEN_APART:
            return ["data", cls.__name__, [self.encode(each) for each in _TAKEN_APART[cls](value)]]
        if cls is datetime.datetime and value.tzinfo is None:
            return ["data", "datetime", [*value.timetuple()[:6], value.microsecond]]
        if cls is datetime.time and value.tzinfo is None:
            return ["data", "time", [value.hour, value.minute, value.second, value.microsecond]]
        return self._by_name(value)

    def _mutable(self, value: Any) -> list[Any]:
        known = self._seen.get(id(value))
        if known is not None:
            return ["again", known]
        self._seen[id(value)] = len(self.mutables)
        self.mutables.append(value)
        return [_MUTABLE_NAMES[type(value)], self.contents(value), *self._construction(value)]

    def _construction(self, value: Any) -> list[Any]:
        if type(value) is collections.deque:
            return [value.maxlen]
        if type(value) is collections.defaultdict:
            return [self.encode(value.default_factory)]
        return []

    def contents(self, value: Any) -> Any:
        if isinstance(value, bytearray):
            return value.hex()
        if isinstance(value, dict):
            return [[self.encode(key), self.encode(each)] for key, each in list(value.items())]
        return [self.encode(each) for each in list(value)]

    def _by_name(self, value: Any) -> list[Any]:
        for name, constant in _CONSTANTS.items():
            if value is constant:
                return ["constant", name]
        if type(value) is Proxy and object.__getattribute__(value, "_peer") is self._peer:
            return ["yours", object.__getattribute__(value, "_number")]
        if type(value) is types.ModuleType and value.__name__ in _SHARED_MODULES:
            return ["module", value.__name__]
        if isinstance(value, type) and issubclass(value, BaseException):
            return list(self._peer.encode_exception_class(value))
        if isinstance(value, type | types.BuiltinFunctionType | types.FunctionType):
            module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
            if isinstance(module, str) and is_shared(module, name) and getattr(_module(module), name, None) is value:
                return ["shared", module, name]
        if isinstance(value, types.MethodDescriptorType) and is_shared("builtins", value.__objclass__.__name__):
            return ["method", value.__objclass__.__name__, value.__name__]
        base = next(each for each in type(value).__mro__ if getattr(builtins, each.__name__, None) is each)
        return ["object", self._peer.keep(value), base.__name__]


class Decoder:
    """Builds values of what the other side sent. Whatever is not as it should be raises, whoever sent it."""

    def __init__(self, peer: Any, mutables: list[Any]) -> None:
        self._peer = peer
        self.mutables = mutables

    def decode(self, sent: Any) -> Any:
        if not isinstance(sent, list):
            if isinstance(sent, dict):
                raise ProgramError("a mapping is not how a value is sent")
            return sent
        kind, *parts = sent
        if kind in _MUTABLE:
            return self._mutable(kind, *parts)
        return getattr(self, f"_decode_{kind}")(*parts)

    def restore(self, changes: list[Any]) -> None:
        for number, contents in changes:
            target = self.mutables[number]
            self._fill(target, contents)

    def _mutable(self, kind: str, contents: Any, *construction: Any) -> Any:
        if kind == "deque":
            made: Any = collections.deque(maxlen=construction[0])
        elif kind == "defaultdict":
            made = collections.defaultdict(self.decode(construction[0]))
        else:
            made = _MUTABLE[kind]()
        self.mutables.append(made)
        self._fill(made, contents)
        return made

    def _fill(self, target: Any, contents: Any) -> None:
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

    def _decode_int(self, text: str) -> int:
        return int(text, 16)

    def _decode_bytes(self, text: str) -> bytes:
        return bytes.fromhex(text)

    def _decode_tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(self.decode(each) for each in items)

    def _decode_frozenset(self, items: list[Any]) -> frozenset[Any]:
        return frozenset(self.decode(each) for each in items)

    def _decode_again(self, number: int) -> Any:
        return self.mutables[number]

    def _decode_data(self, name: str, parts: list[Any]) -> Any:
        return _DATA_CLASSES[name](*(self.decode(each) for each in parts))

    def _decode_constant(self, name: str) -> Any:
        return _CONSTANTS[name]

    def _decode_yours(self, number: int) -> Any:
        return self._peer.kept(number)

    def _decode_module(self, name: str) -> Any:
        if name not in _SHARED_MODULES:
            raise ProgramError(f"the module {name} is not shared")
        return _module(name)

    def _decode_shared(self, module: str, name: str) -> Any:
        if not is_shared(module, name):
            raise ProgramError(f"{module}.{name} is not shared")
        return getattr(_module(module), name)

    def _decode_method(self, cls: str, name: str) -> Any:
        if name.startswith("_"):
            raise ProgramError(f"{cls}.{name} is not shared")
        return getattr(self._decode_shared("builtins", cls), name)

    def _decode_exception(self, number: int, name: str, base: str) -> Any:
        return self._peer.exception_class(number, name, base)

    def _decode_object(self, number: int, base: str) -> Any:
        return self._peer.proxy(number, base)


def is_shared(module: Any, name: Any) -> bool:
    return (
        module in _SHARED_MODULES
        and isinstance(name, str)
        and name.isidentifier()
        and not name.startswith("_")
        and name not in _NOT_SHARED
    )


def _module(name: str) -> Any:
    return importlib.import_module(name)


def contents(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for pair in list(value.items()) for part in pair]
    return list(value)


def same(before: list[Any], after: list[Any]) -> bool:
    return len(before) == len(after) and all(a is b for a, b in zip(before, after))
