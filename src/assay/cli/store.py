"""`assay store`: look after the stored responses."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from assay.cli.output import echo
from assay.errors import ConfigError
from assay.show import Column, Findings, Table, kinds

if TYPE_CHECKING:
    from assay.store import OriginStats

COLUMNS: tuple[Column[OriginStats], ...] = (
    Column("run", kinds.TEXT, lambda origin: origin.run or "–", shrinks=True),
    Column("model", kinds.TEXT, lambda origin: origin.model or "–", shrinks=True),
    Column("since", kinds.TEXT, lambda origin: _day(origin.created), rank=1),
    Column("responses", kinds.COUNT, lambda origin: origin.responses),
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@click.group("store", help="Inspect, check, clean up or export the stored responses.")
@click.option(
    "--store",
    "path",
    type=click.Path(path_type=Path),
    envvar="ASSAY_STORE",
    help="The store to use.  [default: responses.sqlite in ASSAY_HOME]",
)
@click.pass_context
def command(context: click.Context, path: Path | None) -> None:
    from assay.store import default_store_path

    context.obj = path.expanduser() if path else default_store_path()


@command.command("stats", help="Count responses by run and model.")
@click.pass_obj
def show_stats(path: Path) -> None:
    from assay.cli.emit import Outputs, emit
    from assay.store import stats

    about = stats(path)
    echo(f"{about.path}: {about.responses:,} responses, {about.size / 1e6:,.1f} MB")
    if about.origins:
        emit(origin_findings(about.origins), Outputs())


def _day(stamp: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(stamp)) if stamp else "–"


def origin_findings(origins: Sequence[OriginStats]) -> Findings:
    """Which run sent requests to which model, since when, and how many of its responses are stored."""
    return Findings("Stored responses", tables=(Table.of(COLUMNS, origins),))


@command.command("verify", help="Check every page and every response; repair what can be repaired.")
@click.pass_obj
def verify_store(path: Path) -> None:
    from assay.store import verify

    checked = verify(path)
    if checked.message:
        echo(checked.message)
    if checked.spoiled:
        echo(
            f"{checked.spoiled:,} responses did not match their checksum and were removed; they will be computed again"
        )
    echo(f"{checked.checked - checked.spoiled:,} responses are sound")
    if checked.message or checked.spoiled:
        sys.exit(1)


@command.command("gc", help="Delete responses that match all the given conditions.")
@click.option("--run", help="Only of this run; * and ? are wildcards.")
@click.option("--model", help="Only of this model; * and ? are wildcards.")
@click.option("--older-than", "--older_than", "age", metavar="AGE", help="Only older than this: 30d, 12h, 2w, …")
@click.option("--dry-run", "--dry_run", is_flag=True, help="Only count them.")
@click.pass_obj
def clear_out(path: Path, run: str | None, model: str | None, age: str | None, dry_run: bool) -> None:
    from assay.store import collect_garbage

    seconds = None if age is None else parse_age(age)
    count = collect_garbage(path, run=run, model=model, older_than_seconds=seconds, dry_run=dry_run)
    echo(f"{count:,} responses {'would be' if dry_run else 'were'} deleted")


@command.command("export", help="Write one JSON object per line to standard output or a file.")
@click.option("--run", help="Only of this run; * and ? are wildcards.")
@click.option("--model", help="Only of this model; * and ? are wildcards.")
@click.option("--output", "-o", type=click.File("w", encoding="utf-8", lazy=True), default="-")
@click.pass_obj
def export(path: Path, run: str | None, model: str | None, output: IO[str]) -> None:
    from assay.store import export_responses

    for line in export_responses(path, run=run, model=model):
        output.write(line + "\n")


def parse_age(text: str) -> float:
    """
    >>> parse_age("36h")
    129600.0
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not an age", hint="Write 90s, 30m, 12h, 30d or 2w.")
    return float(match[1]) * _UNITS[match[2]]
