"""Names to files: every task, group and tag under some directories.

Nothing is built from a file to index it: libyaml checks its syntax and the scanner reads its name off its lines. The
result is cached on disk, in two JSON files per set of roots, and trusted only while every file it speaks of is unchanged.
One holds the finished entries and is read at every start; the other holds what was read off each file and is opened
only when some file has changed, so that the others need not be read again.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from assay.config import MAX_INCLUDES
from assay.errors import ConfigError
from assay.paths import assay_home
from assay.tasks.scan import Facts, read_facts

Kind: TypeAlias = Literal["task", "group", "tag"]
Stamp: TypeAlias = tuple[int, int, int]
"""Modification time, change time and size of a file."""

VERSION = 5
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints", ".git"})
_TICK_NS = 50_000_000
"""File times advance in ticks: a file this young may change again without its time changing."""


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
    shots: int | None = None
    style: str | None = None
    about: str = ""
    """What its file says it is about, or the dataset it reads."""

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


def build_index(roots: Iterable[Path]) -> Index:
    """Index the roots in order; a later root takes names over from an earlier one, and tags collect from all."""
    named = tuple(str(root.absolute()) for root in roots)
    snapshot = _Snapshot(named, tuple(_walk(root) for root in named))
    return _load_index(snapshot) or _new_index(snapshot)


def index_beside(file: Path) -> Index:
    """The index of the files in the directory of a file, without those further down."""
    folder = str(file.absolute().parent)
    return _new_index(_Snapshot((folder,), (_walk(folder, most=1),)), is_cached=False)


def _new_index(snapshot: _Snapshot, *, is_cached: bool = True) -> Index:
    reader = _Reader(snapshot, _load_facts(snapshot) if is_cached else {})
    entries: dict[str, Entry] = {}
    for files in snapshot.files:
        for name, entry in _index_root(files, reader).items():
            earlier = entries.get(name)
            if earlier is not None and earlier.file != entry.file:
                entry = entry._replace(replaces=earlier.file)
            entries[name] = entry
    entries |= _tags(entries)
    index = Index(entries, reader.broken, reader.nameless)
    if is_cached:
        _save(snapshot, index, reader)
    return index


class _Reader:
    """Reads facts, from the cache where the file is unchanged, and remembers what it looked at."""

    def __init__(self, snapshot: _Snapshot, cached: dict[str, tuple[Stamp | None, Facts]]) -> None:
        self.stamps: dict[str, Stamp | None] = {path: stamp for files in snapshot.files for path, stamp in files}
        self.facts: dict[str, Facts] = {}
        self.broken: dict[str, str] = {}
        self.nameless: list[str] = []
        self._cached = cached
        self._bases: dict[tuple[str, str], str] = {}
        self._resolved: dict[str, Facts] = {}

    def read(self, path: str) -> Facts:
        if path in self.facts:
            return self.facts[path]
        if path not in self.stamps:
            self.stamps[path] = _stamp_of(path)
        cached = self._cached.get(path) if self._cached else None
        facts = cached[1] if cached is not None and cached[0] == self.stamps[path] else read_facts(path)
        self.facts[path] = facts
        return facts

    def resolve(self, path: str, above: tuple[str, ...] = ()) -> Facts:
        """Facts of a file with those of its includes below them, merged as the loader merges fields."""
        own = self.read(path)
        if not own.include or len(above) > MAX_INCLUDES:
            return own  # the loader refuses what includes each other without end
        if path not in self._resolved:
            self._resolved[path] = self._with_includes(path, own, above)
        return self._resolved[path]

    def _with_includes(self, path: str, own: Facts, above: tuple[str, ...]) -> Facts:
        task = group = output_type = tags = shots = dataset = description = style = None
        is_class, error = own.is_class, own.error
        folder = path.rpartition(os.sep)[0]
        for include in own.include:
            base = self._base(folder, include)
            if base in above or base == path:
                continue  # the loader prints the circle when the task is requested
            under = self.facts.get(base)
            if under is None or under.include:
                under = self.resolve(base, (*above, path))
            task, group = under.task or task, under.group or group
            is_class, output_type = under.is_class or is_class, under.output_type or output_type
            tags, error = tags if under.tags is None else under.tags, error or under.error
            shots = shots if under.shots is None else under.shots
            dataset, style = under.dataset or dataset, under.style or style
            description = description if under.description is None else under.description
        return Facts(
            task=own.task or task,
            group=own.group or group,
            is_class=is_class,
            tags=tags if own.tags is None else own.tags,
            output_type=own.output_type or output_type,
            shots=shots if own.shots is None else own.shots,
            dataset=own.dataset or dataset,
            description=description if own.description is None else own.description,
            style=own.style or style,
            error=error,
        )

    def _base(self, folder: str, include: str) -> str:
        """Where an include leads; hundreds of neighbours name the same one."""
        if (folder, include) not in self._bases:
            self._bases[folder, include] = os.path.normpath(os.path.join(folder, os.path.expanduser(include)))
        return self._bases[folder, include]


def _index_root(files: Sequence[tuple[str, Stamp]], reader: _Reader) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for path, _ in files:
        facts = reader.resolve(path)
        if facts.error is not None:
            reader.broken[path] = facts.error
        is_group = facts.group is not None and not facts.is_class
        name = facts.group if is_group else facts.task
        if name is None:
            if facts.error is None:
                reader.nameless.append(path)
        elif name in entries:
            entries[name] = entries[name]._replace(rivals=(*entries[name].rivals, path))
        else:
            kind: Kind = "group" if is_group else "task"
            entries[name] = Entry(
                name,
                kind,
                path,
                facts.output_type,
                facts.tags or (),
                is_class=facts.is_class,
                shots=facts.shots,
                style=facts.style,
                about=" ".join((facts.description or "").split()) or (facts.dataset or "" if kind == "task" else ""),
            )
    return entries


def _tags(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The tags of the tasks that stand in the end, whatever root they come from. No tag takes the name of a file."""
    members: dict[str, list[str]] = {}
    for entry in entries.values():
        for tag in entry.tags if entry.kind == "task" else ():
            members.setdefault(tag, []).append(entry.name)
    return {tag: Entry(tag, "tag", members=sorted(names)) for tag, names in members.items() if tag not in entries}


