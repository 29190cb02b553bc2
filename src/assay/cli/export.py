"""`assay export`: a run in the files that others read."""

from __future__ import annotations

import click

from assay.cli.output import echo_as_is

FORMS = ("lm-eval", "inspect", "csv", "jsonl", "parquet", "eval-results", "model-card", "eee")


@click.command("export", short_help="Write a run in other harnesses' formats.")
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option("--to", type=click.Choice(FORMS), required=True)
@click.option(
    "--output", "-o", type=click.Path(file_okay=False), help="Directory to write to.  [default: RUN/export-<form>]"
)
@click.option("--organization", metavar="NAME", help="Who ran the evaluation, for eee.")
@click.option(
    "--relationship",
    type=click.Choice(["first_party", "third_party", "collaborative", "other"]),
    help="How the evaluator relates to the model's developer, for eee.",
)
def command(run: str, to: str, output: str | None, organization: str | None, relationship: str | None) -> None:
    """Write RUN as lm-evaluation-harness results and samples, inspect_ai logs, CSV, JSONL or Parquet, or for publishing:
    the hub's .eval_results, the metadata of a model card, or Every Eval Ever (eee).
    """
    from pathlib import Path

    from assay.finished import export_run

    given = {"organization": organization, "relationship": relationship}
    words = {key: word for key, word in given.items() if word is not None}
    if words and to != "eee":
        raise click.UsageError("--organization and --relationship are for --to eee.")
    for path in export_run(run, to, output or Path(run) / f"export-{to}", **words):
        echo_as_is(path)
