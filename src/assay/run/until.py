"""`--until`: docs in a seeded random order, asked a few at a time, until the rule says that enough is known.

The rule is anytime-valid: looking after every batch costs nothing in error rate. Each task stops by itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.run.accumulate import Accumulator, ScoreKey
from assay.run.directory import RunDirectory
from assay.run.infer import Unit
from assay.run.plan import PlannedTask
from assay.run.samples import read_samples
from assay.stats import StoppingRule

BATCH = 32


@dataclass
class Watch:
    """One task and the rule that watches it."""

    planned: PlannedTask
    rule: StoppingRule
    baseline: dict[str, float] | None = None
    """Scores of the other run by doc hash, for `decided vs`."""
    key: ScoreKey | None = None
    reason: str | None = None

    def run(self, accumulator: Accumulator, answer: Callable[[list[Unit]], None], seed: int | None) -> None:
        """Ask batch after batch until the rule is satisfied or the docs are used up."""
        if not accumulator.scores_in_parts:
            raise ConfigError(
                f"--until: task {self.planned.name!r} has a filter that needs all responses at once",
                hint="Leave --until out for this task.",
            )
        seen = 0
        for batch in self._batches(seed):
            answer(batch)
            values, hashes = self._new_scores(accumulator, batch, seen)
            seen += len(values)
            self.reason = self.rule.update(np.asarray(values), self._baseline_of(hashes))
            if self.reason is not None:
                return
        self.reason = "all docs were asked before the rule was satisfied"

    def _batches(self, seed: int | None) -> Iterator[list[Unit]]:
        task, options = self.planned.task, self.planned.options
        ids = options.samples if options.samples is not None else list(range(task.doc_count))
        order = random.Random(f"{seed}:{self.planned.name}").sample(ids, len(ids))[: task.count_docs(options)]
        everything = replace(options, limit=None)
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            docs = {doc.doc_id: doc for doc in task.iter_requests(replace(everything, only=frozenset(chosen)))}
            yield [Unit(self.planned.name, docs[doc_id]) for doc_id in chosen]

    def _new_scores(self, accumulator: Accumulator, batch: Sequence[Unit], seen: int) -> tuple[list[float], list[str]]:
        """The first metric's values of this batch, in the order in which docs were drawn."""
        if self.key is None:
            self.key = next((key for key, column in accumulator.columns.items() if column.mean is not None), None)
        if self.key is None:
            raise ConfigError(f"--until: task {self.planned.name!r} has no metric with a value per doc", hint="Leave --until out for this task.")  # fmt: skip
        column = accumulator.columns[self.key]
        hashes = {unit.requests.doc_id: unit.requests.doc_hash for unit in batch}
        return list(column.values[seen:]), [hashes[doc_id] for doc_id in column.doc_ids[seen:]]

    def _baseline_of(self, hashes: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        if self.baseline is None:
            return None
        return np.asarray([self.baseline.get(doc_hash, np.nan) for doc_hash in hashes])


def watch_for(planned: PlannedTask, config: RunConfig) -> Watch:
    rule = StoppingRule.parse(config.until or "")
    if rule.baseline is None:
        return Watch(planned, rule)
    return Watch(planned, rule, baseline=kept_scores(rule.baseline, planned.name))


def kept_scores(run: str | Path, task: str, key: ScoreKey | None = None) -> dict[str, float]:
    """Per-doc scores of a finished run by doc hash: of this metric under this filter, or of the first there is."""
    path = RunDirectory.open(run).sample_file(task)
    if not path.is_file():
        raise ConfigError(f"{run} kept no samples of {task!r}", hint="Name a run that evaluated this task.")
    found: dict[str, float] = {}
    filter_name = key[1] if key else None
    column = f"metric:{key[0]}" if key else None
    for row in read_samples(path):
        column = column or next((name for name in row if name.startswith("metric:")), None)
        filter_name = filter_name or row["filter"]
        if column and row["filter"] == filter_name and row.get(column) is not None:
            found[row["doc_hash"]] = row[column]
    return found
