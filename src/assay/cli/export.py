"""`assay export`: a run in the files that others read."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.output import echo_as_is


@click.command("export")
@click.argument("run", type=click.Path(exists=True))
@click.option(
    "--to",
    metavar="FORMAT",
    required=True,
    help="assay, lm-eval, inspect, harbor, csv, jsonl, parquet, eval-results, model-card, eee, or one that a package registers.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(file_okay=False),
    help="Directory to write to.  [default: RUN/export-FORMAT; with --to assay, RUN-assay]",
)
@click.option("--organization", metavar="NAME", help="Who ran the evaluation, for eee.")
@click.option(
    "--relationship",
    type=click.Choice(["first_party", "third_party", "collaborative", "other"]),
    help="How the evaluator relates to the model's developer, for eee.",
)
@click.option("--developer", metavar="NAME", help="Who made the model, for eee, where its name does not say.")
@click.option(
    "--pull_request",
    metavar="REPO",
    help="The model's repository on the hub to which the numbers are proposed, for eval-results and model-card.",
)
def command(run: str, to: str, output: str | None, pull_request: str | None, **given: str | None) -> None:
    """Write RUN, of any harness, as a run directory (assay), lm-evaluation-harness results and samples, inspect_ai logs, a
    job of Harbor, CSV, JSONL or Parquet, or for publishing: the hub's .eval_results, the metadata of a model card, or Every Eval Ever (eee).

    \b
    assay export results/my-model --to assay
    assay export runs/mine --to inspect -o logs
    assay export runs/mine --to model-card --pull_request my-org/my-model
    """
    from assay.finished import export_run, propose_run

    settings = {name: value for name, value in given.items() if value is not None}
    inside = to != "assay" and Path(run).is_dir()
    where = output or (str(Path(run) / f"export-{to}") if inside else beside(run, to))
    if pull_request is not None:
        echo_as_is(propose_run(run, to, where, pull_request, **settings))
        return
    written = export_run(run, to, where, **settings)
    if to == "assay":
        _show(where)
        return
    for path in written:
        echo_as_is(path)


def beside(run: str, to: str) -> str:
    """`RUN-assay`; of `.` and `..` the directories that they stand for.

    >>> beside("out/", "assay")
    'out-assay'
    """
    path = Path(run)
    return f"{path if path.name not in ('', '..') else path.resolve()}-{to}"


def _show(where: str) -> None:
    from assay.cli.display import print_stored
    from assay.cli.emit import Outputs, emit
    from assay.results import RunResult
    from assay.show import run_findings

    result = RunResult.load(where)
    emit(run_findings(result), Outputs())
    print_stored(result)
