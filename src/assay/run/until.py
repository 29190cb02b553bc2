"""Numbers from a part of the docs: `--until` and `--control`.

With `--until`, docs are sent in a seeded random order, a few at a time, until the rule says that enough is known. The rule is
anytime-valid: looking after every batch costs nothing in error rate. Each task stops by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.results import MetricColumn, MetricKey, RunDirectory, Score, read_samples
from assay.run.collect import Collector
from assay.run.doc_work import DocWork
from assay.run.plan import Plan, PlannedTask
from assay.stats import (
    Basis,
    StoppingRule,
    bootstrap_replicates,
    control_estimate,
    doc_keys,
    unit_index,
    unit_keys,
)

BATCH = 32
Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]


class StoredScore(NamedTuple):
    """What an earlier run requested about a doc, by its hash, and what the answer scored."""

    request_hash: str
    value: float


@dataclass
class Watch:
    """One task and the rule that watches its first metric."""

    planned: PlannedTask
    rule: StoppingRule
    key: MetricKey | None = None
    reason: str | None = None
    asked_all: bool = False
    """Whether the docs ended before the rule was satisfied."""
    _baseline: dict[str, StoredScore] | None = None
    _turned: bool = False
    """Whether the rule was fed `1 - score`: it speaks of better and worse, and takes higher for better."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the score, valid whenever one looks; None before the first doc."""
        if (found := self.rule.interval) is None or not self._turned:
            return found
        return 1 - found[1], 1 - found[0]

    def batches(self, collector: Collector, *, to_the_end: bool = False) -> Iterator[list[DocWork]]:
        """Batch after batch, until the rule is satisfied or the docs are used up.

        Each batch must be answered and collected before the next is taken: the rule looks at its scores then.
        `to_the_end` is for docs that were answered already: all of them count, wherever the rule would stop now.
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
        self.asked_all = self.reason is None
        self.reason = self.reason or "all docs were asked before the rule was satisfied"

    def _batches(self) -> Iterator[list[DocWork]]:
        """At least so many docs at a time; a unit is never cut."""
        batch: list[DocWork] = []
        units, last = self.planned.units, None
        for doc in self.planned.requests():
            own = None if units is None else units[doc.doc_id]
            if len(batch) >= BATCH and (own is None or own != last):
                yield batch
                batch = []
            batch.append(DocWork(self.planned.name, doc))
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

    def _baseline_of(self, units: dict[int, DocWork], doc_ids: Sequence[int]) -> Floats | None:
        """The other run's scores of these docs; NaN where it did not request the same."""
        if self.rule.baseline is None:
            return None
        if self._baseline is None:
            self._baseline = stored_scores(self.rule.baseline, self.planned.name, self.key)
        found = []
        for doc_id in doc_ids:
            stored = self._baseline.get(units[doc_id].requests.doc_hash)
            found.append(
                stored.value if stored is not None and stored.request_hash == units[doc_id].request_hash else np.nan
            )
        if found and np.isnan(found).all():
            raise ConfigError(
                f"--until: {self.rule.baseline} did not ask the same questions for {self.planned.name!r}: no doc and prompt in common",
                hint="Compare with a run of the same task, shots and template.",
            )
        return np.asarray(found, dtype=np.float64)


def watches_for(plan: Plan, config: RunConfig) -> dict[str, Watch]:
    """A watch for each task; none where the run sends all docs."""
    if config.until is None:
        return {}
    return {name: Watch(planned, _rule(config.until, planned)) for name, planned in plan.tasks.items()}


def _rule(text: str, planned: PlannedTask) -> StoppingRule:
    sizes = Counter(() if planned.units is None else planned.units.values())
    return replace(StoppingRule.parse(text), largest=max(sizes.values(), default=1))


def stored_scores(run: str | Path, task: str, key: MetricKey | None) -> dict[str, StoredScore]:
    """Per-doc scores of a finished run by doc hash, of this metric under this filter."""
    path = RunDirectory.open(run).sample_file(task)
    if not path.is_file() or key is None:
        raise ConfigError(f"{run} kept no samples of {task!r}", hint="Name a run that evaluated this task.")
    column = f"metric:{key.metric}"
    return {
        row["doc_hash"]: StoredScore(row["request_hash"], row[column])
        for row in read_samples(path)
        if row["filter"] == key.filter and row.get(column) is not None
    }


# `--control RUN`: an earlier run on all docs tightens the interval of this run on some of them.


def controlled(
    scores: dict[MetricKey, Score], collector: Collector, config: RunConfig
) -> tuple[dict[MetricKey, Score], list[str]]:
    """The scores with intervals tightened where the earlier run has the same metric on these docs, and what was gained."""
    if config.control is None:
        return scores, []
    tightened, notes = dict(scores), []
    task, hashes = collector.task.task_name, collector.hash_of
    for key, score in scores.items():
        column = collector.columns[key]
        if not column.is_numeric or column.aggregation.name != "mean":
            continue
        if score.judge is not None and score.judge.is_corrected:
            notes.append(f"{task} {key}: corrected with labels; the control run is not used")
            continue
        earlier = stored_scores(config.control, task, key)
        pairs = [
            (value, earlier[hashes[doc_id]].value)
            for doc_id, value in zip(column.doc_ids, column.values)
            if hashes[doc_id] in earlier
        ]
        if len(pairs) < len(column):
            notes.append(f"{task} {key}: the control run lacks {len(column) - len(pairs)} of the docs; not used")
            continue
        y, f = np.asarray(pairs, dtype=np.float64).T
        everything = np.asarray([stored.value for stored in earlier.values()])
        units = unit_keys_of(collector, column)
        result = control_estimate(y, f, everything, unit_index(units))
        if result.estimate.undefined is None and result.estimate.basis is Basis.CONTROL:
            replicates = partial(
                _controlled_draws, y, f, units, everything, doc_keys(earlier), result.slope, config.bootstrap_iters
            )
            # Groups above must see the controlled number too, not that of the part.
            tightened[key] = replace(
                score,
                estimate=result.estimate,
                replicates=replicates,
                samples=None,
                interval=None,
                lm_eval_stderr=None,
            )
            worth = f"{len(y)} docs are worth {result.effective_n:.0f} with the control run"
            notes.append(f"{task} {key}: {worth} (correlation {result.correlation:.2f})")
    return tightened, notes


def unit_keys_of(collector: Collector, column: MetricColumn) -> Keys:
    """The units of a column's docs, in its order."""
    at = {doc_id: i for i, doc_id in enumerate(collector.doc_ids)}
    rows = np.array([at[doc_id] for doc_id in column.doc_ids], dtype=np.int64)
    keys = np.asarray(collector.keys)[rows]
    clusters = None if collector.clusters is None else np.asarray(collector.clusters)[rows]
    return unit_keys(keys, clusters)


def _controlled_draws(
    y: Floats, f: Floats, units: Keys, everything: Floats, all_keys: Keys, slope: float, replicates: int
) -> Floats:
    """Replicates of θ = mean(y − λf) + λ·mean of the control on all docs, each with the weights of its docs."""

    def average(values: Floats, keys: Keys) -> Floats:
        table = np.column_stack([values, np.ones(len(values))])
        return bootstrap_replicates(table, lambda sums: sums[..., 0] / sums[..., 1], keys, B=replicates)

    return average(y - slope * f, units) + slope * average(everything, all_keys)
