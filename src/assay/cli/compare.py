"""`assay compare`: is B better than A?"""

from __future__ import annotations

from pathlib import Path

import click

from assay.cli.gate import tell_build_system
from assay.cli.output import echo, echo_json, echo_sentence


@click.command("compare", short_help="Is B better than A? Paired, with an interval.")
@click.argument("runs", nargs=-1, required=True, metavar="RUN_A RUN_B [RUN_C …]")
@click.option(
    "--tasks", "-t", multiple=True, metavar="NAMES", help="Only these tasks or groups, and what is below them."
)
@click.option("--metric", "-m", multiple=True, metavar="NAME", help="Only this metric: acc, or acc,none.")
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
@click.option("--unpaired", is_flag=True, help="Compare scores as of different docs where prompts or docs differ.")
@click.option("--ignore_prompts", is_flag=True, help="Pair docs by content even where their prompts differ.")
@click.option(
    "--bootstrap_iters",
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
    help="noise.json of `assay noise`: serving noise enters every difference.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--markdown", type=click.Path(dir_okay=False), metavar="FILE", help="Write a comment for a pull request.")
@click.option(
    "--junit", type=click.Path(dir_okay=False), metavar="FILE", help="Write JUnit XML, a case a row; worse fails."
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write JSON (`assay schema compare`).",
)
@click.option("--link", metavar="URL", help="What the comment points to.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write a page with a forest plot.")
def command(
    runs: tuple[str, ...],
    tasks: tuple[str, ...],
    metric: tuple[str, ...],
    margin: float,
    alpha: float,
    unpaired: bool,
    ignore_prompts: bool,
    bootstrap_iters: int,
    flips: int,
    noise: str | None,
    as_json: bool,
    markdown: str | None,
    junit: str | None,
    report_file: str | None,
    link: str | None,
    html: str | None,
) -> None:
    """Compare runs doc by doc: every further run against the first.

    \b
    assay compare runs/base runs/new
    assay compare lm_eval_output/ runs/new --metric acc --margin 0.02
    assay compare runs/base runs/new --flips 10 --html diff.html

    A run is a directory of ours, or files of lm-evaluation-harness (with --log_samples), lighteval (details) or
    inspect (.eval). Tasks whose prompts differ are not compared unless you say how: --unpaired or --ignore_prompts.
    In a GitHub workflow rows that are worse are annotated and the comment is the step's summary; in GitLab they are the
    code quality report (gl-code-quality-report.json).
    """
    from assay.cli.display import console
    from assay.comparison import (
        CompareOptions,
        NoiseFile,
        compare_runs,
        comparison_findings,
        comparison_json,
        comparison_junit,
        comparison_legend,
        comparison_markdown,
        comparison_page,
        comparison_report,
        comparison_table,
        flip_lines,
        open_run,
    )
    from assay.results import write_whole

    options = CompareOptions(
        tasks=tuple(name for part in tasks for name in part.split(",") if name),
        metrics=metric,
        margin=margin,
        alpha=alpha,
        unpaired=unpaired,
        ignore_prompts=ignore_prompts,
        replicates=bootstrap_iters,
        noise=None if noise is None else NoiseFile.load(noise),
    )
    comparisons = compare_runs([open_run(run) for run in runs], options)
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
    out = console()
    for comparison in comparisons:
        out.print(comparison_table(comparison))
        for line in comparison_legend(comparison):
            echo_sentence(line)
        for line in flip_lines(comparison, flips) if flips else ():
            echo(line)
    if html:
        echo(html)
