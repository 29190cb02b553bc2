"""Rows of foreign files, one by one, to columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.comparison.views import Column
from assay.stats import Estimate, doc_keys, mean_estimate


class Collector:
    """Takes docs as they come, with their scores under each filter, and gives columns by `metric,filter`."""

    def __init__(self) -> None:
        self._filters: dict[str, list[tuple[str, str | None, int, dict[str, Any]]]] = {}

    def row(self, doc: str, prompt: str | None, doc_id: int, filter_name: str = "none") -> dict[str, Any]:
        """A new row; the caller fills in the metrics."""
        metrics: dict[str, Any] = {}
        self._filters.setdefault(filter_name, []).append((doc, prompt, doc_id, metrics))
        return metrics

    def columns(self) -> dict[str, Column]:
        found: dict[str, Column] = {}
        for filter_name, rows in self._filters.items():
            docs = doc_keys(doc for doc, _, _, _ in rows)
            prompts = [prompt for _, prompt, _, _ in rows if prompt is not None]
            requests = doc_keys(prompts) if len(prompts) == len(rows) else None
            ids = np.array([doc_id for _, _, doc_id, _ in rows], dtype=np.int64)
            for metric in dict.fromkeys(name for _, _, _, metrics in rows for name in metrics):
                values = as_column([metrics.get(metric) for _, _, _, metrics in rows])
                found[f"{metric},{filter_name}"] = Column(docs, requests, values, ids)
        return found


def as_column(values: list[Any]) -> NDArray[Any]:
    """Numbers as float64 with NaN for what is missing; anything else as objects.

    >>> as_column([1, None, True])
    array([ 1., nan,  1.])
    """
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    objects = np.empty(len(values), dtype=object)
    objects[:] = [tuple(value) if isinstance(value, list) else value for value in values]
    return objects


def reported_means(columns: dict[str, Column]) -> dict[str, Estimate]:
    """The numbers of a log that keeps only scores of docs."""
    return {key: mean_estimate(c.values[~np.isnan(c.values)]) for key, c in columns.items() if c.numeric}
