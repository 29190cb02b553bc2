"""The few helpers that task files import from `lm_eval`, in our own words."""

from __future__ import annotations

import importlib
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

C = TypeVar("C")

eval_logger = logging.getLogger("assay.tasks")


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def metric_max_over_ground_truths(
    metric: Callable[[Any, Any], float], prediction: Any, references: Iterable[Any]
) -> float:
    """The best score over several right answers."""
    return max(metric(prediction, reference) for reference in references)


def weighted_f1_score(items: Iterable[tuple[Any, Any]]) -> float:
    """F1 over (gold, prediction) pairs, each class weighted by how often it is gold."""
    from sklearn.metrics import f1_score

    golds, predictions = zip(*items, strict=True)
    return float(f1_score(golds, predictions, average="weighted"))


_GLUED = (" n't", "n't"), (" )", ")"), ("( ", "("), ('" ', '"'), (' "', '"')


def general_detokenize(text: str) -> str:
    """Undo the spaces that word tokenizers put around punctuation.

    >>> general_detokenize("He did n't say ( why ) .")
    "He didn't say (why)."
    """
    for apart, together in _GLUED:
        text = text.replace(apart, together)
    return re.sub(r" (['.,])", r"\1", text)


def register_filter(name: str) -> Callable[[C], C]:
    """Two task families may register one name for the same class copied into each: the last one read stands."""
    return _registering("assay.filters", "FILTERS", name)


def register_model(*names: str) -> Callable[[C], C]:
    return _registering("assay.models", "MODELS", *names)


def _registering(module: str, registry: str, *names: str) -> Callable[[C], C]:
    # By name, at run time: this folder stands below those registries and must not import them.
    entries = getattr(importlib.import_module(module), registry)

    def decorate(cls: C) -> C:
        for name in names:
            entries.add(name, cls, replace=True)
        return cls

    return decorate
