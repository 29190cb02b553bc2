"""`assay ls`: what there is."""

from __future__ import annotations

import fnmatch
import importlib
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from assay.cli.output import echo, echo_json
from assay.cli.task_files import TaskFilesCommand, open_manager, task_files
from assay.signs import one_line

if TYPE_CHECKING:
    from assay.registry import Registry
    from assay.tasks import TaskManager

KINDS = ("tasks", "groups", "tags", "models", "metrics", "filters")
Listing = dict[str, Any]


@click.command("ls", cls=TaskFilesCommand, short_help="List tasks, groups, tags, models, metrics or filters.")
@click.argument("kind", required=False, metavar=f"[{'|'.join(KINDS)}]")
@click.argument("pattern", required=False)
@click.option("--json", "as_json", is_flag=True, help="A list of objects with name, kind and path.")
@task_files
def command(
    kind: str | None,
    pattern: str | None,
    as_json: bool,
    include_path: tuple[str, ...],
    lm_eval: str | None,
    no_defaults: bool,
) -> None:
    """List what can be named in a run.

    \b
    assay ls                   all tasks, groups and tags
    assay ls tasks 'arc_*'     tasks that fit a pattern
    assay ls models            backends for --model
    """
    kind = "tasks" if kind == "subtasks" else kind  # as lm-evaluation-harness calls what is no group
    if kind is not None and kind not in KINDS:
        if pattern is not None:
            raise click.UsageError(f"cannot list {kind!r}; one of {', '.join(KINDS)}")
        kind, pattern = None, kind
    if kind in ("models", "metrics", "filters"):
        rows = _registered(kind)
    else:
        from assay.config import reading_only

        with reading_only():
            rows = _indexed(open_manager(include_path, lm_eval, no_defaults), kind)
    if pattern is not None:
        wanted = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
        rows = [row for row in rows if fnmatch.fnmatchcase(row["name"], wanted)]
    if as_json:
        echo_json(rows)
    else:
        _print(rows, kind or "names", pattern)


def _indexed(manager: TaskManager, kind: str | None) -> list[Listing]:
    index = manager.index
    wanted = ("task", "group", "tag") if kind is None else (kind.removesuffix("s"),)
    rows: list[Listing] = []
    for entry in index.entries.values():
        if entry.kind not in wanted:
            continue
        row: Listing = {"name": entry.name, "kind": entry.kind, "path": entry.file}
        if entry.kind == "task":
            row |= {"output_type": entry.output_type, "tags": [*entry.tags]}
        elif entry.kind == "tag":
            row["tasks"] = [*entry.members]
        if entry.file is not None and entry.file in index.broken:
            row["error"] = index.broken[entry.file]
        if entry.rivals:
            row["error"] = f"also defined in {', '.join(entry.rivals)}"
        rows.append(row)
    if "task" in wanted:
        named = {entry.file for entry in index.entries.values()}
        for path, error in index.broken.items():
            if path not in named:
                rows.append({"name": os.path.basename(path), "kind": "broken", "path": path, "error": error})
    return sorted(rows, key=lambda row: row["name"])


def _registered(kind: str) -> list[Listing]:
    module, name = {
        "models": ("assay.models", "MODELS"),
        "metrics": ("assay.metrics", "METRICS"),
        "filters": ("assay.filters", "FILTERS"),
    }[kind]
    registry: Registry[Any] = getattr(importlib.import_module(module), name)
    return [{"name": name, "kind": kind.removesuffix("s"), "path": registry.home(name)} for name in registry]


def _print(rows: Sequence[Listing], what: str, pattern: str | None) -> None:
    """Columns by hand: a table of 13,000 rows is there at once, and `grep` and `cut` can read it."""
    here = os.getcwd() + os.sep
    lines = [
        tuple(map(one_line, (row["name"], row["kind"], str(row.get("output_type") or ""), _where(row, here))))
        for row in rows
    ]
    if not lines:
        echo(f"no {what}" + (f" fit {pattern!r}" if pattern else ""), err=True)
        return
    widths = [max(map(len, column)) for column in zip(("name", "kind", "", ""), *lines)]
    head = ("name", "kind", "output type" if widths[2] else "", "path")
    widths[2] = max(widths[2], len(head[2]))
    body = [_line(line, widths) for line in lines]
    echo("\n".join([_line(head, widths), *body]))
    broken = [row for row in rows if "error" in row]
    for row in broken:
        echo(f"broken: {row['error']}", err=True)
    echo(f"{len(rows) - len(broken):,} {what}{f', {len(broken)} broken' if broken else ''}", err=True)


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths) if width).rstrip()


def _where(row: Listing, here: str) -> str:
    if row["kind"] == "tag":
        return f"{len(row['tasks'])} tasks"
    return str(row["path"] or "").removeprefix(here)
