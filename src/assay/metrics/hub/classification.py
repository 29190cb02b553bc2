"""accuracy, f1, precision, recall and matthews_correlation under their `evaluate` names."""

from __future__ import annotations

from typing import Any


def _scalar(value: Any) -> Any:
    return float(value) if getattr(value, "ndim", 0) == 0 else value


def accuracy(*, predictions: Any, references: Any, normalize: bool = True, sample_weight: Any = None) -> dict[str, Any]:
    from sklearn.metrics import accuracy_score

    return {
        "accuracy": float(accuracy_score(references, predictions, normalize=normalize, sample_weight=sample_weight))
    }


def f1(*, predictions: Any, references: Any, labels: Any = None, pos_label: Any = 1, average: Any = "binary", sample_weight: Any = None) -> dict[str, Any]:  # fmt: skip
    from sklearn.metrics import f1_score

    score = f1_score(references, predictions, labels=labels, pos_label=pos_label, average=average, sample_weight=sample_weight)  # fmt: skip
    return {"f1": _scalar(score)}


def precision(*, predictions: Any, references: Any, labels: Any = None, pos_label: Any = 1, average: Any = "binary", sample_weight: Any = None, zero_division: Any = "warn") -> dict[str, Any]:  # fmt: skip
    from sklearn.metrics import precision_score

    score = precision_score(references, predictions, labels=labels, pos_label=pos_label, average=average, sample_weight=sample_weight, zero_division=zero_division)  # fmt: skip
    return {"precision": _scalar(score)}


def recall(*, predictions: Any, references: Any, labels: Any = None, pos_label: Any = 1, average: Any = "binary", sample_weight: Any = None, zero_division: Any = "warn") -> dict[str, Any]:  # fmt: skip
    from sklearn.metrics import recall_score

    score = recall_score(references, predictions, labels=labels, pos_label=pos_label, average=average, sample_weight=sample_weight, zero_division=zero_division)  # fmt: skip
    return {"recall": _scalar(score)}


def matthews_correlation(*, predictions: Any, references: Any, sample_weight: Any = None) -> dict[str, Any]:
    from sklearn.metrics import matthews_corrcoef

    return {"matthews_correlation": float(matthews_corrcoef(references, predictions, sample_weight=sample_weight))}
