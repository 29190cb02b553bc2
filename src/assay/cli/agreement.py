"""`assay agreement`: do filters, or draws, say the same?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from assay.cli.options import names_in
from assay.cli.output import echo_json

if TYPE_CHECKING:
    from assay.comparison import Agreement


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
    from assay.comparison import agreements_in, open_run
    from assay.errors import ConfigError

    agreements = agreements_in(open_run(run), names_in(tasks), metric)
    if not agreements:
        raise ConfigError(
            f"{run} has no task with two filters or with several draws per doc",
            hint="Ask for draws with --repeats, or give the task a second filter.",
        )
    if as_json:
        echo_json([each.to_dict() for each in agreements], indent=2)
    else:
        _show(agreements)


def _show(agreements: Sequence[Agreement]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    from assay.cli.display import console

    table = Table(header_style="bold", pad_edge=False, box=SIMPLE_HEAD)
    for name in ("task", "metric", "between", "measure", "value", "95 % interval", "n"):
        table.add_column(name, justify="right" if name in ("value", "n") else "left")
    for each in agreements:
        e = each.estimate
        value = e.undefined or "" if e.value is None else f"{e.value:.4f}"
        interval = "" if e.low is None or e.high is None else f"[{e.low:.4f}, {e.high:.4f}]"
        row = (each.task, each.metric, each.between, each.measure, value, interval, f"{e.n:,}")
        table.add_row(*map(escape, row))
    console().print(table)
