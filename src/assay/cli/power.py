"""`assay power`: how many docs, how many repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import TASK_OPTIONS, names_in, resolve_config, with_options
from assay.cli.output import echo, echo_json
from assay.show import Column, FittedTable
from assay.terminal_text import one_line

if TYPE_CHECKING:
    from assay.analyses.power import PowerAssumptions, SizePlan


@click.command("power", short_help="How many docs does it take to see a difference?")
@click.option("--tasks", "-t", multiple=True, metavar="NAMES", help="Tasks to plan for.  [default: all in --from]")
@click.option(
    "--effect",
    required=True,
    type=click.FloatRange(0, min_open=True),
    help="The difference to detect: 0.02 is two points.",
)
@click.option(
    "--from", "runs", multiple=True, metavar="RUN", help="An earlier run; with two, their paired variance is used."
)
@click.option("--metric", "-m", metavar="NAME", help="Metric to plan for.  [default: the first]")
@click.option(
    "--power",
    default=0.8,
    show_default=True,
    type=click.FloatRange(0.01, 0.999),
    help="Probability of detecting the difference if it exists.",
)
@click.option(
    "--alpha",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 0.5, min_open=True),
    help="Error rate of the two-sided test.",
)
@click.option(
    "--correlation",
    default=0.5,
    show_default=True,
    type=click.FloatRange(-1, 1),
    help="Correlation of the two models' scores over docs, if there are no two runs.",
)
@click.option(
    "--accuracy",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="Expected accuracy, if there is no run.",
)
@click.option(
    "--within",
    default=0.0,
    type=click.FloatRange(0),
    help="Variance of one draw of a doc, if no run has several; 0 without sampling.",
)
@click.option(
    "--repeats", "draws", default=1, show_default=True, type=click.IntRange(min=1), help="Planned draws per doc."
)
@click.option(
    "--tests",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="Comparisons corrected together: tasks and groups of one `assay compare`.",
)
@click.option(
    "--noise",
    type=click.Path(),
    metavar="FILE",
    help="noise.json from `assay noise`: differences that no number of docs can show.",
)
@with_options(TASK_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(
    tasks: tuple[str, ...],
    runs: tuple[str, ...],
    metric: str | None,
    noise: str | None,
    as_json: bool,
    include_path: tuple[str, ...],
    lm_eval: str | None,
    data_dir: str | None,
    **assumed: Any,
) -> None:
    """Compute the docs and draws needed to see a difference, and what a run of the current size can see.

    \b
    assay power --tasks gsm8k --effect 0.02
    assay power --effect 0.01 --from runs/base --from runs/other

    With two earlier runs, the variance of their differences is used, doc by doc; with one or none, a correlation
    between the models is assumed and printed.
    """
    from dataclasses import asdict

    from assay.analyses.noise_file import NoiseFile
    from assay.analyses.power import PowerAssumptions

    serving = None if noise is None else NoiseFile.load(noise)
    wish = PowerAssumptions(**assumed, serving=serving)
    names = names_in(tasks)
    files = {"include_path": include_path, "lm_eval": lm_eval, "data_dir": data_dir}
    plans = _from_runs(runs, names, metric, wish) if runs else _from_tasks(names, files, wish)
    if as_json:
        echo_json([asdict(plan) for plan in plans], indent=2)
    else:
        _show(plans, wish)


def _from_runs(
    runs: tuple[str, ...], names: Sequence[str], metric: str | None, wish: PowerAssumptions
) -> list[SizePlan]:
    from assay.analyses.power import plan_from_runs
    from assay.errors import ConfigError
    from assay.finished import open_run

    if len(runs) > 2:
        raise ConfigError(
            "--from takes one run or two", hint="Choose the two whose difference is most like the planned one."
        )
    opened = [open_run(path) for path in runs]
    for run in opened:
        run.require("samples")
    chosen = names or [task for task in opened[0].tasks if all(task in run.tasks for run in opened)]
    if not chosen:
        raise ConfigError("the runs have no task in common")
    plans = []
    for task in chosen:
        try:
            plans.append(plan_from_runs(opened, task, metric, wish))
        except ConfigError as error:
            if names:
                raise
            echo(f"{task}: {error.message}", err=True)
    return plans


def _from_tasks(names: Sequence[str], files: dict[str, Any], wish: PowerAssumptions) -> list[SizePlan]:
    from pathlib import Path

    from assay.analyses.power import plan_without_runs
    from assay.errors import AssayError, ConfigError
    from assay.tasks import TaskManager

    if not names:
        raise ConfigError("no tasks given", hint="Name some with --tasks, or earlier runs with --from.")
    config = resolve_config(files)
    manager = TaskManager(include_path=config.include_path, lm_eval=config.lm_eval or None)
    loaded = manager.load(names, data_dir=Path(config.data_dir) if config.data_dir else None)
    plans = []
    for name, task in loaded.tasks.items():
        try:
            docs: int | None = task.doc_count
        except AssayError as error:
            # The question does not need the data; only the answer about the present size does.
            echo(f"{name}: the number of docs is not known ({error.message})", err=True)
            docs = None
        plans.append(plan_without_runs(name, docs, wish))
    return plans


def _show(plans: list[SizePlan], wish: PowerAssumptions) -> None:
    from assay.cli.display import console

    console().print(plan_table(plans, wish))
    draws = "" if wish.draws == 1 else f", {wish.draws} draws per doc"
    many = "" if wish.tests == 1 else f", corrected for {wish.tests} tests"
    echo(f"Power {wish.power:.0%} at a two-sided error rate of {wish.alpha:g}{draws}{many}; paired, doc by doc.")


def plan_table(plans: Sequence[SizePlan], wish: PowerAssumptions) -> FittedTable:
    columns = [
        Column("task", shrinks=True),
        Column("metric", shrinks=True),
        Column("docs now", right=True, rank=1, moves=True),
        Column(f"docs for {wish.effect:g}", right=True),
        Column("draws with docs now", right=True, rank=2, moves=True),
        Column("visible now", right=True),
    ]
    table = FittedTable(columns, notes="variance from")
    for plan in plans:
        table.add(
            [
                one_line(plan.task),
                one_line(plan.metric),
                "" if plan.n is None else f"{plan.n:,}",
                "no number" if plan.needed is None else f"{plan.needed:,}",
                _repeats(plan),
                "" if plan.detectable is None else f"{plan.detectable:.4f}",
            ],
            one_line(plan.source),
            note_style="dim",
        )
    return table


def _repeats(plan: SizePlan) -> str:
    if plan.noise.within_a + plan.noise.within_b == 0:
        return ""
    return "no number is enough" if plan.repeats is None else str(plan.repeats)
