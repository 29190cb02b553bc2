"""Scores by fields of the docs: of the docs with equal values, such as one length and one depth, a score of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.errors import ConfigError
from assay.finished.run import DocColumn, Run
from assay.metrics import AGGREGATIONS
from assay.results import MetricKey, TaskResult
from assay.scoring import estimate
from assay.stats import Estimate

MOST = 500
"""Different values for which a table may have rows."""
Values = tuple[Any, ...]


@dataclass(frozen=True)
class FieldScore:
    """The score of the docs of a task that have these values."""

    task: str
    key: MetricKey
    fields: tuple[str, ...]
    values: Values
    estimate: Estimate

    def to_dict(self) -> dict[str, Any]:
        about = {"task": self.task, "metric": str(self.key), "by": dict(zip(self.fields, self.values))}
        return {**about, **self.estimate.to_dict(), "n": self.estimate.n}


def own_fields(task: TaskResult) -> tuple[str, ...]:
    """The fields that a task itself names, as `metadata: {by: [max_length, depth]}`."""
    metadata = task.config.get("metadata")
    named = metadata.get("by") if isinstance(metadata, dict) else None
    return tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ()


def scores_by_field(run: Run, task: str, fields: Sequence[str]) -> Iterator[FieldScore]:
    """Every metric of the task, for all values of the fields that occur together, in their order."""
    columns = {key: column.scored() for key, column in run.columns(task).items() if column.is_numeric}
    by_filter: dict[str, dict[int, Values]] = {}
    for key, column in columns.items():
        if key.filter not in by_filter:
            by_filter[key.filter] = _values(run, task, key.filter, fields)
        yield from _scores(task, column, fields, by_filter[key.filter])


def _values(run: Run, task: str, filter_name: str, fields: Sequence[str]) -> dict[int, Values]:
    found: dict[int, Values] = {}
    for doc in run.docs(task, filter_name):
        if missing := [name for name in fields if name not in doc.doc]:
            raise ConfigError(
                f"the docs of {task} have no field {missing[0]!r}", hint=f"They have {', '.join(map(str, doc.doc))}."
            )
        found[doc.doc_id] = tuple(_plain(doc.doc[name]) for name in fields)
    if len(set(found.values())) > MOST:
        raise ConfigError(
            f"{task}: {', '.join(fields)} has {len(set(found.values())):,} different values, too many for a table",
            hint="Name fields with few values.",
        )
    return found


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _scores(task: str, column: DocColumn, fields: Sequence[str], values: dict[int, Values]) -> Iterator[FieldScore]:
    places: defaultdict[Values, list[int]] = defaultdict(list)
    for at, doc_id in enumerate(column.doc_ids.tolist()):
        if doc_id in values:
            places[values[doc_id]].append(at)
    aggregation = AGGREGATIONS[column.aggregation if column.aggregation in AGGREGATIONS else "mean"]
    for chosen in sorted(places, key=_order):
        part = column.take(np.array(places[chosen]))
        made = estimate(part.values.tolist(), aggregation, part.docs, part.clusters)
        yield FieldScore(task, column.key, tuple(fields), chosen, made.estimate)


def _order(values: Values) -> list[tuple[int, float, str]]:
    """Numbers by size, then texts, then docs without a value."""
    return [
        (0, float(value), "") if isinstance(value, int | float) else (2 if value is None else 1, 0.0, str(value))
        for value in values
    ]
