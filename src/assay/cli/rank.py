"""`assay rank`: a leaderboard that admits what it does not know."""

from __future__ import annotations

from pathlib import Path

import click

from assay.analyses.rank import RankOptions
from assay.cli.emit import Outputs, emit, output_flags
from assay.cli.flags import option_flags
from assay.cli.output import echo_as_is


@click.command("rank")
@click.argument("runs", nargs=-1, required=True, metavar="RUNS…")
@option_flags(RankOptions, verb="rank")
@click.option(
    "--thin",
    is_flag=False,
    flag_value=0,
    type=click.IntRange(min=0),
    metavar="[N]",
    help="Find N docs that are enough for another run, and how precise its score on them is.  [default: several sizes]",
)
@click.option("--thin_docs", type=click.Path(dir_okay=False), help="Write the chosen docs, for `assay run --samples`.")
@click.option(
    "--suspects",
    is_flag=False,
    flag_value=20,
    type=click.IntRange(min=1),
    metavar="[N]",
    help="List N docs that runs answer alike and against the published answer, which may be wrong.  [default: 20]",
)
@click.option(
    "--suspects_docs",
    type=click.Path(dir_okay=False),
    help="Write every doc's chance to be drawn, for `assay judge label --gold --chances`.",
)
@click.option("--markdown", is_flag=True, hidden=True)
@output_flags(earlier=("html",))
def command(
    runs: tuple[str, ...],
    options: RankOptions,
    thin: int | None,
    thin_docs: str | None,
    suspects: int | None,
    suspects_docs: str | None,
    markdown: bool,
    outputs: Outputs,
) -> None:
    """Rank runs by their scores on the same docs, each with the range of ranks it may have.

    \b
    assay rank runs/*
    assay rank runs/* --tasks mmlu --metric acc -o ranks.html
    assay rank scores.csv --min_difference 0.01
    assay rank runs/* --tasks gsm8k --thin 100 --thin_docs docs.json
    assay rank runs/* --tasks mmlu --suspects 50

    A run is one of our run directories, files of lm-evaluation-harness, lighteval or inspect, or a table of scores (CSV, Parquet,
    npz) that holds several: run, doc, score. Each gets a line with its range of ranks, such as 1–3; the ranges of all runs hold
    together at 95 %.
    """
    import json

    from assay.analyses.rank import (
        chances_json,
        find_suspects,
        findings,
        rank,
        suspect_findings,
        thin_findings,
        thin_tasks,
    )
    from assay.finished import open_runs
    from assay.results import write_whole

    if thin_docs and not thin:
        raise click.UsageError("--thin_docs writes what --thin N chose; pass both")
    if suspects_docs and not suspects:
        raise click.UsageError("--suspects_docs writes what --suspects found; pass both")
    if suspects and thin is not None:
        raise click.UsageError("--suspects and --thin are two questions; ask one at a time")
    opened = [each for path in runs for each in open_runs(path)]
    if suspects:
        found = find_suspects(opened, options, suspects)
        emit(suspect_findings(found), outputs)
        if suspects_docs:
            write_whole(Path(suspects_docs), chances_json(found))
            echo_as_is(suspects_docs)
        return
    if thin is None:
        emit(findings(rank(opened, options)), outputs.printing("md") if markdown else outputs)
        return
    chosen = thin_tasks(opened, thin or None, options)
    emit(thin_findings(chosen), outputs)
    if thin_docs:
        write_whole(Path(thin_docs), json.dumps({each.task: each.ids(each.sizes[0]) for each in chosen}).encode())
        echo_as_is(thin_docs)
