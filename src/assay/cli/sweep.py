"""`assay sweep`: how much of a score is the prompt?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.analyses.sweep import SweepOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags
from assay.cli.foreign_flags import RunCommand
from assay.cli.options import RUN_OPTIONS, with_options
from assay.cli.output import echo

if TYPE_CHECKING:
    from assay.analyses.sweep import SweepDesign
    from assay.config import RunConfig


@click.command("sweep", cls=RunCommand)
@with_options(RUN_OPTIONS)
@option_flags(SweepOptions, verb="sweep")
@output_flags(short=False)
def command(options: SweepOptions, outputs: Outputs, **given: Any) -> None:
    """Evaluate tasks in every wording with every number of shots, and split the variance of the scores.

    \b
    assay sweep --model hf --model_args pretrained=gpt2 --tasks arc_easy --styles mc,cloze --shots 0,5 --seeds 3

    A group stands for its tasks. All wordings and shots are one run, so that prompts share their common parts; each
    further seed picks other examples. The table shows how far the score moves with the prompt, and how much of a doc's
    score is due to the doc, the wording, the shots, or their interactions.
    """
    from assay.analyses.sweep import SweepDesign, analyse_sweep, find_sweep_tasks, findings, wordings
    from assay.cli.options import resolve_config

    tasks = find_sweep_tasks(resolve_config(given))
    config = tasks.config
    worded = wordings(options.styles, options.perturb)
    design = SweepDesign(tasks.leaves, worded, _shots(options, config), options.seeds, tasks.requested)
    tasks.check(design)
    if config.dry_run:
        _forecast(config, design, outputs)
        return
    directories = _run(config, design, quiet=outputs.is_quiet)
    emit(findings(analyse_sweep(design, directories, options.metric)), outputs)
    if not outputs.is_quiet:
        echo(f"Stored in {directories[0].parent}")


def _shots(options: SweepOptions, config: RunConfig) -> tuple[int, ...]:
    """The numbers of --shots; --num_fewshot, which every other verb has, is one of them."""
    from assay.errors import ConfigError

    if options.shots and config.num_fewshot is not None:
        raise ConfigError("--shots and --num_fewshot both set the number of examples", hint="Leave out --num_fewshot.")
    return options.shots if config.num_fewshot is None else (config.num_fewshot,)


def _forecast(config: RunConfig, design: SweepDesign, outputs: Outputs) -> None:
    from assay.cli.dry_run import forecast_findings, forecast_shown

    one_seed = config.model_copy(update={"tasks": design.variants(), "num_fewshot": None})
    expected = forecast_shown(one_seed, quiet=outputs.is_quiet)
    said = "Nothing was sent."
    if design.seeds > 1:
        said = f"The same for each of {design.seeds} seeds, but prompts without examples are sent only once. {said}"
    emit(forecast_findings(expected, "What one seed of this sweep would send", said, seeds=design.seeds), outputs)


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
    name = sanitize("_".join(design.requested or design.tasks))[:80]
    root = Path(config.run_dir or Path(config.output_path or "runs") / "sweeps" / name / stamp)
    first = config.seed.fewshot or 0
    directories = []
    with closing(model_for(config)) as lm:
        for number in range(design.seeds):
            directory = root / f"seed-{first + number}"
            changes = {
                "tasks": design.variants(),
                "num_fewshot": None,
                "run_dir": str(directory),
                "output_path": None,
                "seed": config.seed.model_copy(update={"fewshot": first + number}),
            }
            with show_progress(quiet=quiet) as progress:
                evaluate(config.model_copy(update=changes), model=lm, progress=progress)
            directories.append(directory)
    return directories
