"""`assay export`: a run in other harnesses' files."""

from __future__ import annotations

import click

from assay.cli.output import echo


@click.command("export", short_help="A run in the files of another harness.")
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option("--to", type=click.Choice(["lm-eval", "inspect", "csv", "jsonl"]), required=True)
@click.option(
    "--output", "-o", type=click.Path(file_okay=False), help="Directory to write to.  [default: RUN/export-<form>]"
)
def command(run: str, to: str, output: str | None) -> None:
    """Write RUN as lm-evaluation-harness results and samples, inspect_ai logs, CSV or JSONL."""
    from pathlib import Path

    from assay.report import export_run

    for path in export_run(run, to, output or Path(run) / f"export-{to}"):
        echo(path)
