"""What task modules get when they import packages that we stand in for."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

SQUAD_METRICS = "transformers.data.metrics.squad_metrics"
"""Newer versions of transformers have dropped it; it is the official SQuAD script in another place."""


class _Lazy(ModuleType):
    """Names that are not set come from the real module, if it is there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


def import_for_task(name: str, fromlist: Sequence[str] | None = ()) -> ModuleType | None:
    """The module for `import name` in a task module, or None if the real one will do."""
    from assay.metrics.hub import squad, stand_in

    if name == "evaluate":
        return stand_in()
    if name == SQUAD_METRICS:
        return squad if fromlist else _chain()
    if name == SQUAD_METRICS.rpartition(".")[0] and "squad_metrics" in (fromlist or ()):
        found = _Lazy(name)
        found.__dict__["squad_metrics"] = squad
        return found
    return None


def _chain() -> ModuleType:
    """`transformers` with `.data.metrics.squad_metrics`: what `import a.b.c as d` walks through."""
    from assay.metrics.hub import squad

    top = _Lazy("transformers")
    module: ModuleType = top
    parts = SQUAD_METRICS.split(".")[1:]
    for part in parts[:-1]:
        module.__dict__[part] = _Lazy(f"{module.__name__}.{part}")
        module = module.__dict__[part]
    module.__dict__[parts[-1]] = squad
    return top
