"""`assay verify`: derive every number of a sealed run again, without a model."""

from __future__ import annotations

import json
from typing import Any

import click

from assay.cli.output import echo, echo_json
from assay.cli.sealing import sealing
from assay.cli.task_files import TaskFilesCommand


@click.command("verify", cls=TaskFilesCommand, short_help="Compute every number of a sealed run again.")
@click.argument("bundle", type=click.Path(exists=True, dir_okay=False))
@click.option("--data_dir", metavar="DIR", envvar="ASSAY_DATA_DIR", help="A mirror with the tasks' data.")
@click.option(
    "--docs",
    type=click.Choice(["auto", "dataset", "bundle"]),
    default="auto",
    show_default=True,
    help="Where to read docs from; auto uses the bundle's if the dataset is not available.",
)
@click.option("--include_path", multiple=True, metavar="DIR", help="Your own task files in place of the bundle's.")
@click.option("--lm_eval", metavar="[DIR]", help="Task files of lm-evaluation-harness in place of the bundle's.")
@click.option("--trust", is_flag=True, help="Run the Python code in the bundle's task files; you have read it.")
@click.option("--confirm_run_unsafe_code", is_flag=True, help="Run code written by the model if a task needs it.")
@click.option("--reask", type=click.IntRange(min=1), metavar="N", help="Ask N random docs again; needs --model.")
@click.option("--model", "-M", metavar="NAME", help="The model to ask, as for `assay run`.")
@click.option("--model_args", "-a", multiple=True, metavar="K=V,…", help="Its arguments.")
@click.option(
    "--replays", type=click.IntRange(min=2), default=2, show_default=True, help="How many times to ask each doc."
)
@click.option("--seed", type=int, help="Pick the same docs as an earlier --reask.  [default: at random]")
@click.option("--json", "as_json", is_flag=True, help="Print all findings as JSON.")
@click.pass_context
def command(
    context: click.Context,
    /,
    bundle: str,
    lm_eval: str | None,
    reask: int | None,
    model: str | None,
    model_args: tuple[str, ...],
    replays: int,
    seed: int | None,
    as_json: bool,
    **own: Any,
) -> None:
    """Check BUNDLE, written by `assay seal`: every file, and every number computed from its answers.

    \b
    assay verify my-model.zip
    assay verify my-model.zip --reask 50 --model hf --model_args pretrained=my-model

    Without --reask, no model or judge is asked. Exit code 0 if everything is as the bundle says, 1 if anything is not, 2 if it
    is not a bundle, 4 if answers differ in a way that the model's own noise may explain.
    """
    from assay.cli.display import show_progress
    from assay.cli.options import resolve_config

    sources = sealing("Sources")(lm_eval=True if lm_eval == "true" else lm_eval, **own)
    choice = None
    if model is not None:
        choice = sealing("ModelChoice")(model, resolve_config({"model_args": model_args}).model_args)
    if (choice is None) != (reask is None):
        raise click.UsageError("--reask N and --model NAME go together: that model is asked N docs.")
    with show_progress(quiet=as_json) as progress:
        verification = sealing("verify_bundle")(bundle, sources, progress)
    again = None
    if choice is not None and reask is not None:
        with show_progress(quiet=as_json) as progress:
            progress.stage(f"asking {reask} docs again")
            again = sealing("reask_bundle")(bundle, choice, reask, sources, replays=replays, seed=seed)
    if as_json:
        reasked = {} if again is None else {"reask": again.to_dict()}
        echo_json(json.dumps({**verification.to_dict(), **reasked}, indent=1))
    else:
        for line in sealing("verification_lines")(verification, reasked=again is not None):
            echo(line)
        for line in sealing("reasked_lines")(again) if again is not None else ():
            echo(line)
    if not verification.passed or (again is not None and again.beyond_noise):
        context.exit(1)
    if again is not None and again.changed:
        context.exit(4)
