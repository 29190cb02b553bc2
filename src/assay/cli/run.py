"""`assay run`: one command from tasks to results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import FieldOption, WholeText
from assay.cli.foreign_flags import RunCommand
from assay.cli.options import run_options, with_options


@click.command("run", cls=RunCommand)
@click.option(
    "--model",
    "-M",
    cls=FieldOption,
    multiple=True,
    type=WholeText(),
    envvar="ASSAY_MODEL",
    metavar="NAME",
    help="A backend (see `assay ls models`), or path/to/file.py:Class; its arguments may follow: hf,pretrained=gpt2. Repeat it for several.  "
    "[default: hf]",
)
@with_options(run_options(without=("model",)))
@click.option(
    "--models",
    "models_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Several models: a YAML list, each with any flag of this verb.",
)
@click.option("--only", metavar="NAME", help="Of several models, only this one.")
@output_flags(short=False)
@click.pass_context
def command(
    context: click.Context, /, models_file: Path | None, only: str | None, outputs: Outputs, **given: Any
) -> None:
    """Evaluate a model on tasks and groups.

    \b
    assay run --model hf --model_args pretrained=smollm2-135m --tasks demo
    assay run --model hf --model_args pretrained=gpt2 --tasks arc_easy,hellaswag --num_fewshot 5
    assay run --config run.yaml --limit 100
    assay run --model hf,pretrained=gpt2 --model hf,pretrained=smollm2-135m --tasks arc_easy
    assay run --models models.yaml --tasks arc_easy,gsm8k --output_path nightly

    Every flag except --config and those of the output can also be set in the --config file, and every flag in the
    environment as ASSAY_<FLAG>. To continue a run that was stopped, run the same command again. With several models, each is
    loaded once for all its tasks; on a cluster, several are evaluated at once.
    """
    from assay.cli.display import exit_if_worthless, print_stored, show_progress
    from assay.cli.dry_run import forecast_findings, forecast_shown
    from assay.cli.options import resolve_config
    from assay.evaluation import evaluate
    from assay.show import run_findings

    names = given.pop("model")
    if len(names) == 1 and "=" in names[0].partition(",")[2]:  # written as one of several: hf,pretrained=gpt2
        model, _, arguments = names[0].partition(",")
        names, given["model_args"] = (model,), (arguments, *given.get("model_args", ()))
    config = resolve_config({**given, "model": names[-1] if len(names) == 1 else None})
    if models_file is not None or len(names) > 1:
        from assay.cli.several_models import run_models

        context.exit(run_models(config, models_file, names, only, outputs))
    if config.dry_run:
        expected = forecast_shown(config, quiet=outputs.is_quiet)
        emit(forecast_findings(expected, "What this run would send"), outputs)
        return
    with show_progress(quiet=outputs.is_quiet) as progress:
        result = evaluate(config, progress=progress, keep_samples=False)
    emit(run_findings(result), outputs)
    if not outputs.is_quiet:
        print_stored(result)
    exit_if_worthless(context, result)
