"""Names to files: every task, group and tag under some directories.

Nothing is built from a file to index it: libyaml checks its syntax and the scanner reads its name off its lines. The
result is kept on disk and used again as long as no file has changed.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from assay.tasks.index_cache import Snapshot, Stamp, load_facts, load_index, save, stamp_of, take_snapshot
from assay.tasks.scan import Facts, read_facts

Kind: TypeAlias = Literal["task", "group", "tag"]


class Entry(NamedTuple):
    """One name. A tag has members and no file. `rivals` are further files of the same root that claim the name;
    `replaces` is the file of an earlier root that it was taken over from."""

    name: str
    kind: Kind
    file: str | None = None
    output_type: str | None = None
    tags: Sequence[str] = ()
    members: Sequence[str] = ()
    is_class: bool = False
    rivals: Sequence[str] = ()
    replaces: str | None = None

    @property
    def path(self) -> Path | None:
        return None if self.file is None else Path(self.file)


@dataclass(frozen=True)
class Index:
    """All entries by name; files that cannot be read, with their errors; files without a name, for others to include."""

    entries: Mapping[str, Entry]
    broken: Mapping[str, str] = field(default_factory=dict)
    nameless: Sequence[str] = ()

    def names(self, kind: Kind) -> list[str]:
        return sorted(name for name, entry in self.entries.items() if entry.kind == kind)

    @cached_property
    def broken_names(self) -> dict[str, str]:
        """Names that broken files most likely wanted to give: those of the files."""
        return {Path(file).stem: error for file, error in self.broken.items()}


def build_index(roots: Iterable[Path], *, cache: bool = True) -> Index:
    """Index the roots in order; a later root takes names over from an earlier one, and tags collect from all."""
    snapshot = take_snapshot(roots)
    with _no_collector():
        return (_kept_index(snapshot) if cache else None) or _new_index(snapshot, cache=cache)


def _kept_index(snapshot: Snapshot) -> Index | None:
    kept = load_index(snapshot)
    if kept is None:
        return None
    entries, broken, nameless = kept
    return Index({row[0]: Entry(*row) for row in entries}, broken, nameless)


def _new_index(snapshot: Snapshot, *, cache: bool) -> Index:
    reader = _Reader(snapshot, load_facts(snapshot) if cache else {})
    entries: dict[str, Entry] = {}
    for files in snapshot.files:
        for name, entry in _index_root(files, reader).items():
            earlier = entries.get(name)
            if earlier is not None and earlier.file != entry.file:
                entry = entry._replace(replaces=earlier.file)
            entries[name] = entry
    entries |= _tags(entries)
    if cache:
        rows = [_short(entry) for entry in entries.values()]
        save(snapshot, rows, reader.broken, reader.nameless, reader.stamps, reader.facts)
    return Index(entries, reader.broken, reader.nameless)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Tens of thousands of small objects, none of them garbage: looking for some takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _short(entry: Entry) -> list[object]:
    """A row without the defaults at its end: most entries are a name, a kind and a file."""
    row: list[object] = [*entry]
    while not row[-1]:
        row.pop()
    return row


class _Reader:
    """Reads facts, from the cache where the file is unchanged, and remembers what it looked at."""

    def __init__(self, snapshot: Snapshot, kept: dict[str, tuple[Stamp | None, Facts]]) -> None:
        self.stamps: dict[str, Stamp | None] = {path: stamp for files in snapshot.files for path, stamp in files}
        self.facts: dict[str, Facts] = {}
        self.broken: dict[str, str] = {}
        self.nameless: list[str] = []
        self._kept = kept
        self._bases: dict[tuple[str, str], str] = {}

    def read(self, path: str) -> Facts:
        if path in self.facts:
            return self.facts[path]
        if path not in self.stamps:
            self.stamps[path] = stamp_of(path)
        kept = self._kept.get(path) if self._kept else None
        facts = kept[1] if kept is not None and kept[0] == self.stamps[path] else read_facts(path)
        self.facts[path] = facts
        return facts

    def resolve(self, path: str, above: tuple[str, ...] = ()) -> Facts:
        """Facts of a file with those of its includes below them, merged as the loader merges fields."""
        own = self.read(path)
        if not own.include:
            return own
        task = group = output_type = tags = None
        is_class, error = own.is_class, own.error
        folder = path.rpartition(os.sep)[0]
        for include in own.include:
            base = self._base(folder, include)
            if base in above or base == path:
                continue  # the loader prints the circle when the task is asked for
            under = self.facts.get(base)
            if under is None or under.include:
                under = self.resolve(base, (*above, path))
            task, group = under.task or task, under.group or group
            is_class, output_type = under.is_class or is_class, under.output_type or output_type
            tags, error = tags if under.tags is None else under.tags, error or under.error
        tags = tags if own.tags is None else own.tags
        return Facts(own.task or task, own.group or group, is_class, tags, (), own.output_type or output_type, error)

    def _base(self, folder: str, include: str) -> str:
        """Where an include leads; hundreds of neighbours name the same one."""
        if (folder, include) not in self._bases:
            self._bases[folder, include] = os.path.normpath(os.path.join(folder, os.path.expanduser(include)))
        return self._bases[folder, include]


def _index_root(files: Sequence[tuple[str, Stamp]], reader: _Reader) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for path, _ in files:
        facts = reader.resolve(path)
        if facts.error is not None:
            reader.broken[path] = facts.error
        is_group = facts.group is not None and not facts.is_class
        name = facts.group if is_group else facts.task
        if name is None:
            if facts.error is None:
                reader.nameless.append(path)
        elif name in found:
            found[name] = found[name]._replace(rivals=(*found[name].rivals, path))
        else:
            kind: Kind = "group" if is_group else "task"
            found[name] = Entry(name, kind, path, facts.output_type, facts.tags or (), (), facts.is_class)
    return found


def _tags(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The tags of the tasks that stand in the end, whatever root they come from. No tag takes the name of a file."""
    members: dict[str, list[str]] = {}
    for entry in entries.values():
        for tag in entry.tags if entry.kind == "task" else ():
            members.setdefault(tag, []).append(entry.name)
    return {tag: Entry(tag, "tag", members=sorted(names)) for tag, names in members.items() if tag not in entries}
