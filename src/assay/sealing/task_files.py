"""The task files of a run, to be carried in a bundle: those that do not ship with this package."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from assay.config import RunConfig
from assay.errors import ConfigError
from assay.tasks import TaskManager, lm_eval_roots

SUFFIXES = ("", ".yaml", ".yml", ".py", ".txt")
"""Base files of lm-evaluation-harness have none."""
MOST_BYTES = 2**20
PACKAGE = Path(__file__).resolve().parent.parent
PREFIX = "tasks"


@dataclass(frozen=True)
class TaskFiles:
    """Members with task files, and how a manager finds them again."""

    members: dict[str, Path]
    roots: list[dict[str, str]]
    """`{"folder": "tasks/0", "kind": "lm_eval" | "include" | "file"}`, in the order in which they take over names."""
    tasks: list[str]
    """The run's tasks; those that were named by a path are named by their member, `bundle:tasks/1/mine.yaml`."""
    shipped: dict[str, str]
    """Files of this package that tasks are made of, with their SHA-256."""
    named: frozenset[Path] = frozenset()
    """Of the files that task files name, those that are carried or shipped."""


def collect_task_files(config: RunConfig, manager: TaskManager, *, named: Sequence[Path] = ()) -> TaskFiles:
    """All files of the folders that the run's tasks come from, and those below them that they name."""
    resolved = manager.resolve(config.tasks)
    used = {path for path in resolved.sources.values() if path is not None}
    used |= {origin.path for origins in resolved.origins.values() for origin in origins.values()}
    used = {path.resolve() for path in used if path.is_file()}
    theirs = [root.resolve() for root in lm_eval_roots(config.lm_eval or None)]
    own = [path for path in used if not path.is_relative_to(PACKAGE)]
    files = {path.resolve() for path in manager.python_files}
    known = [*(root.resolve() for root in manager.roots), *sorted({path.parent for path in files})]
    folders = [root for root in known if not root.is_relative_to(PACKAGE)]
    folders += sorted({path.parent for path in own if not any(path.is_relative_to(root) for root in folders)})
    there = [path.resolve() for path in named if path.is_file()]
    members: dict[str, Path] = {}
    roots: list[dict[str, str]] = []
    for number, root in enumerate(folders):
        mine = {path.parent for path in own if path.is_relative_to(root)}
        if any(path.parent == root for path in files):
            mine.add(root)
        place = f"{PREFIX}/{number}"
        kind = "lm_eval" if root in theirs else "include" if root in known else "file"
        roots.append({"folder": place, "kind": kind})
        for folder in mine:
            members |= {f"{place}/{path.relative_to(root).as_posix()}": path for path in _small_files(folder)}
        roots += [
            {"folder": f"{place}/{path.name}", "kind": "include"} for path in sorted(files) if path.parent == root
        ]
        members |= {f"{place}/{path.relative_to(root).as_posix()}": path for path in there if path.is_relative_to(root)}
    shipped = {
        path.relative_to(PACKAGE).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted({*used, *there})
        if path.is_relative_to(PACKAGE)
    }
    tasks = [_renamed(name, folders) for name in config.tasks]
    within = frozenset(path for path in there if path.is_relative_to(PACKAGE) or path in members.values())
    return TaskFiles(members, roots, tasks, shipped, within)


def _small_files(folder: Path) -> Iterable[Path]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = Path(entry.path)
            if entry.is_file() and path.suffix in SUFFIXES and entry.stat().st_size <= MOST_BYTES:
                yield path


def _renamed(name: str, folders: list[Path]) -> str:
    path = Path(name).expanduser()
    if not os.path.exists(path) or not (os.path.isdir(path) or name.endswith((".yaml", ".yml"))):
        return name
    path = path.resolve()
    for number, root in enumerate(folders):
        if path.is_relative_to(root):
            return f"bundle:{PREFIX}/{number}/{path.relative_to(root).as_posix()}"
    return name


def unpack_task_files(about: Mapping[str, Any], files: Mapping[str, Path], folder: Path) -> list[tuple[Path, str]]:
    """Put a bundle's task files below `folder`; the directories with their kinds. Names were checked when it was opened."""
    roots: list[tuple[Path, str]] = []
    for root in about.get("task_roots", ()):
        kind, place = str(root.get("kind")), str(root.get("folder"))
        target = _target(folder, place, about)
        roots.append((target, kind))
    for name, path in files.items():
        if name.startswith(f"{PREFIX}/"):
            target = _target(folder, name, about)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    for target, kind in roots:
        if kind != "include" or target.suffix != ".py":
            target.mkdir(parents=True, exist_ok=True)
    return roots


def _target(folder: Path, name: str, about: Mapping[str, Any]) -> Path:
    """Where a member goes. Modules of lm-evaluation-harness import each other as `lm_eval.tasks`, so they stand so."""
    parts = name.split("/")
    if parts[0] != PREFIX or len(parts) < 2 or any(part in ("", ".", "..") for part in parts):
        raise ConfigError(f"the bundle names a folder of task files {name[:80]!r}", hint="It was not written by Assay.")
    kinds = {str(root.get("folder")): root.get("kind") for root in about.get("task_roots", ())}
    inside = ("lm_eval", "tasks") if kinds.get("/".join(parts[:2])) == "lm_eval" else ()
    return folder.joinpath(*parts[:2], *inside, *parts[2:])


def find_bundled_task(name: str, folder: Path, about: Mapping[str, Any]) -> str:
    """A task's name as the manager of the unpacked files understands it."""
    return str(_target(folder, name.removeprefix("bundle:"), about)) if name.startswith("bundle:") else name


@cache
def code_hash() -> str:
    """SHA-256 (hex) over the Python files of this package: two versions with the same hash score alike."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
