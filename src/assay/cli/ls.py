"""`assay ls`: what there is."""

from __future__ import annotations

import ast
import fnmatch
import importlib
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

import assay
from assay.cli.output import echo, echo_as_is, echo_json
from assay.cli.task_files import OpenManager, TaskFilesCommand, task_files
from assay.terminal_text import cell_width, one_line

if TYPE_CHECKING:
    from assay.metrics import Metric
    from assay.registry import Registry
    from assay.tasks import Entry, TaskManager

KINDS = ("tasks", "groups", "tags", "models", "metrics", "filters")
Listing = dict[str, Any]
NARROWEST_ABOUT = 30
GAP = 2
WHOLE_WORDS: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
_NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@click.command("ls", cls=TaskFilesCommand, short_help="List tasks, groups, tags, models, metrics or filters.")
@click.argument("kind", required=False, metavar=f"[{'|'.join(KINDS)}]")
@click.argument("pattern", required=False)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: a list of objects with name, kind, path and other facts."
)
@task_files
def command(kind: str | None, pattern: str | None, as_json: bool, open_manager: OpenManager) -> None:
    """List the names that you can use in a run.

    \b
    assay ls                   all tasks, groups and tags
    assay ls tasks 'arc_*'     tasks that match a pattern
    assay ls 'arc_*:mc'        those that can be worded so
    assay ls models            backends for --model
    """
    kind, pattern = _kind_and_pattern(kind, pattern)
    variants: dict[str, str] = {}
    if kind in ("models", "metrics", "filters"):
        rows = _registered(kind)
    else:
        from assay.config import reading_only

        with reading_only():
            manager = open_manager()
            rows = _indexed(manager, kind)
            variants = {} if pattern is None else manager.match_variants(pattern)
    if pattern is not None:
        wanted = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
        by_name = {row["name"]: row for row in rows}
        rows = [row for row in rows if fnmatch.fnmatchcase(row["name"], wanted)]
        rows += [{**by_name[bare], "name": name} for name, bare in variants.items() if bare in by_name]
    if as_json:
        echo_json(rows)
    else:
        _print(rows, kind or "names", pattern)


def _kind_and_pattern(first: str | None, second: str | None) -> tuple[str | None, str | None]:
    """One word alone may be either."""
    kind = "tasks" if first == "subtasks" else first  # as lm-evaluation-harness calls what is no group
    if kind is None or kind in KINDS:
        return kind, second
    if second is not None:
        raise click.UsageError(f"cannot list {kind!r}; choose one of {', '.join(KINDS)}")
    return None, kind


def _indexed(manager: TaskManager, kind: str | None) -> list[Listing]:
    index = manager.index
    wanted = ("task", "group", "tag") if kind is None else (kind.removesuffix("s"),)
    rows: list[Listing] = []
    for entry in index.entries.values():
        if entry.kind not in wanted:
            continue
        row = _facts(entry)
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


def _facts(entry: Entry) -> Listing:
    """What is said of a task, a group or a tag."""
    row: Listing = {"name": entry.name, "kind": entry.kind, "path": entry.file}
    if entry.kind == "task":
        row |= {"output_type": entry.output_type, "tags": [*entry.tags], "num_fewshot": entry.shots}
        row |= {"style": entry.style, "is_class": entry.is_class, "about": entry.about}
    elif entry.kind == "group":
        row["about"] = entry.about
    elif entry.kind == "tag":
        row["tasks"] = [*entry.members]
    return row


def _registered(kind: str) -> list[Listing]:
    module, name = {
        "models": ("assay.models", "MODELS"),
        "metrics": ("assay.metrics", "METRICS"),
        "filters": ("assay.filters", "FILTERS"),
    }[kind]
    registry: Registry[Any] = getattr(importlib.import_module(module), name)
    rows = []
    homes: dict[str, str] = {}
    for name in registry:
        home = registry.home(name)
        first = homes.setdefault(home, name)
        said = metric_words(registry[name]) if kind == "metrics" else first_paragraph(home)
        if first != name and kind != "metrics":
            said = f"the same as {first}"
        rows.append({"name": name, "kind": kind.removesuffix("s"), "path": home, "about": said})
    return rows


def metric_words(metric: Metric) -> str:
    """Which answers it takes, how docs become one number, and which way is better."""
    better = {True: "higher is better", False: "lower is better", None: ""}[metric.higher_is_better]
    *kinds, last = dict.fromkeys((metric.kind, *metric.forms))
    takes = f"{', '.join(kinds)} and {last}" if kinds else last
    return "; ".join(part for part in (takes, metric.aggregation, better) if part)


