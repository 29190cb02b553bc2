"""What `evaluate.load(name)` gives: an object with `compute`, and `add`/`add_batch` to collect first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Compute = Callable[..., Any]


class EvaluateMetric:
    """A metric with the calling convention of the `evaluate` package."""

    def __init__(self, name: str, compute: Compute) -> None:
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
