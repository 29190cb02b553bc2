"""`assay gate`: pass or fail, for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.analyses.gate import GateOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags

if TYPE_CHECKING:
    from assay.analyses.gate import GateReport
    from assay.show import Findings


@click.command("gate")
@click.argument("run", type=click.Path())
@option_flags(GateOptions, verb="gate", without=("flips",))
@output_flags(link=True, earlier=("markdown", "junit", "report"))
@click.pass_context
def command(context: click.Context, /, run: str, options: GateOptions, outputs: Outputs) -> None:
    """Exit with 0 if a run is shown to be no worse than a baseline by more than the margin, with 1 if it is shown to be
    worse, and with 4 if there are too few docs to tell.

    \b
    assay gate runs/new --baseline runs/main --margin 0.01
    assay gate runs/new --baseline thresholds.json
    assay gate runs/new --threshold 0.6 --tasks gsm8k --metric exact_match

    A model that is worse by the margin or more passes each check with a probability of at most --alpha. All checks
    must pass. A score that is missing, undefined or withheld fails. One failed check outweighs others that cannot
    tell. In a GitHub workflow, checks that do not pass are annotated, and the comment becomes the step's summary; in
    GitLab they form the code quality report (gl-code-quality-report.json).
    """
    from assay.analyses.gate import gate

    report = gate(run, options)
    against = f"threshold {options.threshold:g}" if options.threshold is not None else str(Path(str(options.baseline)))
    emit(gate_findings(report, run, against, options.alpha), outputs)
    if code := exit_code(report, options.cannot_tell):
        context.exit(code)


def gate_findings(report: GateReport, run: str, against: str, alpha: float) -> Findings:
    from assay.analyses.gate import findings

    failed, unclear = (sum(check.outcome == each for check in report.checks) for each in ("failed", "cannot tell"))
    words = {
        "passed": "passed",
        "failed": f"FAILED ({failed} of {len(report.checks)} checks)",
        "cannot tell": f"CANNOT TELL ({unclear} of {len(report.checks)} checks)",
    }
    summary = f"gate {words[report.outcome]}: {run} against {against}, error rate {alpha:g}"
    return findings(report, f"{run} against {against}", summary)


def exit_code(report: GateReport, cannot_tell: str | None) -> int:
    """0 passed, 1 failed, 4 cannot tell, which may be mapped to one of the others."""
    return {"passed": 0, "failed": 1, "cannot tell": {None: 4, "pass": 0, "fail": 1}[cannot_tell]}[report.outcome]
