"""The index on disk: two JSON files per set of roots, trusted only while every file they speak of is unchanged.

One holds the finished entries, read at every start; the other what was read off each file, opened only when some file
has changed, so that the others need not be read again.
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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from assay.paths import assay_home
from assay.tasks.scan import Facts

VERSION = 3
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints", ".git"})
_TICK_NS = 50_000_000
"""File times advance in ticks: a file this young may change again without its time changing."""

Stamp: TypeAlias = tuple[int, int, int]
"""Modification time, change time and size."""


@dataclass(frozen=True)
class Snapshot:
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


def take_snapshot(roots: Iterable[Path]) -> Snapshot:
    named = tuple(str(root.absolute()) for root in roots)
    return Snapshot(named, tuple(_walk(root) for root in named))


def _walk(root: str) -> list[tuple[str, Stamp]]:
    files: list[tuple[str, Stamp]] = []
    folders = [root]
    linked: set[str] = set()
    while folders:
        folder = folders.pop()
        with suppress(PermissionError), os.scandir(folder) as listing:
            for item in listing:
                name = item.name
                if name.endswith((".yaml", ".yml")):
                    try:
                        status = item.stat()
                    except FileNotFoundError:
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


def stamp_of(path: str) -> Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size)


Kept: TypeAlias = tuple[list[list[Any]], dict[str, str], list[str]]


def load_index(snapshot: Snapshot) -> Kept | None:
    """Rows of entries, broken files and nameless files, if nothing has changed since they were written."""
    kept = _read(snapshot.cache_path.with_suffix(".json"))
    if kept is None or kept.get("digest") != snapshot.digest:
        return None
    # Bases often carry another suffix, or lie elsewhere, so the walk has not seen them.
    for path, stamp in kept["bases"]:
        if stamp_of(path) != (None if stamp is None else tuple(stamp)):
            return None
    return kept["entries"], kept["broken"], kept["nameless"]


def load_facts(snapshot: Snapshot) -> dict[str, tuple[Stamp | None, Facts]]:
    kept = _read(snapshot.cache_path.with_suffix(".facts.json"))
    facts: dict[str, tuple[Stamp | None, Facts]] = {}
    for path, stamp, (task, group, is_class, tags, include, output_type, error) in kept["facts"] if kept else ():
        row = Facts(task, group, is_class, None if tags is None else tuple(tags), tuple(include), output_type, error)
        facts[path] = (None if stamp is None else tuple(stamp), row)
    return facts


def save(
    snapshot: Snapshot,
    entries: Sequence[Any],
    broken: Mapping[str, str],
    nameless: Sequence[str],
    stamps: Mapping[str, Stamp | None],
    facts: Mapping[str, Facts],
) -> None:
    now = time.time_ns()
    if any(stamp is not None and now - stamp[0] < _TICK_NS for stamp in stamps.values()):
        return
    listed = {path for files in snapshot.files for path, _ in files}
    bases = [(path, stamp) for path, stamp in stamps.items() if path not in listed]
    index = {"digest": snapshot.digest, "bases": bases, "entries": entries, "broken": broken, "nameless": nameless}
    rows = [(path, stamps[path], fact) for path, fact in facts.items()]
    # A cache that cannot be written (a read-only home, a full disk) costs a second at the next start, no more.
    with suppress(OSError):
        _write(snapshot.cache_path.with_suffix(".json"), index)
        _write(snapshot.cache_path.with_suffix(".facts.json"), {"facts": rows})


def _read(path: Path) -> dict[str, Any] | None:
    try:
        kept = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None  # absent, or cut off by a crash: the index is built again
    return kept if isinstance(kept, dict) and kept.get("version") == VERSION else None


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
