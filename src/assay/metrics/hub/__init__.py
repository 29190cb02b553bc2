"""The metrics of the `evaluate` package that task files use, without that package and without a hub.

`load(name)` gives our implementation where there is one, and asks an installed `evaluate` for the rest. Task modules
that say `import evaluate` get `stand_in()`, a module with this `load`, while everybody else gets the real package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from assay.errors import MissingPackage
from assay.metrics.hub.base import EvaluateMetric
from assay.metrics.hub.imports import import_for_task
from assay.registry import Registry

_HERE = "assay.metrics.hub"
OFFLINE: Registry[Any] = Registry(
    "evaluate metric",
    lazy={
        "accuracy": f"{_HERE}.classification:accuracy",
        "f1": f"{_HERE}.classification:f1",
        "precision": f"{_HERE}.classification:precision",
        "recall": f"{_HERE}.classification:recall",
        "matthews_correlation": f"{_HERE}.classification:matthews_correlation",
        "mcc": f"{_HERE}.classification:matthews_correlation",
        "exact_match": f"{_HERE}.texts:exact_match",
        "rouge": f"{_HERE}.texts:rouge",
        "bleu": f"{_HERE}.texts:bleu",
        "sacrebleu": f"{_HERE}.texts:sacrebleu",
        "chrf": f"{_HERE}.texts:chrf",
        "ter": f"{_HERE}.texts:ter",
        "squad": f"{_HERE}.squad:squad",
        "squad_v2": f"{_HERE}.squad:squad_v2",
        "code_eval": f"{_HERE}.code_eval:code_eval",
    },
)


def load(path: str, *args: Any, **kwargs: Any) -> Any:
    """`evaluate.load`: ours where there is one, else that of the installed package."""
    if path in OFFLINE:
        return EvaluateMetric(path, OFFLINE[path])
    try:
        import evaluate
    except ImportError:
        raise MissingPackage(
            f"the metric {path!r} comes from the package evaluate, which is not installed",
            hint=f"pip install evaluate. Without it there are: {', '.join(OFFLINE)}.",
            package="evaluate",
        ) from None
    return evaluate.load(path, *args, **kwargs)


class _StandIn(ModuleType):
    """`evaluate` as task modules see it; names other than `load` come from the real package, if it is there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        import evaluate

        return getattr(evaluate, name)


_stand_in = _StandIn("evaluate", __doc__)
_stand_in.load = load  # type: ignore[attr-defined]


def stand_in() -> ModuleType:
    return _stand_in


@contextmanager
def offline_evaluate() -> Iterator[ModuleType]:
    """While it lasts, `import evaluate` gives the stand-in."""
    before = sys.modules.get("evaluate")
    sys.modules["evaluate"] = _stand_in
    try:
        yield _stand_in
    finally:
        if before is None:
            sys.modules.pop("evaluate", None)
        else:
            sys.modules["evaluate"] = before


__all__ = ["OFFLINE", "EvaluateMetric", "import_for_task", "load", "offline_evaluate", "stand_in"]
