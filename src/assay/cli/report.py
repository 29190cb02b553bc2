"""`assay report`: a finished run as a table or a page."""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.display import console
from assay.cli.output import echo_as_is


@click.command("report", short_help="Show a finished run as Markdown, LaTeX, CSV or HTML.")
@click.argument("run", type=click.Path(exists=True))
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "md", "latex", "csv", "html"]),
    default="text",
    show_default=True,
)
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    help="Write to this file.  [default for HTML: RUN/report.html]",
)
def command(run: str, form: str, output: str | None) -> None:
    """Show a finished run again, of any harness.

    \b
    assay report runs/my-model/2026-01-01T12-00-00
    assay report runs/my-model/2026-01-01T12-00-00 --format html
    """
    from assay.finished import open_run, with_our_estimates
    from assay.results import RunDirectory, write_whole
    from assay.show import csv_table, html_report, latex_table, markdown_table, render_text, screen_table

    result = with_our_estimates(open_run(run))
    if form == "text" and output is None:
        console().print(screen_table(result))
        return
    if form == "html":
        text = html_report(result, RunDirectory(run).read_json("run.json"))
        output = output or str(Path(run) / "report.html" if Path(run).is_dir() else f"{run}.html")
    else:
        makers = {"text": render_text, "md": markdown_table, "latex": latex_table, "csv": csv_table}
        text = makers[form](result)
    if output is None:
        echo_as_is(text, nl=False)
    else:
        write_whole(Path(output), text.encode())
        echo_as_is(output)
