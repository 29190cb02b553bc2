"""How few docs of a task would do for a further run, by what earlier runs show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.analyses.compare import CompareOptions, Floats
from assay.analyses.rank.engine import RankOptions, common_key, distinct_labels
from assay.analyses.rank.evidence import Evidence
from assay.errors import ConfigError
from assay.finished import Run
from assay.show import Column, Findings, Table, kinds
from assay.stats import FEWEST_RUNS, ThinDocs, thin_docs

_SIZES = (25, 50, 100, 200, 400, 800, 1600, 3200)


@dataclass(frozen=True)
class Thinned:
    """A task's docs in several sizes. `doc_ids` are those of the first run, in the order of `ThinDocs.docs`."""

    task: str
    docs: int
    runs: int
    left_out: int
    """Docs that a run lacks."""
    spread: float
    """Standard deviation of a doc's value within a run: what as many random docs are worth."""
    sizes: tuple[ThinDocs, ...]
    doc_ids: NDArray[np.int64]

    def random_width(self, count: int) -> float:
        """Half of the 95 % interval from as many docs drawn at random."""
        return 1.96 * self.spread * float(np.sqrt((1 / count) * (1 - count / self.docs)))

    def ids(self, thin: ThinDocs) -> list[int]:
        return [int(i) for i in self.doc_ids[thin.docs]]

    def to_dict(self) -> dict[str, Any]:
        sizes = [
            {
                "docs": self.ids(thin),
                "half_width": thin.half_width,
                "level": thin.level,
                "random_half_width": self.random_width(len(thin.docs)),
                "intercept": thin.intercept,
                "slope": thin.slope,
            }
            for thin in self.sizes
        ]
        return {"task": self.task, "docs": self.docs, "runs": self.runs, "left_out": self.left_out, "sizes": sizes}


def thin_runs(runs: Sequence[Run], task: str, count: int | None, options: RankOptions) -> Thinned:
    """Choices of `count` docs of a task, or of several sizes."""
    if any(task not in run.tasks for run in runs):
        raise ConfigError(
            f"{task} is not a task with samples in every run",
            hint="--thin takes tasks, not groups; name one with --tasks.",
        )
    settings = CompareOptions(ignore_prompts=options.ignore_prompts)
    evidence = Evidence(runs, common_key(runs, task, options.metric), settings, distinct_labels(runs))
    columns, docs = evidence.columns(task)
    if not all(column.is_numeric for column in columns):
        raise ConfigError(
            f"{task}: its values are not numbers with a mean", hint="Choose another metric with --metric."
        )
    values = docs.table()
    whole = ~np.isnan(values).any(axis=0)
    values = values[:, whole]
    _check_size(task, values, count)
    sizes = [count] if count is not None else [size for size in _SIZES if size <= values.shape[1] // 2]
    return Thinned(
        task=task,
        docs=values.shape[1],
        runs=len(runs),
        left_out=int((~whole).sum()),
        spread=float(np.sqrt(values.var(axis=1).mean())),
        sizes=tuple(thin_docs(values, size, level=options.level) for size in sizes),
        doc_ids=columns[0].doc_ids[docs.places[0, whole]],
    )


def _check_size(task: str, values: Floats, count: int | None) -> None:
    runs, docs = values.shape
    if runs < FEWEST_RUNS:
        raise ConfigError(
            f"{runs} runs are too few to learn which docs tell runs apart",
            hint=f"It takes at least {FEWEST_RUNS}, and 19 for a 95 % interval.",
        )
    if (count is not None and count >= docs) or docs < 2 * _SIZES[0]:
        raise ConfigError(
            f"{task} has {docs:,} docs that all runs have, too few to leave some out", hint="Ask all of them."
        )


class ThinnedTasks(tuple[Thinned, ...]):
    """One for each task."""

    def to_dict(self) -> dict[str, Any]:
        return {"tasks": [each.to_dict() for each in self]}


def thin_tasks(runs: Sequence[Run], count: int | None, options: RankOptions) -> ThinnedTasks:
    """Of the tasks that were named, or of all that the runs share."""
    shared = [task for task in runs[0].tasks if all(task in run.tasks for run in runs)]
    return ThinnedTasks(thin_runs(runs, task, count, options) for task in options.tasks or shared)


def thin_findings(thinned: ThinnedTasks) -> Findings:
    """What a score on so few docs is worth."""
    return Findings(
        title="Docs that are enough for another run",
        tables=tuple(map(_table, thinned)),
        notes=(
            "Each run's error was measured with docs and calibration from the other runs. The interval holds for a run that "
            "resembles these as much as they resemble each other; for a new kind of run it may not.",
        ),
        result=thinned,
    )


def _table(thinned: Thinned) -> Table:
    most = f"{thinned.runs} runs allow at most {thinned.runs / (thinned.runs + 1):.0%}"
    columns: tuple[Column[ThinDocs], ...] = (
        Column("docs", kinds.COUNT, lambda thin: len(thin.docs)),
        Column("half-width", kinds.NUMBER, lambda thin: thin.half_width, "half_width"),
        Column("of random docs", kinds.NUMBER, lambda thin: thinned.random_width(len(thin.docs)), "random_half_width"),
        Column("intercept", kinds.NUMBER, lambda thin: thin.intercept, rank=1),
        Column("slope", kinds.NUMBER, lambda thin: thin.slope, rank=1),
    )
    left_out = (f"{thinned.left_out:,} docs that some run lacks were left out.",) if thinned.left_out else ()
    return Table.of(
        columns,
        thinned.sizes,
        row=lambda thin: {"note": f"no interval at {thin.level:.0%}: {most}" if thin.half_width is None else ""},
        title=f"{thinned.task}: docs chosen on {thinned.runs} runs, from {thinned.docs:,}",
        notes=("Another run's score on all docs is intercept + slope × its mean on the chosen ones.", *left_out),
    )
