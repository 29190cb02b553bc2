"""Names to files: every task, group and tag under some directories."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from assay.tasks.scan import Facts, read_facts

Kind: TypeAlias = Literal["task", "group", "tag"]
_IGNORED = {"__pycache__", ".ipynb_checkpoints"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One name. A tag has members and no file; `rivals` are further files that claim the same name."""

    name: str
    kind: Kind
    path: Path | None = None
    tags: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    output_type: str | None = None
    is_class: bool = False
    rivals: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Index:
    """All entries by name, and the files that could not be read, with their errors."""

    entries: Mapping[str, Entry]
    broken: Mapping[Path, str] = field(default_factory=dict)

    def names(self, kind: Kind) -> list[str]:
        return sorted(name for name, entry in self.entries.items() if entry.kind == kind)


def build_index(roots: Iterable[Path]) -> Index:
    """Index the roots in order; a later root takes names over from an earlier one."""
    entries: dict[str, Entry] = {}
    broken: dict[Path, str] = {}
    for root in roots:
        entries.update(_index_root(root, broken))
    return Index(entries, broken)


def _index_root(root: Path, broken: dict[Path, str]) -> dict[str, Entry]:
    facts: dict[str, Facts] = {}
    found: dict[str, Entry] = {}
    members: dict[str, list[str]] = {}
    for path in walk(root):
        resolved = resolve(path, facts)
        if resolved.error is not None:
            broken[Path(path)] = resolved.error
            continue
        name = (resolved.task if resolved.is_class else None) or resolved.group or resolved.task
        if name is None:
            continue
        if name in found:
            rivals = (*found[name].rivals, Path(path))
            found[name] = _replace_rivals(found[name], rivals)
            continue
        kind: Kind = "group" if resolved.group is not None and not resolved.is_class else "task"
        found[name] = Entry(name, kind, Path(path), resolved.tags or (), (), resolved.output_type, resolved.is_class)
        if kind == "task":
            for tag in resolved.tags or ():
                members.setdefault(tag, []).append(name)
    for tag, names in members.items():
        found.setdefault(tag, Entry(tag, "tag", None, (), tuple(sorted(names))))
    return found


def _replace_rivals(entry: Entry, rivals: tuple[Path, ...]) -> Entry:
    return Entry(
        entry.name, entry.kind, entry.path, entry.tags, entry.members, entry.output_type, entry.is_class, rivals
    )


def walk(root: Path) -> Iterator[str]:
    """All `*.yaml` below `root`, sorted by path."""
    files: list[str] = []
    folders = [str(root)]
    while folders:
        with os.scandir(folders.pop()) as listing:
            for item in listing:
                if item.name.endswith(".yaml"):
                    files.append(item.path)
                elif item.name not in _IGNORED and "." not in item.name and item.is_dir():
                    folders.append(item.path)
    return iter(sorted(files))


def resolve(path: str, facts: dict[str, Facts], above: tuple[str, ...] = ()) -> Facts:
    """Facts of a file with those of its includes below them, merged as the loader merges fields."""
    own = facts.get(path)
    if own is None:
        own = facts[path] = read_facts(path)
    if not own.include or own.error is not None:
        return own
    folder = os.path.dirname(path)
    task = group = output_type = None
    is_class, tags = False, None
    for include in own.include:
        base = os.path.normpath(os.path.join(folder, os.path.expanduser(include)))
        if base in above or base == path:
            continue  # the loader prints the circle when the task is asked for
        under = resolve(base, facts, (*above, path))
        task, group = under.task or task, under.group or group
        is_class, tags = under.is_class or is_class, tags if under.tags is None else under.tags
        output_type = under.output_type or output_type
    return Facts(
        own.task or task, own.group or group, own.is_class or is_class, tags if own.tags is None else own.tags, (), own.output_type or output_type
    )  # fmt: skip
