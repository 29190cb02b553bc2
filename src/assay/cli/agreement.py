"""`assay agreement`: do filters, or draws, say the same?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from assay.cli.options import names_in
from assay.cli.output import echo_json
from assay.show import Column, FittedTable
from assay.terminal_text import one_line

if TYPE_CHECKING:
    from assay.analyses.agreement import Agreement


@click.command("agreement", short_help="Do filters, or the draws of a doc, agree?")
@click.argument("run", type=click.Path())
@click.option("--tasks", "-t", multiple=True, metavar="NAMES", help="Only these tasks.  [default: all]")
@click.option("--metric", "-m", metavar="NAME", help="Only this metric.  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON.")
def command(run: str, tasks: tuple[str, ...], metric: str | None, as_json: bool) -> None:
    """Print Cohen's κ between every two filters of a task, and Krippendorff's α among the draws of its docs.

    \b
    assay agreement runs/gsm8k
    assay agreement runs/sampled --tasks math --metric exact_match

    1 is full agreement, 0 is chance. Docs in a cluster, and docs with equal content, count as one.
    """
    from assay.analyses.agreement import agreements_in
    from assay.cli.display import console
    from assay.errors import ConfigError
    from assay.finished import open_run

    agreements = agreements_in(open_run(run), names_in(tasks), metric)
    if not agreements:
        raise ConfigError(
            f"{run} has no task with two filters or with several draws per doc",
            hint="Ask for draws with --repeats, or give the task a second filter.",
        )
    if as_json:
        echo_json([each.to_dict() for each in agreements], indent=2)
    else:
        console().print(agreement_table(agreements))


COLUMNS = [
    Column("task", shrinks=True),
    Column("metric", shrinks=True),
    Column("between", shrinks=True),
    Column("value", right=True),
    Column("95 % interval", right=True, rank=1, moves=True),
    Column("n", right=True, rank=2),
]


def agreement_table(agreements: Sequence[Agreement]) -> FittedTable:
    table = FittedTable(COLUMNS, notes="measure")
    for each in agreements:
        e = each.estimate
        value = "–" if e.value is None else f"{e.value:.4f}"
        interval = "" if e.low is None or e.high is None else f"[{e.low:.4f}, {e.high:.4f}]"
        cells = (each.task, each.metric, each.between, value, interval, f"{e.n:,}")
        said = f"{each.measure}: {e.undefined}" if e.value is None else each.measure
        table.add([one_line(cell) for cell in cells], one_line(said), "dim")
    return table
