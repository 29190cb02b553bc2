"""`assay export`: a run in the files that others read."""

from __future__ import annotations

import click

from assay.cli.output import echo_as_is


@click.command("export", short_help="Write a run in other harnesses' formats.")
@click.argument("run", type=click.Path(exists=True))
@click.option(
    "--to",
    metavar="FORMAT",
    required=True,
    help="assay, lm-eval, inspect, csv, jsonl, parquet, eval-results, model-card, eee, or one that a package registers.",
)
@click.option(
    "--output", "-o", type=click.Path(file_okay=False), help="Directory to write to.  [default: RUN/export-<format>]"
)
@click.option("--organization", metavar="NAME", help="Who ran the evaluation, for eee.")
@click.option(
    "--relationship",
    type=click.Choice(["first_party", "third_party", "collaborative", "other"]),
    help="How the evaluator relates to the model's developer, for eee.",
)
def command(run: str, to: str, output: str | None, organization: str | None, relationship: str | None) -> None:
    """Write RUN, of any harness, as a run directory (assay), lm-evaluation-harness results and samples, inspect_ai logs, CSV,
    JSONL or Parquet, or for publishing: the hub's .eval_results, the metadata of a model card, or Every Eval Ever (eee).
    """
    from pathlib import Path

    from assay.finished import export_run

    given = {"organization": organization, "relationship": relationship}
    settings = {name: value for name, value in given.items() if value is not None}
    default = Path(run) / f"export-{to}" if Path(run).is_dir() else Path(f"{run}-{to}")
    for path in export_run(run, to, output or default, **settings):
        echo_as_is(path)
