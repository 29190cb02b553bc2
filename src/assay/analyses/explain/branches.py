"""Where was it decided? Success of trajectories that were left at each of their steps in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.finished import DocColumn, Run
from assay.results import MetricKey, metric_and_step
from assay.stats import Estimate, ends, mean_estimate, paired_difference, unit_index, unit_keys


@dataclass(frozen=True)
class StepSuccess:
    """Trajectories whose steps before this one were kept, and this one and all later ones made anew."""

    step: int
    estimate: Estimate
    docs: int
    difference: Estimate | None = None
    """From step 1, where nothing was kept, on the docs that have this step; None of step 1 itself."""

    @property
    def is_apart(self) -> bool:
        found = None if self.difference is None else ends(self.difference)
        return found is not None and (found[0] > 0 or found[1] < 0)

    def to_dict(self) -> dict[str, Any]:
        parts = {"": self.estimate} | ({} if self.difference is None else {"difference_": self.difference})
        shown = {f"{name}{end}": getattr(each, end) for name, each in parts.items() for end in ("value", "low", "high")}
        return {"step": self.step, "docs": self.docs, **shown}


def success_by_step(run: Run, task: str, key: MetricKey) -> tuple[StepSuccess, ...]:
    """Empty where the run is no branch at each step. All intervals hold together (Bonferroni), those of the successes and those
    of the differences: trajectories share docs and first steps, and this holds for any dependence."""
    found: dict[int, DocColumn] = {}
    for other, column in run.columns(task).items():
        metric, step = metric_and_step(other.metric)
        if step is not None and (metric, other.filter) == (key.metric, key.filter):
            found[step] = column
    return tell_apart({step: found[step].scored() for step in sorted(found)})


def tell_apart(columns: Mapping[int, DocColumn]) -> tuple[StepSuccess, ...]:
    """By step, each column the docs that have it."""
    if 1 not in columns:
        return ()
    level, of_differences = 1 - 0.05 / len(columns), 1 - 0.05 / max(1, len(columns) - 1)
    return tuple(
        StepSuccess(
            step,
            mean_estimate(column.values, _units(column), level=level),
            len(column),
            None if step == 1 else _from_the_first(columns[1], column, of_differences),
        )
        for step, column in columns.items()
    )


def first_apart(steps: Sequence[StepSuccess]) -> int | None:
    """The first step whose success differs from that of step 1 for sure."""
    return next((each.step for each in steps if each.is_apart), None)


def _from_the_first(first: DocColumn, column: DocColumn, level: float) -> Estimate:
    places = {doc_id: place for place, doc_id in enumerate(first.doc_ids.tolist())}
    both = [(places[doc_id], place) for place, doc_id in enumerate(column.doc_ids.tolist()) if doc_id in places]
    before, after = np.array(both, dtype=np.int64).reshape(-1, 2).T
    return paired_difference(first.values[before], column.values[after], _units(column, after), level=level).estimate


def _units(column: DocColumn, places: Any = slice(None)) -> Any:
    clusters = None if column.clusters is None else column.clusters[places]
    return unit_index(unit_keys(column.docs[places], clusters))
