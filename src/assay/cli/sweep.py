"""`assay sweep`: how much of a score is the prompt?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.foreign_flags import RunCommand
from assay.cli.options import RUN_OPTIONS, with_options
from assay.cli.output import echo, echo_json
from assay.show import Column, FittedTable
from assay.terminal_text import one_line

if TYPE_CHECKING:
    from assay.analyses.sweep import SweepDesign, SweptTask
    from assay.config import RunConfig


@click.command("sweep", cls=RunCommand, short_help="How much of a score is the prompt?")
@with_options(RUN_OPTIONS)
@click.option("--styles", metavar="NAMES", help="Wordings to cross, such as mc,cloze.  [default: the task's own]")
@click.option(
    "--shots", metavar="NUMBERS", help="Numbers of examples to cross, such as 0,5.  [default: the task's own]"
)
@click.option(
    "--seeds",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="How many selections of few-shot examples to try.",
)
@click.option(
    "--perturb",
    metavar="NAMES",
    help="Perturbations to try in addition to the clean text, such as typo(0.05),typo(0.1).",
)
@click.option("--metric", "-m", help="The metric to look at.  [default: the first that all conditions have]")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(
    styles: str | None,
    shots: str | None,
    seeds: int,
    perturb: str | None,
    metric: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Evaluate tasks in every wording with every number of shots, and split the variance of the scores.

    \b
    assay sweep --model hf --model_args pretrained=gpt2 --tasks arc_easy --styles mc,cloze --shots 0,5 --seeds 3

    A group stands for its tasks. All wordings and shots are one run, so that prompts share their common parts; each
    further seed picks other examples. The table shows how far the score moves with the prompt, and how much of a doc's
    score is due to the doc, the wording, the shots, or their interactions.
    """

    from assay.analyses.sweep import SweepDesign, analyse_sweep, find_sweep_tasks, wordings
    from assay.cli.options import resolve_config

    tasks = find_sweep_tasks(resolve_config(given))
    config = tasks.config
    worded = wordings(_split(styles), _split(perturb))
    design = SweepDesign(tasks.leaves, worded, _shots(shots, config), seeds, tasks.asked)
    tasks.check(design)
    if config.dry_run:
        _forecast(config, design, as_json=as_json)
        return
    directories = _run(config, design, quiet=as_json)
    swept, problems = analyse_sweep(design, directories, metric)
    for problem in problems:
        echo(f"left out: {problem}", err=True)
    if as_json:
        echo_json([task.to_dict() for task in swept], indent=2)
    else:
        _show(swept)
        echo(f"Kept in {directories[0].parent}")


def _split(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _shots(text: str | None, config: RunConfig) -> tuple[int, ...]:
    """The numbers of --shots; --num_fewshot, which every other verb has, is one of them."""
    from assay.errors import ConfigError

    parts = _split(text)
    wrong = [part for part in parts if not part.isdigit()]
    if wrong:
        raise ConfigError(f"--shots: {wrong[0]!r} is not a number of examples", hint="Write --shots 0,5, for example.")
    if parts and config.num_fewshot is not None:
        raise ConfigError("--shots and --num_fewshot both set the number of examples", hint="Leave out --num_fewshot.")
    return tuple(int(part) for part in parts) if config.num_fewshot is None else (config.num_fewshot,)


def _forecast(config: RunConfig, design: SweepDesign, *, as_json: bool) -> None:

    from assay.cli.dry_run import forecast_dict, forecast_shown, show_forecast

    forecast = forecast_shown(
        config.model_copy(update={"tasks": design.variants(), "num_fewshot": None}), quiet=as_json
    )
    if as_json:
        echo_json({"seeds": design.seeds, **forecast_dict(forecast)}, indent=2)
        return
    show_forecast(forecast, "What one seed of this sweep would ask")
    if design.seeds > 1:
        echo(f"The same for each of {design.seeds} seeds, but prompts without examples are asked only once.")
    echo("Nothing was sent.")


def _run(config: RunConfig, design: SweepDesign, *, quiet: bool) -> list[Path]:
    """One evaluation a seed, all with the model loaded once.

    Prompts without examples are the same for all seeds and come from the store after the first.
    """
    from contextlib import closing
    from datetime import UTC, datetime

    from assay.cli.display import show_progress
    from assay.evaluation import check_first, evaluate
    from assay.results import sanitize
    from assay.run import model_for

    check_first(config)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S.%f")[:-3]
    name = sanitize("_".join(design.asked or design.tasks))[:80]
    root = Path(config.run_dir or Path(config.output_path or "runs") / "sweeps" / name / stamp)
    first = config.seed.fewshot or 0
    directories = []
    with closing(model_for(config)) as lm:
        for number in range(design.seeds):
            directory = root / f"seed-{first + number}"
            words = {
                "tasks": design.variants(),
                "num_fewshot": None,
                "run_dir": str(directory),
                "output_path": None,
                "seed": config.seed.model_copy(update={"fewshot": first + number}),
            }
            with show_progress(quiet=quiet) as progress:
                evaluate(config.model_copy(update=words), model=lm, progress=progress)
            directories.append(directory)
    return directories


def _show(swept: list[SweptTask]) -> None:
    from assay.cli.display import console
    from assay.results import format_number

    out = console()
    for task in swept:
        out.print(condition_table(task))
        echo()
        out.print(share_table(task))
        c = task.components
        low, high, mean, error = map(format_number, (c.low, c.high, c.mean, c.stderr))
        echo(f"Scores range from {low} to {high} over the prompts; mean {mean} ± {error}, prompts counted as draws.\n")


CONDITIONS = [
    Column("wording", shrinks=True),
    Column("shots", right=True),
    Column("seed", right=True),
    Column("score", right=True),
    Column("± stderr", right=True, style="dim"),
]
SHARES = [Column("source of variance"), Column("share", right=True)]


def condition_table(task: SweptTask) -> FittedTable:
    """The score in each wording, with each number of shots, for each seed."""
    from assay.results import format_number

    table = FittedTable(CONDITIONS, title=one_line(f"{task.task} · {task.key} · {task.docs:,} docs"))
    for each in task.conditions:
        stderr = each.estimate.stderr
        table.add(
            [
                one_line(each.style or "own"),
                "own" if each.shots is None else str(each.shots),
                str(each.seed),
                format_number(each.estimate.value or 0.0),
                "" if stderr is None else f"± {format_number(stderr)}",
            ]
        )
    return table


def share_table(task: SweptTask) -> FittedTable:
    """What the variance of a score is made of, without interactions that amount to nothing."""
    table = FittedTable(SHARES)
    for effect, share in sorted(task.components.shares.items(), key=lambda item: -item[1]):
        if len(effect) == 1 or share >= 0.0005:
            table.add([" × ".join(effect), f"{share:.1%}"])
    return table
