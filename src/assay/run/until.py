"""`--until`: docs in a seeded random order, asked a few at a time, until the rule says that enough is known.

The rule is anytime-valid: looking after every batch costs nothing in error rate. Each task stops by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.results import MetricColumn, MetricKey, RunDirectory, read_samples
from assay.run.collect import Collector
from assay.run.plan import Plan, PlannedTask
from assay.run.units import Unit
from assay.stats import StoppingRule

BATCH = 32
Floats = NDArray[np.float64]


class KeptScore(NamedTuple):
    """What an earlier run asked about a doc, and what the answer scored."""

    asked: str
    value: float


@dataclass
class Watch:
    """One task and the rule that watches its first metric."""

    planned: PlannedTask
    rule: StoppingRule
    key: MetricKey | None = None
    reason: str | None = None
    _baseline: dict[str, KeptScore] | None = None
    _turned: bool = False
    """Whether the rule was fed `1 - score`: it speaks of better and worse, and takes higher for better."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the score, valid whenever one looks; None before the first doc."""
        if (found := self.rule.interval) is None or not self._turned:
            return found
        return 1 - found[1], 1 - found[0]

    def batches(self, collector: Collector, *, to_the_end: bool = False) -> Iterator[list[Unit]]:
        """Batch after batch, until the rule is satisfied or the docs are used up.

        Each batch must be answered and collected before the next is asked for: the rule looks at its scores then.
        `to_the_end` is for docs that were asked already: all of them count, wherever the rule would stop now.
        """
        if not collector.scores_in_parts:
            raise ConfigError(
                f"--until: task {self.planned.name!r} has a filter that needs all responses at once",
                hint="Leave out --until for this task.",
            )
        seen = 0
        for batch in self._batches():
            yield batch
            column = self._column(collector)
            values, doc_ids = np.asarray(column.values[seen:], dtype=np.float64), list(column.doc_ids[seen:])
            seen += len(doc_ids)
            baseline = self._baseline_of({unit.requests.doc_id: unit for unit in batch}, doc_ids)
            if baseline is not None and column.higher_is_better is False:
                self._turned, values, baseline = True, 1 - values, 1 - baseline
            units = None if self.planned.units is None else [self.planned.units[doc_id] for doc_id in doc_ids]
            self.reason = self.rule.update(values, baseline, units)
            if self.reason is not None and not to_the_end:
                return
        self.reason = self.reason or "all docs were asked before the rule was satisfied"

    def _batches(self) -> Iterator[list[Unit]]:
        """At least so many docs at a time; a unit is never cut."""
        batch: list[Unit] = []
        units, last = self.planned.units, None
        for doc in self.planned.requests():
            own = None if units is None else units[doc.doc_id]
            if len(batch) >= BATCH and (own is None or own != last):
                yield batch
                batch = []
            batch.append(Unit(self.planned.name, doc))
            last = own
        if batch:
            yield batch

    def _column(self, collector: Collector) -> MetricColumn:
        if self.key is None:
            self.key = next((key for key, column in collector.columns.items() if column.is_numeric), None)
        if self.key is None:
            raise ConfigError(
                f"--until: task {self.planned.name!r} has no metric with a value per doc",
                hint="Leave out --until for this task.",
            )
        return collector.columns[self.key]

    def _baseline_of(self, units: dict[int, Unit], doc_ids: Sequence[int]) -> Floats | None:
        """The other run's scores of these docs; NaN where it did not ask the same."""
        if self.rule.baseline is None:
            return None
        if self._baseline is None:
            self._baseline = kept_scores(self.rule.baseline, self.planned.name, self.key)
        found = []
        for doc_id in doc_ids:
            kept = self._baseline.get(units[doc_id].requests.doc_hash)
            found.append(kept.value if kept is not None and kept.asked == units[doc_id].request_hash else np.nan)
        if found and np.isnan(found).all():
            raise ConfigError(
                f"--until: {self.rule.baseline} did not ask the same questions for {self.planned.name!r}: no doc and prompt in common",
                hint="Compare with a run of the same task, shots and template.",
            )
        return np.asarray(found, dtype=np.float64)


def watches_for(plan: Plan, config: RunConfig) -> dict[str, Watch]:
    """A watch for each task; none where the run asks about all docs."""
    if config.until is None:
        return {}
    return {name: Watch(planned, _rule(config.until, planned)) for name, planned in plan.tasks.items()}


def _rule(text: str, planned: PlannedTask) -> StoppingRule:
    sizes = Counter(() if planned.units is None else planned.units.values())
    return replace(StoppingRule.parse(text), largest=max(sizes.values(), default=1))


def kept_scores(run: str | Path, task: str, key: MetricKey | None) -> dict[str, KeptScore]:
    """Per-doc scores of a finished run by doc hash, of this metric under this filter."""
    path = RunDirectory.open(run).sample_file(task)
    if not path.is_file() or key is None:
        raise ConfigError(f"{run} kept no samples of {task!r}", hint="Name a run that evaluated this task.")
    column = f"metric:{key.metric}"
    return {
        row["doc_hash"]: KeptScore(row["request_hash"], row[column])
        for row in read_samples(path)
        if row["filter"] == key.filter and row.get(column) is not None
    }
