"""transformers without the parts of torch that only compiling and training on many machines need.

Any model class of transformers imports dynamo and distributed tensors, and scipy's optimizers for a loss: almost
two of the five seconds that imports take. A process that evaluates uses none of it. While `lean_imports` is entered,

- torch says that it was built without `distributed`, a build that transformers supports;
- `torch._dynamo` is a stand-in whose decorators leave a function as it is: they tell a compiler what to do with it;
- two names that are only ever called (`LATER`) are functions that import the real one when they are called.

Whatever else is asked of a stand-in imports the real module at once, so what was not foreseen is slow and not wrong.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

LEAN = "ASSAY_LEAN_IMPORTS"
"""Set by the command line, whose process nobody else imports transformers into. With 0 everything is imported."""

DECORATORS = frozenset(["allow_in_graph", "assume_constant_result", "disable"])
LATER = {
    "torch._dynamo._trace_wrapped_higher_order_op": "TransformGetItemToIndex",
    "scipy.optimize": "linear_sum_assignment",
}
_LAUNCHERS = ("LOCAL_RANK", "WORLD_SIZE")
"""What torchrun and its like tell their processes."""


@contextmanager
def lean_imports(*, wanted: bool = True) -> Iterator[None]:
    """Around the first import of transformers and of a model's class. Does nothing where it could be missed."""
    if not (wanted and _is_ours()):
        yield
        return
    import torch.distributed

    stand_ins = _StandIns(torch.distributed)
    stand_ins.place()
    try:
        yield
    finally:
        stand_ins.remove()


def _is_ours() -> bool:
    """Whether the process is ours alone, and nothing of what is kept away is there yet."""
    if os.environ.get(LEAN) != "1" or any(name in os.environ for name in _LAUNCHERS):
        return False
    try:
        return "transformers" not in sys.modules and int(version("transformers").partition(".")[0]) >= 5
    except (PackageNotFoundError, ValueError):  # importing it says what is wrong
        return False


class _StandIns(MetaPathFinder, Loader):
    """The modules in place of the real ones, and torch's word on `distributed`."""

    def __init__(self, distributed: ModuleType) -> None:
        self._distributed = distributed
        self._is_available = distributed.is_available
        self._placed: dict[str, _StandIn] = {}

    def place(self) -> None:
        for name in ("torch._dynamo", *LATER):
            if name not in sys.modules:
                self._placed[name] = sys.modules[name] = _StandIn(name, self.remove)
        self._distributed.is_available = lambda: False  # type: ignore[attr-defined]
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        for name, stand_in in self._placed.items():
            if sys.modules.get(name) is stand_in:
                del sys.modules[name]
        self._distributed.is_available = self._is_available  # type: ignore[attr-defined]
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """A module below a stand-in is imported for real, and so is what is above it."""
        if not isinstance(sys.modules.get(name.rpartition(".")[0]), _StandIn):
            return None
        self.remove()
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """It was executed when it was imported."""


class _StandIn(ModuleType):
    def __init__(self, name: str, remove: Callable[[], None]) -> None:
        super().__init__(name)
        self._remove = remove
        self.__path__: list[str] = []
        self.__spec__ = ModuleSpec(name, None)

    def __getattr__(self, name: str) -> Any:
        module = self.__name__
        if module == "torch._dynamo" and name in DECORATORS:
            return _leave_as_it_is
        if LATER.get(module) == name:
            return lambda *args, **kwargs: self._real(name)(*args, **kwargs)
        if name.startswith("__"):  # asked of every module by whoever looks at all of them
            raise AttributeError(name)
        return self._real(name)

    def _real(self, name: str) -> Any:
        self._remove()
        return getattr(importlib.import_module(self.__name__), name)


def _leave_as_it_is(function: Any = None, *_: Any, **__: Any) -> Any:
    """A decorator with and without arguments, as dynamo's are."""
    return function if callable(function) else _leave_as_it_is
