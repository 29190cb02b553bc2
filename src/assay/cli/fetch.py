"""`assay fetch`: a mirror with exactly the files that tasks need."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import names_in
from assay.cli.output import echo
from assay.cli.task_files import OpenManager, TaskFilesCommand, task_files
from assay.errors import DataError
from assay.terminal_text import hanging, one_line

if TYPE_CHECKING:
    from assay.data import DatasetNeed, FetchProgress, FoundDataset, HubClient
    from assay.tasks import TaskManager


@click.command("fetch", cls=TaskFilesCommand, short_help="Fetch data and models for a machine without internet.")
@click.argument("tasks", nargs=-1)
@click.option(
    "--to", "folder", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR", help="The mirror."
)
@click.option("--model", "models", multiple=True, metavar="NAME", help="A model on the hub, with its tokenizer.")
@click.option("--check", is_flag=True, help="Compare every file with the manifest; fetch nothing.")
@task_files
@click.pass_context
def command(
    context: click.Context,
    tasks: tuple[str, ...],
    folder: Path,
    models: tuple[str, ...],
    check: bool,
    open_manager: OpenManager,
) -> None:
    """Fill the mirror DIR with the data of TASKS, and with models.

    \b
    assay fetch arc_easy,gsm8k --to mirror --model HuggingFaceTB/SmolLM2-135M
    assay fetch --check --to mirror
    assay run --tasks arc_easy,gsm8k --model_args pretrained=HuggingFaceTB/SmolLM2-135M --data_dir mirror

    Fetches only the splits that tasks evaluate or draw shots from. After an interruption, run it again: correct files
    stay. HF_ENDPOINT names another hub; HF_TOKEN opens gated datasets and is never written to disk.
    """
    from assay.data import HubClient, fill_mirror, find_model, why_out_of_reach

    if check:
        context.exit(_check(folder))
    names = names_in(tasks)
    if not names and not models:
        raise click.UsageError("name the tasks whose data to fetch, or a model with --model.")
    needs, notes = needs_of(names, open_manager()) if names else ([], [])
    if reason := why_out_of_reach():
        raise DataError(
            f"the hub cannot be reached ({reason})",
            hint="Fetch on a machine that can reach it, and copy the mirror over.",
        )
    client = HubClient()
    found, failed = find_all(client, needs)
    found += [find_model(client, name) for name in models]
    notes += [each.note for each in found if each.note]
    progress = fill_mirror(folder, found, client, shown_progress())
    for note in dict.fromkeys(notes):
        echo(hanging(f"! {note}"), err=True)
    new = progress.files - progress.kept
    echo(f"{folder}: {progress.files:,} files, {progress.bytes / 1e6:,.1f} MB; {new:,} fetched now")
    for need, error in failed:
        echo(f"✗ {one_line(need.label)}: {hanging(str(error))}", err=True)
    if failed:
        raise DataError(
            f"{len(failed):,} of {len(needs):,} datasets were not found", hint="All the others were fetched."
        )


def _check(folder: Path) -> int:
    from assay.data import check_mirror

    wrong = check_mirror(folder)
    for each in wrong:
        echo(f"✗ {one_line(each)}")
    echo(f"{len(wrong):,} files are wrong; fetch them again." if wrong else "All files are as fetched.")
    return 1 if wrong else 0


def needs_of(names: Sequence[str], manager: TaskManager) -> tuple[list[DatasetNeed], list[str]]:
    """What the tasks read, each dataset once for all of them; and which tasks say nothing about it."""
    from dataclasses import replace

    from assay.data import need_of_task

    by_place: dict[tuple[object, ...], DatasetNeed] = {}
    notes = []
    for name, config in manager.resolve(names).tasks.items():
        need = need_of_task(config)
        if need is None:
            if config.custom_dataset is not None:
                notes.append(f"{name} loads its data with its own code; what that needs is not fetched")
            continue
        key = (need.path, need.name, need.revision, need.data_files)
        before = by_place.get(key, need)
        by_place[key] = replace(need, splits=tuple(dict.fromkeys([*before.splits, *need.splits])))
    return list(by_place.values()), notes


def find_all(
    client: HubClient, needs: list[DatasetNeed]
) -> tuple[list[FoundDataset], list[tuple[DatasetNeed, DataError]]]:
    """Where each of them is, asked for several at once; and those that are nowhere."""
    from assay.data import find_dataset

    def look(need: DatasetNeed) -> FoundDataset | DataError:
        try:
            return find_dataset(client, need)
        except DataError as error:
            return error

    found: list[FoundDataset] = []
    failed: list[tuple[DatasetNeed, DataError]] = []
    began = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        for place, (need, each) in enumerate(zip(needs, pool.map(look, needs)), 1):
            if isinstance(each, DataError):
                failed.append((need, each))
            else:
                found.append(each)
            if sys.stderr.isatty() and time.monotonic() - began > 1:
                click.echo(f"\r\033[Klooking: {place:,} of {len(needs):,} datasets", nl=False, err=True)
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
    return found, failed


def shown_progress() -> FetchProgress:
    """A line on a terminal; elsewhere a line every ten seconds."""
    from assay.data import FetchProgress

    last = [time.monotonic()]
    terminal = sys.stderr.isatty()

    def show(progress: FetchProgress) -> None:
        now = time.monotonic()
        if now - last[0] < (0.2 if terminal else 10):
            return
        last[0] = now
        text = f"{progress.done:,} of {progress.files:,} files, {progress.got / 1e6:,.1f} of {progress.bytes / 1e6:,.1f} MB"
        click.echo(f"\r\033[K{text}" if terminal else text, nl=not terminal, err=True)
        if terminal and progress.done == progress.files:
            click.echo("\r\033[K", nl=False, err=True)

    return FetchProgress(show=show)
