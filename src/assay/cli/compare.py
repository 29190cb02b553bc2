"""`assay compare`: is B better than A?"""

from __future__ import annotations

import click

from assay.analyses.compare import CompareOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN_A RUN_B [RUN_C …]")
@option_flags(CompareOptions, verb="compare")
@output_flags(link=True, earlier=("html", "markdown", "junit", "report"))
def command(runs: tuple[str, ...], options: CompareOptions, outputs: Outputs) -> None:
    """Compare runs doc by doc: every other run with the first.

    \b
    assay compare runs/base runs/new
    assay compare lm_eval_output/ runs/new --metric acc --margin 0.02
    assay compare runs/base runs/new --flips 10 -o diff.html -o comment.md

    A run is one of our run directories, or files of lm-evaluation-harness (with --log_samples), lighteval (details) or
    inspect (.eval). Tasks whose prompts differ are not compared unless you say how: --unpaired or --ignore_prompts.
    In a GitHub workflow rows that are worse are annotated and the comment is the step's summary; in GitLab they are the
    code quality report (gl-code-quality-report.json).
    """
    from assay.analyses.compare import compare_runs, findings
    from assay.finished import open_run

    emit(findings(compare_runs([open_run(run) for run in runs], options), options.flips), outputs)
