"""`assay score`: score a finished run again, with no model."""

from __future__ import annotations

from typing import Any

import click

from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.options import ROLE_OPTIONS, TASK_OPTIONS, with_options
from assay.cli.output import echo
from assay.config import parse_roles


@click.command("score")
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option("--tasks", "-t", multiple=True, help="Tasks or groups to score.  [default: those of the run]")
@with_options(TASK_OPTIONS)
@with_options(ROLE_OPTIONS)
@click.option("--run_dir", type=click.Path(), help="Keep the new scores as a separate run in this directory.")
@click.option("--bootstrap_iters", type=click.IntRange(min=0), help="Bootstrap replicates; 0 turns error bars off.")
@click.option("--log_samples", is_flag=True, help="Also write samples_<task>.jsonl; needs --run_dir.")
@click.option("--confirm_run_unsafe_code", is_flag=True, help="Run code written by the model if a task needs it.")
@click.option(
    "--sandbox",
    type=click.Choice(["auto", "weak", "bwrap", "docker", "podman"]),
    help="Where that code runs; weak: also where this machine cannot give every protection.",
)
@output_flags()
@click.pass_context
def command(
    context: click.Context, /, run: str, run_dir: str | None, log_samples: bool, outputs: Outputs, **given: Any
) -> None:
    """Apply filters, metrics, groups and statistics again to what the model answered in RUN.

    Edit a regular expression in a task file, then:

    \b
    assay score runs/my-model/2026-01-01T12-00-00 --include_path my_tasks

    Docs whose requests would be different now are left out and counted.

    With --role judge=…, another model judges the stored answers; the model under test is not asked.
    """
    from assay.cli.display import exit_if_worthless, print_stored, show_progress
    from assay.evaluation import score_again
    from assay.show import run_findings

    changes = {key: value for key, value in given.items() if value not in (None, (), False)}
    if "role" in changes:
        changes["roles"] = parse_roles(changes.pop("role"), flag="--role")
    with show_progress(quiet=outputs.is_quiet) as progress:
        result = score_again(run, changes, run_dir=run_dir, log_samples=log_samples, progress=progress)
    emit(run_findings(result), outputs)
    if not outputs.is_quiet and run_dir is not None:
        print_stored(result)
    elif not outputs.is_quiet:
        echo("These scores are not stored; --run_dir DIR stores them.", err=True)
    exit_if_worthless(context, result)
