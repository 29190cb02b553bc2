"""`assay report`: a finished run as a table or a page."""

from __future__ import annotations

from pathlib import Path

import click

from assay.analyses.by_field import ByFieldOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags
from assay.cli.output import echo_as_is


@click.command("report")
@click.argument("run", type=click.Path(exists=True))
@click.option("--agreement", is_flag=True, help="Show instead how far the filters, and the draws of a doc, agree.")
@click.option("--shrunken", is_flag=True, help="Also show tasks drawn towards their group's mean (many small tasks).")
@option_flags(ByFieldOptions, verb="report")
@output_flags()
def command(run: str, agreement: bool, shrunken: bool, options: ByFieldOptions, outputs: Outputs) -> None:
    """Show a finished run again, of any harness, in any format.

    \b
    assay report runs/my-model/2026-01-01T12-00-00
    assay report runs/my-model/2026-01-01T12-00-00 --format latex
    assay report runs/my-model/2026-01-01T12-00-00 -o report.html -o table.md
    assay report runs/gsm8k --agreement
    assay report runs/long --by max_length,depth

    `--format html` without a file writes RUN/report.html. With --agreement: Cohen's κ between every two filters of a task,
    and Krippendorff's α among the draws of its docs; 1 is full agreement, 0 is chance.
    """
    from assay.finished import open_run, with_our_estimates
    from assay.results import RunDirectory
    from assay.show import run_findings

    if agreement:
        from assay.analyses.agreement import agreement as agree
        from assay.analyses.agreement import findings

        emit(findings(agree(open_run(run), options)), outputs)
        return
    if options.by:
        from assay.analyses.by_field import by_field
        from assay.analyses.by_field import findings as field_findings

        emit(field_findings(by_field(open_run(run), options)), outputs)
        return
    about = RunDirectory(run).read_json("run.json") if Path(run).is_dir() else None
    found = run_findings(with_our_estimates(open_run(run)), about, shrink=shrunken)
    if outputs.form == "html" and not outputs.files:
        place = found.save(Path(run) / "report.html" if Path(run).is_dir() else Path(f"{run}.html"))
        echo_as_is(str(place))
        return
    emit(found, outputs)
