"""One task in many wordings, shots and example draws: how much of a score is the prompt?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.finished import Columns, DocColumn, Run, align, read_assay, shared_keys
from assay.results import MetricKey
from assay.stats import Components, Estimate, mean_estimate, variance_components
from assay.tasks import TaskManager


@dataclass(frozen=True)
class SweepDesign:
    """What is crossed. Without styles or shots, the task's own are used."""

    tasks: tuple[str, ...]
    """Tasks whose scores are looked at."""
    styles: tuple[str, ...] = ()
    shots: tuple[int, ...] = ()
    seeds: int = 1
    asked: tuple[str, ...] = ()
    """Groups and tasks that are run, where they are other than the tasks: a group may change its members."""

    @property
    def conditions(self) -> list[tuple[str | None, int | None]]:
        return list(product(self.styles or (None,), self.shots or (None,)))

    def variants(self) -> list[str]:
        """The tasks of one plan: every wording with every number of shots.

        >>> SweepDesign(("arc_easy",), ("mc", "cloze"), (0, 5)).variants()
        ['arc_easy:mc:0shot', 'arc_easy:mc:5shot', 'arc_easy:cloze:0shot', 'arc_easy:cloze:5shot']
        """
        return [variant(name, style, shots) for name in self.asked or self.tasks for style, shots in self.conditions]


def wordings(styles: Sequence[str], perturbations: Sequence[str]) -> tuple[str, ...]:
    """Every style clean and with every perturbation; an empty one is the task's own wording.

    >>> wordings(("mc",), ("typo(0.1)",)), wordings((), ("case",)), wordings((), ())
    (('mc', 'mc:typo(0.1)'), ('', 'case'), ())
    """
    if not perturbations:
        return tuple(styles)
    return tuple(":".join(filter(None, pair)) for pair in product(styles or ("",), ("", *perturbations)))


def variant(task: str, style: str | None, shots: int | None) -> str:
    return ":".join([task, *([style] if style else []), *([f"{shots}shot"] if shots is not None else [])])


@dataclass(frozen=True)
class SweepTasks:
    """What the names of a sweep stand for."""

    config: RunConfig
    """With the directories of task files that were named, so that variants of what they hold have a name."""
    asked: tuple[str, ...]
    leaves: tuple[str, ...]
    manager: TaskManager

    def check(self, design: SweepDesign) -> None:
        """Every variant must exist before the first is asked."""
        self.manager.resolve(design.variants())


def find_sweep_tasks(config: RunConfig) -> SweepTasks:
    """Names, groups, tags, patterns and files to what can be varied by name."""
    if not config.tasks:
        raise ConfigError("no tasks were named", hint="Add --tasks NAMES.")
    if config.predict_only:
        raise ConfigError("a sweep compares scores, but --predict_only computes none", hint="Leave out --predict_only.")
    manager = _manager(config)
    given = [Path(name).expanduser() for name in config.tasks if name.partition(":")[0] not in manager.entries]
    folders = dict.fromkeys(str(path if path.is_dir() else path.parent) for path in given if path.exists())
    if folders:
        config = config.model_copy(update={"include_path": [*config.include_path, *folders]})
        manager = _manager(config)
    resolved = manager.resolve(config.tasks)
    return SweepTasks(config, tuple(resolved.roots), tuple(resolved.tasks), manager)


def _manager(config: RunConfig) -> TaskManager:
    return TaskManager(
        include_path=config.include_path,
        include_defaults=config.include_defaults,
        lm_eval=config.lm_eval or None,
        metadata={**config.model_args, **config.metadata},
    )


@dataclass(frozen=True)
class SweepCondition:
    style: str | None
    shots: int | None
    seed: int
    estimate: Estimate


@dataclass(frozen=True)
class SweptTask:
    """One task: its score under every condition, and where the variance of the scores lies."""

    task: str
    key: MetricKey
    docs: int
    conditions: tuple[SweepCondition, ...]
    components: Components

    def to_dict(self) -> dict[str, Any]:
        c = self.components
        return {
            "task": self.task,
            "metric": str(self.key),
            "docs": self.docs,
            "mean": c.mean,
            "stderr": c.stderr,
            "low": c.low,
            "high": c.high,
            "shares": {" × ".join(effect): share for effect, share in c.shares.items()},
            "variances": {" × ".join(effect): v for effect, v in c.variances.items()},
            "conditions": [
                {
                    "style": condition.style,
                    "shots": condition.shots,
                    "seed": condition.seed,
                    "value": condition.estimate.value,
                    "stderr": condition.estimate.stderr,
                }
                for condition in self.conditions
            ],
        }


NAMES = ("docs", "wording", "shots", "examples")


def analyse_sweep(
    design: SweepDesign, directories: Sequence[Path], metric: str | None = None
) -> tuple[list[SweptTask], list[str]]:
    """Read the runs of a sweep (one directory a seed) and split the variance of each task's scores.

    Also why a task was left out; where all were, that is an error.
    """
    runs = [read_assay(path) for path in directories]
    swept, problems = [], []
    for task in design.tasks:
        try:
            swept.append(_analyse(task, design, runs, metric))
        except ConfigError as error:
            problems.append(error)
    if not swept:
        raise problems[0]
    return swept, [str(error) for error in problems]


def _analyse(task: str, design: SweepDesign, runs: Sequence[Run], metric: str | None) -> SweptTask:
    columns = [[run.columns(variant(task, style, shots)) for run in runs] for style, shots in design.conditions]
    key = _key(task, [c for row in columns for c in row], metric)
    cells = [_scored(c[key]) for row in columns for c in row]
    shared = align(*cells).shared
    docs = shared.shape[1]
    if docs < 2:
        raise ConfigError(
            f"{task}: the conditions have {docs} docs in common",
            hint="A sweep needs the same docs in all conditions.",
        )
    values = np.stack([column.values[at] for column, at in zip(cells, shared, strict=True)])
    flat = values.reshape(len(design.conditions), len(runs), docs)
    table = flat.reshape(max(1, len(design.styles)), max(1, len(design.shots)), len(runs), docs).transpose(3, 0, 1, 2)
    conditions = tuple(
        SweepCondition(style, shots, seed, mean_estimate(flat[i, seed]))
        for i, (style, shots) in enumerate(design.conditions)
        for seed in range(len(runs))
    )
    return SweptTask(task, key, docs, conditions, variance_components(table, NAMES))


def _key(task: str, columns: Sequence[Columns], metric: str | None) -> MetricKey:
    """The first metric that all conditions have; wordings may be scored by different ones."""
    keys = shared_keys(columns, metric)
    if not keys:
        shared = ", ".join(map(str, shared_keys(columns, None)))
        raise ConfigError(
            f"{task}: no metric {metric or ''} in all conditions".replace("  ", " "),
            hint=f"All have {shared}."
            if shared
            else "Choose wordings that are scored the same way, such as mc and cloze.",
        )
    return keys[0]


def _scored(column: DocColumn) -> DocColumn:
    """Docs with a score; of copies the first."""
    scored = column.scored()
    _, first = np.unique(scored.docs, return_index=True)
    return scored.take(np.sort(first))
