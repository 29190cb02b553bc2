"""`evaluate` as task files use it, without that package and without a hub.

`load(name)` gives our implementation where there is one, and asks an installed `evaluate` for the rest. Task modules
that say `import evaluate` get a module with this `load`, while everybody else gets the real package.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from assay.errors import MissingPackage, UnknownName, did_you_mean
from assay.metrics.base import METRICS
from assay.registry import Registry

_HERE = "assay.metrics.hub"
OFFLINE: Registry[Any] = Registry(
    "evaluate metric",
    lazy={
        "accuracy": f"{_HERE}.scores:accuracy",
        "f1": f"{_HERE}.scores:f1",
        "precision": f"{_HERE}.scores:precision",
        "recall": f"{_HERE}.scores:recall",
        "matthews_correlation": f"{_HERE}.scores:matthews_correlation",
        "mcc": f"{_HERE}.scores:matthews_correlation",
        "exact_match": f"{_HERE}.scores:exact_match",
        "rouge": f"{_HERE}.scores:rouge",
        "bleu": f"{_HERE}.scores:bleu",
        "sacrebleu": f"{_HERE}.scores:sacrebleu",
        "chrf": f"{_HERE}.scores:chrf",
        "ter": f"{_HERE}.scores:ter",
        "squad": f"{_HERE}.squad:squad",
        "squad_v2": f"{_HERE}.squad:squad_v2",
        "code_eval": f"{_HERE}.scores:code_eval",
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
            hint=f"pip install evaluate. Available without it: {', '.join(OFFLINE)}.",
            package="evaluate",
        ) from None
    try:
        return evaluate.load(path, *args, **kwargs)
    except FileNotFoundError as error:
        known = [*METRICS, *OFFLINE]
        raise UnknownName(
            f"unknown metric {path!r}, which the package evaluate could not fetch from the hub either",
            hint=did_you_mean(path, known)
            or f"Check the name and the network. Known without it: {', '.join(sorted(set(known)))}.",
        ) from error


class EvaluateMetric:
    """A metric with the calling convention of the `evaluate` package."""

    def __init__(self, name: str, compute: Callable[..., Any]) -> None:
        self.name = name
        self._compute = compute
        self._predictions: list[Any] = []
        self._references: list[Any] = []

    def add(self, *, prediction: Any = None, reference: Any = None, **kwargs: Any) -> None:
        self._predictions.append(kwargs.get("predictions", prediction))
        self._references.append(kwargs.get("references", reference))

    def add_batch(self, *, predictions: Sequence[Any], references: Sequence[Any]) -> None:
        self._predictions.extend(predictions)
        self._references.extend(references)

    def compute(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> Any:
        if predictions is None and references is None:
            predictions, references = self._predictions, self._references
            self._predictions, self._references = [], []
        return self._compute(predictions=predictions, references=references, **kwargs)

    def __repr__(self) -> str:
        return f"EvaluateMetric({self.name!r})"


SQUAD_METRICS = "transformers.data.metrics.squad_metrics"
"""Newer versions of transformers have dropped it; it is the official SQuAD script in another place."""


class _Lazy(ModuleType):
    """Names that are not set come from the real module, if it is there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


_EVALUATE = _Lazy("evaluate")
_EVALUATE.__dict__["load"] = load


def import_for_task(name: str, fromlist: Sequence[str] = (), importer: str = "") -> ModuleType | None:
    """The module for `import name` in a task module, whoever imports it; None if the real one will do."""
    from assay.metrics.hub import squad

    if name == "evaluate":
        return _EVALUATE
    if name == SQUAD_METRICS:
        return squad if fromlist else _chain()
    if name == SQUAD_METRICS.rpartition(".")[0] and "squad_metrics" in fromlist:
        package = _Lazy(name)
        package.__dict__["squad_metrics"] = squad
        return package
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
