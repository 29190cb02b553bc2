"""`assay new`: a commented, working starting point with its test."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from assay.cli.output import echo_as_is

SCAFFOLD = Path(__file__).parent / "scaffold"
KINDS = ("task", "group", "metric", "filter", "model")
_TRY = {
    "task": "assay run --model dummy --tasks {folder}/{name}.yaml",
    "group": "assay run --model dummy --tasks {folder}/{name}.yaml",
    "metric": "assay run --model dummy --tasks {folder}/{name}.yaml",
    "filter": "assay run --model dummy --tasks {folder}/{name}.yaml",
    "model": "assay run --model {folder}/{name}.py:{class_name} --tasks demo",
}


@click.command("new", short_help="Create a new task, group, metric, filter or model.")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@click.option("--directory", "-d", default=".", show_default=True, help="Create the folder NAME in this directory.")
def command(kind: str, name: str, directory: str) -> None:
    """Write a folder NAME with a commented, working task, group, metric, filter or model, and its test.

    \b
    assay new task my_task
    pytest my_task
    """
    folder = Path(directory) / name
    for path in write_scaffold(kind, name, folder):
        echo_as_is(f"wrote {path}")
    echo_as_is(f"\nTest it: pytest {folder}")
    echo_as_is(f"Run it:  {_TRY[kind].format(folder=folder, name=name, class_name=class_name(name))}")


def write_scaffold(kind: str, name: str, folder: Path) -> list[Path]:
    """The files of one kind under their names, all or none."""
    from assay.errors import ConfigError

    if not name.isidentifier() or not name.isascii():
        raise ConfigError(
            f"{name!r} cannot be the name of a Python module", hint="Use letters, digits and underscores."
        )
    if os.path.exists(folder):  # not `folder.exists()`, which fails below a directory that may not be entered
        raise ConfigError(f"{folder} already exists", hint="Choose another name, or remove it.")
    templates = {path.stem: path.read_text("utf-8") for path in sorted((SCAFFOLD / kind).glob("*.template"))}
    filled = {folder / file.replace("@name@", name): _filled(text, name) for file, text in templates.items()}
    try:
        folder.mkdir(parents=True)
        for path, text in filled.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write to {folder}: {error.strerror or error}", hint="Choose another directory with -d."
        ) from error
    return list(filled)


def class_name(name: str) -> str:
    """
    >>> class_name("last_line"), class_name("x")
    ('LastLine', 'X')
    """
    return "".join(part.capitalize() for part in re.split("_+", name) if part) or "Mine"


def _filled(text: str, name: str) -> str:
    return text.replace("@name@", name).replace("@class@", class_name(name))