def first_paragraph(home: str) -> str:
    """What the docstring of `module:attribute` begins with. It is read off the file: importing a backend takes seconds."""
    module, _, attribute = home.partition(":")
    if module.partition(".")[0] != "assay":
        return module
    name = attribute.rpartition(".")[2]
    for node in ast.walk(_parsed(module)):
        if isinstance(node, _NAMED) and node.name == name:
            text = ast.get_docstring(node) or ""
            return " ".join(text.split("\n\n")[0].split()).rstrip(".:")
        if isinstance(node, ast.ImportFrom) and node.module and any(each.name == name for each in node.names):
            return first_paragraph(f"{node.module}:{name}")
    return ""


@cache
def _parsed(module: str) -> ast.Module:
    place = Path(assay.__file__).parent.joinpath(*module.split(".")[1:])
    package = place / "__init__.py"
    path = package if package.is_file() else place.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _print(rows: Sequence[Listing], what: str, pattern: str | None) -> None:
    """Columns by hand: a table of 13,000 rows is there at once, and `grep` and `cut` can read it."""
    if not rows:
        echo(f"no {what}" + (f" match {pattern!r}" if pattern else ""), err=True)
        return
    same_kind = what in ("groups", "tags", "models", "metrics", "filters")  # then a column for it says nothing
    types = ["" if same_kind else type_of(row) for row in rows]
    lines = [tuple(map(one_line, (row["name"], of, shots_of(row), about(row)))) for row, of in zip(rows, types)]
    echo_as_is("\n".join(listed(("name", "type", "shots", "about"), lines, width_of(sys.stdout) or 80)))
    broken = [row for row in rows if "error" in row]
    for row in broken:
        echo(f"broken: {row['error']}", err=True)
    count = len(rows) - len(broken)
    echo(
        f"{count:,} {what.removesuffix('s') if count == 1 else what}{f', {len(broken)} broken' if broken else ''}",
        err=True,
    )


def width_of(stream: IO[str]) -> int | None:
    """Columns to print on. What is piped has one line an entry, however long, unless somebody says otherwise."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return int(given)
    return shutil.get_terminal_size().columns if stream.isatty() else 1_000_000


def listed(head: Sequence[str], lines: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Names are whole, since they are there to be typed: one that is too long has a line to itself. What an entry is about is
    never cut; where there is no room beside the other columns, it stands below them."""
    widths = [max((cell_width(line[i]) for line in (head, *lines)), default=0) for i in range(3)]
    filled = [any(line[i] for line in lines) for i in range(3)]
    widths[0] = min(widths[0], max(20, width // 2 - 4))
    before = sum(w + GAP for w, is_filled in zip(widths, filled) if is_filled)
    beside = width - before >= NARROWEST_ABOUT
    yield row_of(head[: 4 if beside else 3], widths, filled)
    for line in lines:
        is_long = cell_width(line[0]) > widths[0]
        if is_long:
            yield line[0]
        *shown, note = line
        room = width - before if beside else width - 4
        wrapped = textwrap.wrap(note, max(room, 10), **WHOLE_WORDS) if cell_width(note) > room else [note]
        notes = [text for text in wrapped if text]
        first = [notes.pop(0) if notes else ""] if beside else []
        if row := row_of(["" if is_long else shown[0], *shown[1:], *first], widths, filled):
            yield row
        yield from (" " * (before if beside else 4) + more for more in notes)


def row_of(texts: Sequence[str], widths: Sequence[int], filled: Sequence[bool]) -> str:
    columns = [text + " " * (w - cell_width(text)) for text, w, is_filled in zip(texts, widths, filled) if is_filled]
    return (" " * GAP).join([*columns, *texts[3:]]).rstrip()


def type_of(row: Listing) -> str:
    if row["kind"] != "task":
        return str(row["kind"])
    if row.get("output_type"):
        return str(row["output_type"])
    return f"style {row['style']}" if row.get("style") else "Python class" if row.get("is_class") else "generate_until"


def shots_of(row: Listing) -> str:
    if row["kind"] != "task":
        return ""
    return str(row["num_fewshot"]) if row.get("num_fewshot") is not None else "" if row.get("is_class") else "0"


def about(row: Listing) -> str:
    if row["kind"] == "tag":
        return f"{len(row['tasks'])} task{'s' if len(row['tasks']) != 1 else ''}"
    broken = "broken, see below" if "error" in row else ""
    return "; ".join(part for part in (broken, str(row.get("about") or "")) if part)
