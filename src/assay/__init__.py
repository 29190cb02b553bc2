"""Assay: measure language models and say what the scores are worth.

import assay

result = assay.evaluate(model="hf", model_args={"pretrained": "smollm2-135m"}, tasks=["demo"])
print(result.table())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.config import RunConfig
    from assay.errors import AssayError
    from assay.report import evaluate
    from assay.results import RunResult
    from assay.tasks import TaskManager

__all__ = ["AssayError", "RunConfig", "RunResult", "TaskManager", "evaluate"]

_HOMES = {
    "AssayError": "assay.errors",
    "RunConfig": "assay.config",
    "RunResult": "assay.results",
    "TaskManager": "assay.tasks",
    "evaluate": "assay.report",
}


def __getattr__(name: str) -> Any:
    # Importing the package is free; each name brings only what it needs.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'assay' has no attribute {name!r}")
