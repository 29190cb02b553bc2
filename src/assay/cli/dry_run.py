"""`--dry_run`: what a run, a matrix or a sweep would cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay.cli.output import echo, echo_json
from assay.show import Column, FittedTable
from assay.terminal_text import one_line

if TYPE_CHECKING:
    from assay.config import RunConfig
    from assay.run import Forecast


def print_dry_run(config: RunConfig, *, as_json: bool) -> None:
    """What one run would ask."""
    expected = forecast_shown(config, quiet=as_json)
    if as_json:
        echo_json(forecast_dict(expected), indent=2)
    else:
        show_forecast(expected, "What this run would ask")
        echo("Nothing was sent.")


def forecast_shown(config: RunConfig, *, quiet: bool) -> Forecast:
    """The forecast, with what takes time shown on the way. A run that would be refused is refused here too."""
    from assay.cli.display import show_progress
    from assay.evaluation import check_first
    from assay.run import forecast

    check_first(config)
    with show_progress(quiet=quiet) as progress:
        return forecast(config, progress=progress)


def forecast_dict(expected: Forecast) -> dict[str, Any]:
    return {**asdict(expected), "requests": expected.requests, "to_ask": expected.to_ask}


def show_forecast(expected: Forecast, title: str) -> None:
    from assay.cli.display import console

    out = console()
    numbers = [Column(name, right=True) for name in ("docs", "requests", "in the store")]
    table = FittedTable([Column("task", shrinks=True), *numbers], title=one_line(title))
    for name, task in expected.tasks.items():
        table.add([one_line(name), f"{task.docs:,}", f"{task.requests:,}", f"{task.kept:,}"])
    out.print(table)
    about = "" if expected.exact else "about "
    out.print(f"{expected.to_ask:,} requests to ask, {about}{expected.prompt_tokens:,} prompt tokens", highlight=False)
    if expected.distinct_tokens:
        fewer = f"{expected.prompt_tokens / expected.distinct_tokens:.1f} times fewer"
        shared = f"{about}{expected.distinct_tokens:,} tokens to compute with shared prefixes"
        out.print(f"{shared} ({fewer})", highlight=False)
    if expected.generated_tokens:
        out.print(f"at most {expected.generated_tokens:,} tokens to generate", highlight=False)
    if expected.seconds is not None:
        out.print(f"at most about {duration(expected.seconds)} on this machine", highlight=False)
    if expected.cost is not None:
        out.print(f"at most about {expected.cost:.2f} in the currency of the prices given", highlight=False)


def duration(seconds: float) -> str:
    """
    >>> duration(42), duration(300), duration(9000)
    ('42 s', '5 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
