"""`assay run`: one command from tasks to results."""

from __future__ import annotations

from typing import Any

import click

from assay.cli.foreign_flags import RunCommand
from assay.cli.options import RUN_OPTIONS, with_options
from assay.cli.output import echo_json


@click.command("run", cls=RunCommand, short_help="Evaluate a model on tasks.")
@with_options(RUN_OPTIONS)
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
@click.pass_context
def command(context: click.Context, /, as_json: bool, **given: Any) -> None:
    """Evaluate a model on tasks and groups.

    \b
    assay run --model hf --model_args pretrained=smollm2-135m --tasks demo
    assay run --model hf --model_args pretrained=gpt2 --tasks arc_easy,hellaswag --num_fewshot 5
    assay run --config run.yaml --limit 100

    Every flag except --config and --json can also be set in the --config file, and every flag except --json in the
    environment as ASSAY_<FLAG>. To continue a run that was stopped, run the same command again.
    """
    from rich.markup import escape

    from assay.cli.display import console, exit_if_worthless, print_result, show_progress
    from assay.cli.options import resolve_config
    from assay.evaluation import evaluate

    config = resolve_config(given)
    if config.dry_run:
        from assay.cli.dry_run import print_dry_run

        print_dry_run(config, as_json=as_json)
        return
    with show_progress(quiet=as_json) as progress:
        result = evaluate(config, progress=progress)
    if as_json:
        echo_json(result.to_json())
    else:
        print_result(result, kept_in=None if result.path is None else str(result.path))
        if result.path is not None:
            kept = escape(str(result.path))
            next_steps = f"Report:  assay report {kept} --format html\nSamples: assay view {kept}"
            console().print(f"[dim]{next_steps}[/dim]", highlight=False)
    exit_if_worthless(context, result)
