"""`assay gate`: pass or fail, for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.compare import compare_options
from assay.cli.output import echo, echo_json, tell_build_system

if TYPE_CHECKING:
    from assay.analyses.compare import CompareOptions
    from assay.analyses.gate import GateReport


@click.command("gate", short_help="Fail a build when a run is worse than another.")
@click.argument("run", type=click.Path())
@click.option("--baseline", "-b", metavar="RUN_OR_FILE", help="A run, a results file, or a JSON file of thresholds.")
@click.option("--threshold", type=float, help="Instead of a baseline: the score that every named task must reach.")
@click.option(
    "--margin",
    default=0.01,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="The largest acceptable loss; relative for numbers beyond ±1.",
)
@click.option(
    "--alpha",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 0.5, min_open=True),
    help="Probability of passing a model that is worse by the margin.",
)
@click.option("--tasks", "-t", multiple=True, metavar="NAMES", help="Tasks or groups to check.  [default: all]")
@click.option(
    "--metric",
    "-m",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Only this metric: acc, or acc,none; can be repeated.  [default: all; with --threshold, each task's first]",
)
@click.option("--unpaired", is_flag=True, help="Allow tasks whose prompts or docs differ; errors add up.")
@click.option(
    "--cannot_tell",
    type=click.Choice(["pass", "fail"]),
    help="Exit with 0 or 1 if there are too few docs to tell.  [default: 4]",
)
@click.option(
    "--noise",
    type=click.Path(),
    metavar="FILE",
    help="noise.json from `assay noise`; adds serving noise to every difference.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@click.option(
    "--markdown", type=click.Path(dir_okay=False), metavar="FILE", help="Also write a comment for a pull request."
)
@click.option(
    "--junit", type=click.Path(dir_okay=False), metavar="FILE", help="Also write JUnit XML with one case per check."
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write JSON (`assay schema gate`).",
)
@click.option("--link", metavar="URL", help="Link for the comment.")
@click.pass_context
def command(
    context: click.Context,
    /,
    run: str,
    baseline: str | None,
    threshold: float | None,
    tasks: tuple[str, ...],
    noise: str | None,
    cannot_tell: str | None,
    as_json: bool,
    markdown: str | None,
    junit: str | None,
    report_file: str | None,
    link: str | None,
    **how: Any,
) -> None:
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
    options = compare_options(tasks, noise, **how)
    report = _decide(run, baseline, threshold, options)
    against = f"threshold {threshold:g}" if threshold is not None else str(Path(str(baseline)))
    title = f"{run} against {against}"
    write_files(report, title, markdown=markdown, junit=junit, report_file=report_file, link=link)
    if as_json:
        echo_json(report.to_dict(), indent=2)
    else:
        for check in report.checks:
            echo(check.line())
        for note in report.notes:
            echo(f"note: {note}")
        echo(_last_line(report, run, against, options.alpha))
    if code := exit_code(report, cannot_tell):
        context.exit(code)


def _decide(run: str, baseline: str | None, threshold: float | None, options: CompareOptions) -> GateReport:
    from assay.analyses.gate import gate_against, gate_thresholds
    from assay.errors import ConfigError

    if baseline is not None and threshold is None:
        return gate_against(run, baseline, options)
    if threshold is None:
        raise ConfigError("a gate needs --baseline or --threshold", hint="Name the run to compare with, or a score.")
    if baseline is not None:
        raise ConfigError("a gate takes --baseline or --threshold, not both")
    if not options.tasks:
        raise ConfigError("--threshold needs --tasks", hint="Name the tasks that must reach it.")
    least = {(name, metric): threshold for name in options.tasks for metric in options.metrics or ("",)}
    return gate_thresholds(run, least, options)


def exit_code(report: GateReport, cannot_tell: str | None) -> int:
    """0 passed, 1 failed, 4 cannot tell, which may be mapped to one of the others."""
    return {"passed": 0, "failed": 1, "cannot tell": {None: 4, "pass": 0, "fail": 1}[cannot_tell]}[report.outcome]


def write_files(
    report: GateReport,
    title: str,
    *,
    markdown: str | None = None,
    junit: str | None = None,
    report_file: str | None = None,
    link: str | None = None,
) -> None:
    """The files that were asked for, and what the build system around us looks for."""
    from assay.analyses.gate_files import gate_findings, gate_json, gate_junit, gate_markdown
    from assay.results import write_whole

    comment = gate_markdown(report, title, link)
    texts = {markdown: comment, junit: gate_junit(report, title), report_file: gate_json(report, title, link)}
    for where, text in texts.items():
        if where:
            write_whole(Path(where), text.encode())
    tell_build_system(gate_findings(report), lambda: comment)


def _last_line(report: GateReport, run: str, against: str, alpha: float) -> str:
    failed, unclear = (sum(check.outcome == each for check in report.checks) for each in ("failed", "cannot tell"))
    words = {
        "passed": "passed",
        "failed": f"FAILED ({failed} of {len(report.checks)} checks)",
        "cannot tell": f"CANNOT TELL ({unclear} of {len(report.checks)} checks)",
    }
    return f"gate {words[report.outcome]}: {run} against {against}, error rate {alpha:g}"
