"""One task in many wordings, shots and example draws: how much of a score is the prompt?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from assay.config import CommandFlag, Names, Options, RunConfig, WholeNumbers, option
from assay.errors import ConfigError
from assay.finished import Columns, DocColumn, Run, align, read_assay, shared_keys
from assay.results import MetricKey, format_number
from assay.show import Column, Findings, Table, kinds
from assay.show.kinds import Kind
from assay.stats import Components, Estimate, mean_estimate, variance_components
from assay.tasks import TaskManager


class SweepOptions(Options):
    """What is crossed."""

    styles: Names = option(
        (), "Wordings to cross, such as mc,cloze.", flag=CommandFlag(metavar="NAMES", default="the task's own")
    )
    shots: WholeNumbers = option(
        (), "Numbers of examples to cross, such as 0,5.", flag=CommandFlag(metavar="NUMBERS", default="the task's own")
    )
    seeds: int = option(1, "How many selections of few-shot examples to try.", ge=1)
    perturb: Names = option(
        (),
        "Perturbations to try in addition to the clean text, such as typo(0.05),typo(0.1).",
        flag=CommandFlag(metavar="NAMES"),
    )
    metric: str | None = option(
        None, "The metric to look at.", flag=CommandFlag("-m", "NAME", default="the first that all conditions have")
    )


@dataclass(frozen=True)
class SweepDesign:
    """What is crossed. Without styles or shots, the task's own are used."""

    tasks: tuple[str, ...]
    """Tasks whose scores are looked at."""
    styles: tuple[str, ...] = ()
    shots: tuple[int, ...] = ()
    seeds: int = 1
    requested: tuple[str, ...] = ()
    """Groups and tasks that are run, where they are other than the tasks: a group may change its members."""

    @property
    def conditions(self) -> list[tuple[str | None, int | None]]:
        return list(product(self.styles or (None,), self.shots or (None,)))

    def variants(self) -> list[str]:
        """The tasks of one plan: every wording with every number of shots.

        >>> SweepDesign(("arc_easy",), ("mc", "cloze"), (0, 5)).variants()
        ['arc_easy:mc:0shot', 'arc_easy:mc:5shot', 'arc_easy:cloze:0shot', 'arc_easy:cloze:5shot']
        """
        return [
            variant(name, style, shots) for name in self.requested or self.tasks for style, shots in self.conditions
        ]


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
    requested: tuple[str, ...]
    leaves: tuple[str, ...]
    manager: TaskManager

    def check(self, design: SweepDesign) -> None:
        """Every variant must exist before the first is requested."""
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
    floors: str = ""
    """What the score would be without the ability, where the sweep ran with `--floors`."""


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


@dataclass(frozen=True)
class Sweep:
    """All tasks of a sweep, and why others were left out."""

    tasks: tuple[SweptTask, ...]
    left_out: tuple[str, ...] = ()

    def to_dict(self) -> list[dict[str, Any]]:
        return [task.to_dict() for task in self.tasks]


NAMES = ("docs", "wording", "shots", "examples")


def analyse_sweep(design: SweepDesign, directories: Sequence[Path], metric: str | None = None) -> Sweep:
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
    return Sweep(tuple(swept), tuple(str(error) for error in problems))


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
        SweepCondition(style, shots, seed, mean_estimate(flat[i, seed]), _floors(run, variant(task, style, shots), key))
        for i, (style, shots) in enumerate(design.conditions)
        for seed, run in enumerate(runs)
    )
    return SweptTask(task, key, docs, conditions, variance_components(table, NAMES))


def _floors(run: Run, task: str, key: MetricKey) -> str:
    score = run.score(task, key)
    return "" if score is None else score.floor_mark


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


CONDITIONS: tuple[Column[SweepCondition], ...] = (
    Column("wording", kinds.TEXT, lambda each: each.style or "own", shrinks=True),
    Column("shots", Kind(str, right=True), lambda each: "own" if each.shots is None else each.shots),
    Column("seed", kinds.COUNT, lambda each: each.seed),
    Column("score", kinds.VALUE, lambda each: each.estimate),
    Column("± stderr", kinds.STDERR, lambda each: each.estimate, "", tone="quiet"),
    Column("95 % interval", kinds.INTERVAL, lambda each: each.estimate, "", rank=1, tone="quiet"),
)
SHARES: tuple[Column[tuple[tuple[str, ...], float]], ...] = (
    Column("source of variance", kinds.TEXT, lambda item: " × ".join(item[0])),
    Column("share", kinds.SHARE, lambda item: item[1]),
)


def findings(sweep: Sweep) -> Findings:
    """For each task the score in each wording, and what the variance of a score is made of."""
    tables = []
    for task in sweep.tasks:
        c = task.components
        low, high, mean, error = map(format_number, (c.low, c.high, c.mean, c.stderr))
        said = f"Scores range from {low} to {high} over the prompts; mean {mean} ± {error}, prompts counted as draws."
        # Interactions that amount to nothing are left out.
        effects = sorted(c.shares.items(), key=lambda item: -item[1])
        told = [item for item in effects if len(item[0]) == 1 or item[1] >= 0.0005]
        tables += [
            Table.of(
                CONDITIONS,
                task.conditions,
                row=lambda each: {"note": each.floors, "note_tone": "quiet"},
                title=f"{task.task} · {task.key} · {task.docs:,} docs",
            ),
            Table.of(SHARES, told, notes=(said,)),
        ]
    left_out = tuple(f"left out: {why}" for why in sweep.left_out)
    return Findings("How much of a score is the prompt?", tables=tuple(tables), notes=left_out, result=sweep)
