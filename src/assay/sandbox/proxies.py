"""Stand-ins for objects of the other side, and what a side may be asked to do with an object of its own.

Run in an interpreter that knows nothing of assay: the standard library only.
"""

from __future__ import annotations

import builtins
import copy
import math
import operator
from collections.abc import Callable
from typing import Any

_OPERATORS = """
lt le eq ne gt ge add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift neg pos abs invert
getitem setitem delitem contains index iadd isub imul ior iand ixor
"""
_BUILTINS = """
str bytes bool int float complex repr len iter next hash divmod reversed round getattr setattr delattr isinstance format dir
"""
_REFLECTED = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod"
_SPECIAL_NAMES = "name doc dict qualname annotations len iter next"

OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name.strip("_"): getattr(operator, name) for name in _OPERATORS.split()},
    **{name: getattr(builtins, name) for name in _BUILTINS.split()},
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "copy": copy.copy,
    "deepcopy": lambda value, *_: copy.deepcopy(value),
    "call": lambda function, arguments, named: function(*arguments, **named),
    "enter": lambda value: type(value).__enter__(value),
    "exit": lambda value, *error: type(value).__exit__(value, None, None, None),
}
"""What a side may be asked to do with an object of its own."""

_METHODS = {f"__{name}__": name for name in OPERATIONS if name not in ("getattr", "setattr", "isinstance", "call")}


class Proxy:
    """Stands for an object of the other side. `isinstance` sees the built-in class that the object's class comes from."""

    __slots__ = ("_base", "_number", "_peer")

    def __init__(self, peer: Any, number: int, base: type) -> None:
        object.__setattr__(self, "_peer", peer)
        object.__setattr__(self, "_number", number)
        object.__setattr__(self, "_base", base)

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return object.__getattribute__(self, "_base")
        if name in ("__copy__", "__deepcopy__"):
            return object.__getattribute__(self, name)
        if name.startswith("__") and name.strip("_") not in _SPECIAL_NAMES.split():
            # `copy` and its like would do here what the other side's `__reduce_ex__` tells them to.
            raise AttributeError(name)
        return _ask(self, "getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "setattr", self, name, value)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _ask(self, "call", self, arguments, named)

    def __instancecheck__(self, instance: Any) -> bool:
        return bool(_ask(self, "isinstance", instance, self))


def _ask(proxy: Any, operation: str, *arguments: Any) -> Any:
    return object.__getattribute__(proxy, "_peer").ask(operation, *arguments)


def _forward(operation: str, *, swapped: bool = False) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any) -> Any:
        return _ask(self, operation, *((*arguments, self) if swapped else (self, *arguments)))

    return method


for _name, _operation in _METHODS.items():
    setattr(Proxy, _name, _forward(_operation))
for _operation in _REFLECTED.split():
    setattr(Proxy, f"__r{_operation}__", _forward(_operation, swapped=True))