# ---------------------------------------------------------------------- on disk


@dataclass(frozen=True)
class _Snapshot:
    """All YAML files under some roots with their stamps, root by root, sorted by path."""

    roots: tuple[str, ...]
    files: tuple[list[tuple[str, Stamp]], ...]

    @cached_property
    def digest(self) -> str:
        # The first format of marshal gives equal values equal bytes, several times as fast as any text of them.
        return hashlib.sha256(marshal.dumps(self.files, 0)).hexdigest()

    @property
    def cache_path(self) -> Path:
        key = hashlib.sha256("\n".join((str(VERSION), *self.roots)).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return assay_home() / "index" / key


_MOST_FOLDERS = 20_000


def _walk(root: str, *, most: int | None = None) -> list[tuple[str, Stamp]]:
    """Files below a root with their stamps; of the first directories alone, if `most` says how many."""
    files: list[tuple[str, Stamp]] = []
    folders = [root]
    linked: set[str] = set()
    seen = 0
    while folders and seen != most:
        folder = folders.pop()
        seen += 1
        if seen > _MOST_FOLDERS:
            raise ConfigError(
                f"{root}: more than {_MOST_FOLDERS:,} directories in it",
                hint="Name the directory of the task files itself; a link in it may lead elsewhere.",
            )
        with suppress(OSError), os.scandir(folder) as listing:
            for item in listing:
                name = item.name
                if name.endswith((".yaml", ".yml")):
                    try:
                        status = item.stat()
                    except OSError:
                        continue  # a dangling link, or removed this very moment
                    files.append((item.path, (status.st_mtime_ns, status.st_ctime_ns, status.st_size)))
                elif not name.endswith(".py") and item.is_dir() and name not in _IGNORED:
                    if item.is_symlink():
                        real = os.path.realpath(item.path)
                        if real in linked or f"{folder}{os.sep}".startswith(f"{real}{os.sep}"):
                            continue  # a link back up would be walked for ever
                        linked.add(real)
                    folders.append(item.path)
    files.sort()
    return files


def _stamp_of(path: str) -> Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def _load_index(snapshot: _Snapshot) -> Index | None:
    """The index as it was cached, if nothing has changed since."""
    cached = _read(snapshot.cache_path.with_suffix(".json"))
    if cached is None or cached.get("digest") != snapshot.digest:
        return None
    # Bases often carry another suffix, or lie elsewhere, so the walk has not seen them.
    for path, stamp in cached["bases"]:
        if _stamp_of(path) != (None if stamp is None else tuple(stamp)):
            return None
    return Index({row[0]: Entry(*row) for row in cached["entries"]}, cached["broken"], cached["nameless"])


def _load_facts(snapshot: _Snapshot) -> dict[str, tuple[Stamp | None, Facts]]:
    cached = _read(snapshot.cache_path.with_suffix(".facts.json"))
    facts: dict[str, tuple[Stamp | None, Facts]] = {}
    for path, stamp, (task, group, is_class, tags, include, *rest) in cached["facts"] if cached else ():
        row = Facts(task, group, is_class, None if tags is None else tuple(tags), tuple(include), *rest)
        facts[path] = (None if stamp is None else tuple(stamp), row)
    return facts


def _save(snapshot: _Snapshot, index: Index, reader: _Reader) -> None:
    stamps, now = reader.stamps, time.time_ns()
    if any(stamp is not None and now - stamp[0] < _TICK_NS for stamp in stamps.values()):
        return
    listed = {path for files in snapshot.files for path, _ in files}
    cached = {
        "digest": snapshot.digest,
        "bases": [(path, stamp) for path, stamp in stamps.items() if path not in listed],
        "entries": [_short(entry) for entry in index.entries.values()],
        "broken": index.broken,
        "nameless": index.nameless,
    }
    facts = [(path, stamps[path], fact) for path, fact in reader.facts.items()]
    # A cache that cannot be written (a read-only home, a full disk) costs a second at the next start, no more.
    with suppress(OSError):
        _write(snapshot.cache_path.with_suffix(".json"), cached)
        _write(snapshot.cache_path.with_suffix(".facts.json"), {"facts": facts})


def _short(entry: Entry) -> list[object]:
    """A row without the defaults at its end: most entries are a name, a kind and a file."""
    row: list[object] = [*entry]
    while (not row[-1] and row[-1] != 0) or row[-1] is False:
        row.pop()
    return row


def _read(path: Path) -> dict[str, Any] | None:
    try:
        cached = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None  # absent, or cut off by a crash: the index is built again
    return cached if isinstance(cached, dict) and cached.get("version") == VERSION else None


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "w") as file:
            # Not `dump`, which is written in Python and ten times slower.
            file.write(json.dumps({"version": VERSION, **content}, separators=(",", ":")))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
