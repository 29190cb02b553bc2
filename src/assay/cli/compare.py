"""`assay compare`: is B better than A?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import names_in
from assay.cli.output import echo, echo_as_is, echo_json, tell_build_system

if TYPE_CHECKING:
    from assay.analyses.compare import CompareOptions, Comparison


@click.command("compare", short_help="Is B better than A? Paired, with an interval.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN_A RUN_B [RUN_C …]")
@click.option("--tasks", "-t", multiple=True, metavar="NAMES", help="Only these tasks or groups, with their members.")
@click.option("--metric", "-m", "metrics", multiple=True, metavar="NAME", help="Only this metric: acc, or acc,none.")
@click.option(
    "--margin",
    default=0.01,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="A difference that does not matter; relative for numbers beyond ±1.",
)
@click.option(
    "--alpha",
    default=0.05,
    show_default=True,
    type=click.FloatRange(0, 0.5, min_open=True),
    help="Error rate of the verdicts.",
)
@click.option("--unpaired", is_flag=True, help="If prompts or docs differ, compare scores as if on different docs.")
@click.option("--ignore_prompts", is_flag=True, help="Pair docs by content even if their prompts differ.")
@click.option(
    "--bootstrap_iters",
    "replicates",
    default=1000,
    show_default=True,
    type=click.IntRange(min=100),
    help="Replicates of the paired bootstrap.",
)
@click.option(
    "--flips",
    is_flag=False,
    flag_value=5,
    default=0,
    type=int,
    metavar="[N]",
    help="List up to N docs per task whose verdict changed.  [N: 5]",
)
@click.option(
    "--noise",
    type=click.Path(),
    metavar="FILE",
    help="noise.json from `assay noise`; adds serving noise to every difference.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--markdown", type=click.Path(dir_okay=False), metavar="FILE", help="Write a comment for a pull request.")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write JUnit XML with one case per row; worse is a failure.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write JSON (`assay schema compare`).",
)
@click.option("--link", metavar="URL", help="Link for the comment.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write a page with a forest plot.")
def command(
    runs: tuple[str, ...],
    tasks: tuple[str, ...],
    noise: str | None,
    flips: int,
    as_json: bool,
    markdown: str | None,
    junit: str | None,
    report_file: str | None,
    link: str | None,
    html: str | None,
    **how: Any,
) -> None:
    """Compare runs doc by doc: every other run with the first.

    \b
    assay compare runs/base runs/new
    assay compare lm_eval_output/ runs/new --metric acc --margin 0.02
    assay compare runs/base runs/new --flips 10 --html diff.html

    A run is one of our run directories, or files of lm-evaluation-harness (with --log_samples), lighteval (details) or
    inspect (.eval). Tasks whose prompts differ are not compared unless you say how: --unpaired or --ignore_prompts.
    In a GitHub workflow rows that are worse are annotated and the comment is the step's summary; in GitLab they are the
    code quality report (gl-code-quality-report.json).
    """
    from assay.analyses.compare import compare_runs, comparison_json, comparison_page
    from assay.analyses.gate_files import comparison_findings, comparison_junit, comparison_markdown, comparison_report
    from assay.finished import open_run
    from assay.results import write_whole

    comparisons = compare_runs([open_run(run) for run in runs], compare_options(tasks, noise, **how))
    if html:
        write_whole(Path(html), comparison_page(comparisons).encode())

    def comment() -> str:
        return "\n".join(comparison_markdown(c, link) for c in comparisons)

    if markdown:
        write_whole(Path(markdown), comment().encode())
    if junit:
        write_whole(Path(junit), comparison_junit(comparisons).encode())
    if report_file:
        write_whole(Path(report_file), comparison_report(comparisons, link).encode())
    tell_build_system(comparison_findings(comparisons), comment)
    if as_json:
        echo_json(comparison_json(comparisons))
        return
    _show(comparisons, flips)
    if html:
        echo_as_is(html)


def compare_options(tasks: tuple[str, ...], noise: str | None, **how: Any) -> CompareOptions:
    """The flags that `compare` and `gate` share; those in `how` are called as the fields that they set."""
    from assay.analyses.compare import CompareOptions
    from assay.analyses.noise_file import NoiseFile

    return CompareOptions(tasks=names_in(tasks), noise=None if noise is None else NoiseFile.load(noise), **how)


def _show(comparisons: Sequence[Comparison], flips: int) -> None:
    from assay.analyses.compare import comparison_legend, comparison_table, flip_lines
    from assay.cli.display import console

    out = console()
    for comparison in comparisons:
        out.print(comparison_table(comparison))
        for line in comparison_legend(comparison):
            echo(line)
        for line in flip_lines(comparison, flips) if flips else ():
            echo(line)
