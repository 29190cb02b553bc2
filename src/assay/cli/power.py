"""`assay power`: how many docs, how many repeats."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.analyses.power import PowerOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags
from assay.cli.options import TASK_OPTIONS, resolve_config, with_options
from assay.cli.output import echo

if TYPE_CHECKING:
    from assay.analyses.power import SizePlans


@click.command("power")
@click.argument("run", required=False)
@option_flags(PowerOptions, verb="power")
@with_options(TASK_OPTIONS)
@output_flags()
def command(
    run: str | None,
    options: PowerOptions,
    outputs: Outputs,
    include_path: tuple[str, ...],
    lm_eval: str | None,
    data_dir: str | None,
) -> None:
    """Compute the docs and draws needed to see a difference, and what a run of the current size can see.

    \b
    assay power --tasks gsm8k --effect 0.02
    assay power --effect 0.01 --from runs/base --from runs/other
    assay power logs/agent.eval --draws --budget 600

    With two earlier runs, the variance of their differences is used, doc by doc; with one or none, a correlation
    between the models is assumed and printed. With --draws, a run whose docs were drawn several times tells its pass^k, the bounds
    that it has for more draws than there were, and what the same number of draws gives on more docs, or with more draws of each.
    """
    from assay.analyses import draws
    from assay.analyses.power import findings, plan_runs

    if (run is not None) != options.draws:
        raise click.UsageError("a RUN and --draws go together; to plan by earlier runs, name them with --from")
    if run is not None:
        emit(draws.findings(draws.plan_draws(run, options)), outputs)
        return
    if options.runs:
        plans = plan_runs(options, partial(echo, err=True))
    else:
        plans = _from_tasks(options, {"include_path": include_path, "lm_eval": lm_eval, "data_dir": data_dir})
    emit(findings(plans, options), outputs)


def _from_tasks(options: PowerOptions, files: dict[str, object]) -> SizePlans:
    from assay.analyses.power import SizePlans, plan_without_runs
    from assay.errors import AssayError, ConfigError
    from assay.tasks import TaskManager

    if not options.tasks:
        raise ConfigError("no tasks given", hint="Name some with --tasks, or earlier runs with --from.")
    config = resolve_config(files)
    manager = TaskManager(include_path=config.include_path, lm_eval=config.lm_eval or None)
    loaded = manager.load(list(options.tasks), data_dir=Path(config.data_dir) if config.data_dir else None)
    plans = []
    for name, task in loaded.tasks.items():
        try:
            docs: int | None = task.doc_count
        except AssayError as error:
            # The question does not need the data; only the answer about the present size does.
            echo(f"{name}: the number of docs is not known ({error.message})", err=True)
            docs = None
        plans.append(plan_without_runs(name, docs, options))
    return SizePlans(plans)
