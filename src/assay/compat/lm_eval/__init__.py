"""lm-evaluation-harness: its package as task files import it, its task and model classes, its flags, its front door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.compat.lm_eval.evaluator import simple_evaluate

__all__ = ["simple_evaluate"]


def __getattr__(name: str) -> Any:
    # Whoever needs one part of this attic opens no other.
    if name == "simple_evaluate":
        from assay.compat.lm_eval.evaluator import simple_evaluate

        return simple_evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
