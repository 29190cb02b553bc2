"""`assay run --dry_run`: what the run would cost."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from assay.config import RunConfig


def print_dry_run(config: RunConfig, *, as_json: bool) -> None:
    from rich.table import Table

    from assay.cli.display import console, show_progress
    from assay.run.forecast import forecast

    with show_progress(quiet=as_json) as progress:
        found = forecast(config, progress=progress)
    if as_json:
        click.echo(json.dumps({**asdict(found), "requests": found.requests, "to_ask": found.to_ask}, indent=2))
        return
    out = console()
    table = Table(title="What this run would ask", title_justify="left", pad_edge=False)
    for name in ("task", "docs", "requests", "in the store"):
        table.add_column(name, justify="left" if name == "task" else "right")
    for name, task in found.tasks.items():
        table.add_row(name, f"{task.docs:,}", f"{task.requests:,}", f"{task.kept:,}")
    out.print(table)
    about = "" if found.exact else "about "
    out.print(f"{found.to_ask:,} requests to ask, {about}{found.prompt_tokens:,} prompt tokens", highlight=False)
    if found.distinct_tokens:
        out.print(f"{about}{found.distinct_tokens:,} tokens to compute with shared prefixes ({found.prompt_tokens / found.distinct_tokens:.1f} times fewer)", highlight=False)  # fmt: skip
    if found.generated_tokens:
        out.print(f"at most {found.generated_tokens:,} tokens to generate", highlight=False)
    if found.seconds is not None:
        out.print(f"at most about {duration(found.seconds)} on this machine", highlight=False)
    if found.cost is not None:
        out.print(f"at most about {found.cost:.2f} in the currency of the prices given", highlight=False)
    out.print("Nothing was sent.", style="dim")


def duration(seconds: float) -> str:
    """
    >>> duration(42), duration(300), duration(9000)
    ('42 s', '5 min', '2.5 h')
    """
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"  # fmt: skip
