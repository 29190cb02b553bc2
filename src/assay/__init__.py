"""Assay: measure language models and say what the scores are worth.

import assay

result = assay.evaluate(model="hf", model_args={"pretrained": "smollm2-135m"}, tasks=["demo"])
print(result.table())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.analyses.compare import compare
    from assay.config import RunConfig
    from assay.errors import AssayError
    from assay.evaluation import evaluate
    from assay.results import RunResult
    from assay.tasks import TaskManager

    __version__: str
    simple_evaluate: Callable[..., dict[str, Any]]

__all__ = [
    "AssayError",
    "RunConfig",
    "RunResult",
    "TaskManager",
    "__version__",
    "compare",
    "evaluate",
    "simple_evaluate",
]

_HOMES = {
    "AssayError": "assay.errors",
    "RunConfig": "assay.config",
    "RunResult": "assay.results",
    "TaskManager": "assay.tasks",
    "compare": "assay.analyses.compare",
    "evaluate": "assay.evaluation",
    "simple_evaluate": "assay.compat.lm_eval.evaluator",
}


def __getattr__(name: str) -> Any:
    # Importing the package is free; each name brings only what it needs.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "__version__":
        return importlib.import_module("assay.results").assay_version()
    raise AttributeError(f"module 'assay' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
