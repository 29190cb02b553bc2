"""`assay rank`: a leaderboard that admits what it does not know."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import names_in
from assay.cli.output import echo, echo_as_is, echo_json

if TYPE_CHECKING:
    from assay.analyses.rank import Ranking, RankOptions
    from assay.finished import Run


@click.command("rank", short_help="Rank many runs, each with the ranks it may have.")
@click.argument("runs", nargs=-1, required=True, metavar="RUNS…")
@click.option(
    "--tasks", "-t", multiple=True, metavar="NAMES", help="Rank by these tasks or groups.  [default: what was run]"
)
@click.option("--metric", "-m", metavar="NAME", help="acc, or acc,none.  [default: the first that all runs have]")
@click.option(
    "--min_difference",
    default=0.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Count a run as ahead only if it is ahead by more than this.",
)
@click.option(
    "--level",
    default=0.95,
    show_default=True,
    type=click.FloatRange(0.5, 1, max_open=True),
    help="Confidence level of all ranges together.",
)
@click.option("--ignore_prompts", is_flag=True, help="Pair docs by content even if their prompts differ.")
@click.option(
    "--bootstrap_iters", "replicates", default=2000, show_default=True, type=click.IntRange(min=200), help="Replicates."
)
@click.option(
    "--thin",
    is_flag=False,
    flag_value=0,
    type=click.IntRange(min=0),
    metavar="[N]",
    help="Find N docs that are enough for another run, and how precise its score on them is.  [default: several sizes]",
)
@click.option("--thin_docs", type=click.Path(dir_okay=False), help="Write the chosen docs, for `assay run --samples`.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--html", type=click.Path(dir_okay=False), help="Write a page with the ranges as bars.")
def command(
    runs: tuple[str, ...],
    tasks: tuple[str, ...],
    thin: int | None,
    thin_docs: str | None,
    as_json: bool,
    markdown: bool,
    html: str | None,
    **how: Any,
) -> None:
    """Rank runs by their scores on the same docs, each with the range of ranks it may have.

    \b
    assay rank runs/*
    assay rank runs/* --tasks mmlu --metric acc --html ranks.html
    assay rank scores.csv --min_difference 0.01
    assay rank runs/* --tasks gsm8k --thin 100 --thin_docs docs.json

    A run is one of our run directories, files of lm-evaluation-harness, lighteval or inspect, or a table of scores (CSV, Parquet,
    npz) that holds several: run, doc, score. Each gets a line with its range of ranks, such as 1–3; the ranges of all runs hold
    together at 95 %.
    """
    from assay.analyses.rank import RankOptions, rank, ranking_json, ranking_page
    from assay.finished import open_runs
    from assay.results import write_whole

    options = RankOptions(tasks=names_in(tasks), **how)
    opened = [each for path in runs for each in open_runs(path)]
    if thin is not None:
        _thin(opened, thin or None, thin_docs, options)
        return
    if thin_docs:
        raise click.UsageError("--thin_docs writes what --thin N chose; pass both")
    rankings = rank(opened, options)
    if html:
        write_whole(Path(html), ranking_page(rankings).encode())
    if as_json:
        echo_json(ranking_json(rankings))
        return
    _show(rankings, markdown=markdown)
    if html:
        echo_as_is(html)


def _show(rankings: Sequence[Ranking], *, markdown: bool) -> None:
    from assay.analyses.rank import ranking_legend, ranking_markdown, ranking_table
    from assay.cli.display import console

    if markdown:
        for ranking in rankings:
            echo_as_is(ranking_markdown(ranking))
        return
    out = console()
    legends = [[*ranking_legend(ranking)] for ranking in rankings]
    common = [line for line in legends[0] if all(line in legend for legend in legends)] if legends else []
    for ranking, legend in zip(rankings, legends):
        out.print(ranking_table(ranking))
        for line in legend:
            if line not in common:
                echo(line)
        echo()
    for line in common:
        echo(line)


def _thin(runs: list[Run], thin: int | None, file: str | None, options: RankOptions) -> None:
    import json

    from assay.analyses.rank import thin_runs, thinned_lines
    from assay.results import write_whole

    if file and thin is None:
        raise click.UsageError("--thin_docs needs the number of docs: --thin N")
    shared = [task for task in runs[0].tasks if all(task in run.tasks for run in runs)]
    chosen = [thin_runs(runs, task, thin, options) for task in options.tasks or shared]
    for each in chosen:
        for line in thinned_lines(each):
            echo(line)
    if file:
        docs = {each.task: each.ids(each.sizes[0]) for each in chosen}
        write_whole(Path(file), json.dumps(docs).encode())
        echo_as_is(file)
