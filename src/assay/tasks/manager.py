"""`TaskManager`: what tasks there are, and loading some of them by name, pattern, path or directory."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from assay.config import ConfigWarning, GroupConfig, Origin, TaskConfig, add_lm_eval_root, add_task_root
from assay.errors import ConfigError, UnknownName, UntrustedCode, did_you_mean
from assay.tasks.base import Task, worded
from assay.tasks.expand import Expander
from assay.tasks.expansion import Built, FileVariant, GroupSpec, ReadyConfig, split_file, split_path
from assay.tasks.index import Entry, Index, build_index, index_beside
from assay.tasks.python_tasks import read_python_tasks

_SUFFIX = re.compile(r"([^:@]+)([:@].*)")
LM_EVAL_VARIABLE = "ASSAY_LM_EVAL_TASKS"


Names: TypeAlias = str | Mapping[str, Any] | Iterable[str | Mapping[str, Any]]


@dataclass(frozen=True)
class Resolved:
    """Names resolved to configs; nothing is built and no data are read."""

    tasks: dict[str, TaskConfig]
    groups: dict[str, GroupSpec]
    roots: list[str]
    """What was requested, as keys of `tasks` or `groups`, in order."""
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sources: dict[str, Path | None] = field(default_factory=dict)
    origins: dict[str, Mapping[str, Origin]] = field(default_factory=dict)
    """Where each field of each task or group was set."""


@dataclass(frozen=True)
class Loaded:
    """The same with tasks built. Building a task reads no data either."""

    tasks: dict[str, Task]
    groups: dict[str, GroupSpec]
    roots: list[str]
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sources: dict[str, Path | None] = field(default_factory=dict)
    origins: dict[str, Mapping[str, Origin]] = field(default_factory=dict)


class TaskManager:
    """Finds tasks, groups and tags in the built-in catalog, lm-evaluation-harness, and your own directories.

    A later directory takes a name over from an earlier one: catalog, then `lm_eval`, then `include_path` in order.
    """

    def __init__(
        self,
        include_path: str | Path | Iterable[str | Path] | None = None,
        include_defaults: bool = True,
        lm_eval: bool | str | Path | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        given = self._own = _split_paths(include_path)
        self.python_files = [path for path in given if path.suffix == ".py" and path.is_file()]
        theirs = lm_eval_roots(lm_eval)
        self.roots = [
            *(default_roots() if include_defaults else []),
            *theirs,
            *(path for path in given if path not in self.python_files),
        ]
        for root in self.roots:
            if not os.path.isdir(root):
                raise ConfigError(
                    f"include_path: {root} is not a directory", hint="Use a directory of task files, or a Python file."
                )
            add_task_root(root)
        for root in theirs:
            add_lm_eval_root(root)
        self.metadata = dict(metadata or {})
        self._built: Built = {}

    @cached_property
    def index(self) -> Index:
        index = build_index(self.roots)
        own = self._python_entries
        entries = {**index.entries, **own}
        for name in own.keys() & index.entries.keys():
            entries[name] = own[name]._replace(replaces=index.entries[name].file)
        self._say_what_is_replaced(entries)
        return Index(entries, index.broken, index.nameless)

    def _say_what_is_replaced(self, entries: Mapping[str, Entry]) -> None:
        """One warning for all names that files of `include_path` take over: a benchmark's name must not mislead."""
        replacing = [entry for entry in entries.values() if entry.replaces is not None]
        taken = [entry for entry in replacing if any(Path(str(entry.file)).is_relative_to(own) for own in self._own)]
        if taken:
            shown = "; ".join(f"{entry.name} ({entry.file} instead of {entry.replaces})" for entry in taken[:3])
            more = f"; and {len(taken) - 3} more" if len(taken) > 3 else ""
            what = "a task or group" if len(taken) == 1 else f"{len(taken)} tasks or groups"
            warnings.warn(f"include_path replaces {what}: {shown}{more}", ConfigWarning, stacklevel=2)

    @cached_property
    def _ready(self) -> dict[str, ReadyConfig]:
        """Tasks and groups that Python files define. These files run when anything is first looked up."""
        made = [each for path in self.python_files for each in read_python_tasks(path)]
        return {each.config.group if isinstance(each.config, GroupConfig) else each.config.task: each for each in made}

    @property
    def _python_entries(self) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        for name, (made, path, _) in self._ready.items():
            if isinstance(made, GroupConfig):
                entries[name] = Entry(name, "group", str(path))
            else:
                entries[name] = Entry(name, "task", str(path), made.output_type, made.tag or ())
        return entries

    @property
    def entries(self) -> Mapping[str, Entry]:
        return self.index.entries

    def load(
        self,
        names: Names,
        data_dir: str | Path | None = None,
        *,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Loaded:
        """Build every task that the names stand for, each once however often it is reached.

        A task or group may also be written as a mapping, as a member of a group is. `overrides` are fields by the name of
        a task, or of a group for all that is in it: `{"arc_easy": {"num_fewshot": 5}}`.
        """
        resolved = self.resolve(names, overrides=overrides)
        tasks = {name: Task.from_config(config, data_dir=data_dir) for name, config in resolved.tasks.items()}
        for name, task in tasks.items():
            task.task_file = resolved.sources.get(name)
        return Loaded(tasks, resolved.groups, resolved.roots, resolved.tags, resolved.sources, resolved.origins)

    def resolve(
        self,
        names: Names,
        *,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Resolved:
        """Unfold names to configs: task, group, tag, glob, `name:variant`, `group::member`, YAML file, directory of them."""
        overrides = overrides or {}
        for name in overrides:
            if name not in self.entries:
                hint = did_you_mean(name, self.entries) or "Overrides go by the name of a task or group."
                raise ConfigError(f"overrides: there is no task or group named {name!r}", hint=hint)
        expander = Expander(
            self.entries, metadata=self.metadata, ready=self._ready, built=self._built, overrides=overrides
        )
        given = [names] if isinstance(names, str | Mapping) else names
        try:
            targets = [[each] if isinstance(each, Mapping) else self._find(each, expander) for each in given]
            roots = expander.expand([target for found in targets for target in found])
        except UnknownName as error:
            if not self.index.broken:
                raise
            listed = "; ".join([*self.index.broken.values()][:3])
            raise UnknownName(error.message, hint=f"{error.hint} Files that cannot be read: {listed}") from error
        result = expander.result
        reached = {*result.tasks, *result.groups}
        if idle := [name for name in overrides if not any(_is_one(each, name) for each in reached)]:
            warnings.warn(f"overrides of {', '.join(idle)} apply to no task of the run", ConfigWarning, stacklevel=2)
        return Resolved(result.tasks, result.groups, roots, result.tags, result.sources, result.origins)

    def is_plain(self, name: str, config: TaskConfig, file: Path | None) -> bool:
        """Whether a config is that of the task's own file, not changed by any group."""
        built = self._built.get((name, file))
        return built is not None and built[0] is config

    def match(self, pattern: str) -> list[str]:
        """All names that fit a shell pattern, sorted."""
        return sorted(fnmatch.filter(self.entries, pattern))

    def match_variants(self, pattern: str) -> dict[str, str]:
        """Names with the format and variant that a pattern ends in (`arc_*@mcqa`), and the bare name of each: those that
        can be worded so."""
        found = _SUFFIX.fullmatch(pattern)
        fitting = {} if found is None else {f"{name}{found[2]}": name for name in self.match(found[1])}
        return {name: bare for name, bare in fitting.items() if self._can_be_worded(name)}

    def _can_be_worded(self, name: str) -> bool:
        try:
            for config in self.resolve(name).tasks.values():
                worded(config)
        except UntrustedCode:
            return True
        except ConfigError:
            return False
        return True

    def _find(self, name: str, expander: Expander) -> Sequence[str | Path | FileVariant]:
        """The registered names and the files that one word of the command line means."""
        name = re.sub(r"\\([,\s])", r"\1", name)  # as the command line writes what is part of a name
        if expander.names.split(name) is not None:
            return [name]
        if (found := split_file(name)) is not None:
            path, variant, members = found
            if os.path.isdir(path):
                if members:
                    raise ConfigError(
                        f"{name}: a directory has no members", hint="Name the group or its file before ::."
                    )
                return _in_variant(self._files(path, name, expander), variant)
            path = path.resolve()
            self._know_beside(path, expander)
            return [FileVariant(path, variant, members)] if members else _in_variant([path], variant)
        if any(sign in name for sign in "*?["):
            found_files = self._fitting(name)
            for each in found_files:
                if not isinstance(each, str):
                    self._know_beside(each.path if isinstance(each, FileVariant) else each, expander)
            return found_files
        file = re.split("[:@]", name)[0]
        if file.endswith((".yaml", ".yml", os.sep)):
            folder = os.path.dirname(file)
            near = did_you_mean(
                file, [os.path.join(folder, each.name) for each in _files_like(os.path.join(folder, "*"))]
            )
            raise ConfigError(
                f"{file}: no such file", hint=near or "Use the path of a task file, or the name of a task."
            )
        return [name]

    def _know_beside(self, path: Path, expander: Expander) -> None:
        """A group's file finds its members in its directory."""
        if not self._is_known(path):
            add_task_root(path.parent)
            expander.add_beside(path.parent, index_beside(path).entries)

    def _fitting(self, pattern: str) -> Sequence[str | Path | FileVariant]:
        found = _SUFFIX.fullmatch(pattern)
        base, suffix = (found[1], found[2]) if found else (pattern, "")
        matches = self.match(pattern) or [f"{name}{suffix}" for name in self.match(base) if suffix]
        if matches:
            return matches
        files = _files_like(pattern)
        if not files and suffix:
            return _in_variant(_files_like(base), split_path(f"_{suffix}")[2]) or self._fitting(base)
        if not files:
            raise ConfigError(
                f"no task, group, tag or file matches {pattern!r}", hint="`assay ls tasks PATTERN` lists those that do."
            )
        return files

    def _files(self, folder: Path, requested: str, expander: Expander) -> list[Path]:
        """Files of a directory that are tasks or groups; a base file without a name is for others to include.

        Groups of the directory find their members there.
        """
        if not self._is_known(folder):
            add_task_root(folder)
        index = build_index([folder.resolve()])
        if index.broken:
            raise ConfigError(next(iter(index.broken.values())))
        expander.add_entries(index.entries)
        named = [entry for entry in index.entries.values() if entry.file is not None]
        files = [Path(file) for entry in named for file in (entry.file, *entry.rivals) if file is not None]
        if not files:
            raise ConfigError(f"{requested}: no task file in this directory", hint="A task file has a `task:` line.")
        return sorted(files)

    def _is_known(self, path: Path) -> bool:
        above = {path.resolve(), *path.resolve().parents}
        return any(root.resolve() in above for root in self.roots)


def _files_like(pattern: str) -> list[Path]:
    paths = glob.glob(os.path.expanduser(pattern))
    return sorted(Path(path).resolve() for path in paths if path.endswith((".yaml", ".yml")))


def _in_variant(files: Sequence[Path], variant: tuple[str, ...]) -> list[Path | FileVariant]:
    return [FileVariant(file, variant) if variant else file for file in files]


def _is_one(reached: str, name: str) -> bool:
    """Whether a task or group of a run is the one of that name, in whatever variant and group."""
    bare = re.split("[@:]", reached.split("::")[-1])[0]
    return name in (reached, bare, *reached.split("::"))


def default_roots() -> list[Path]:
    """The catalog that ships with the package."""
    catalog = Path(__file__).resolve().parent.parent / "catalog"
    return [catalog] if catalog.is_dir() else []


def lm_eval_roots(chosen: bool | str | Path | None) -> list[Path]:
    """Task files of lm-evaluation-harness: of a path, of the installation (True), or as the environment says (None)."""
    named = os.environ.get(LM_EVAL_VARIABLE)
    if chosen is False or (chosen is None and not named):
        return []
    if chosen is not None and chosen is not True:
        return [_tasks_below(Path(chosen), "lm_eval")]
    if named:
        return [_tasks_below(Path(named), LM_EVAL_VARIABLE)]
    spec = find_spec("lm_eval")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(
            "--lm_eval: lm-evaluation-harness is not installed",
            hint=f"pip install --no-deps lm-eval, or set {LM_EVAL_VARIABLE} to a copy of its task files.",
        )
    return [Path(next(iter(spec.submodule_search_locations))) / "tasks"]


def _tasks_below(path: Path, who: str) -> Path:
    """The directory itself, or the `tasks` of the installation it holds."""
    path = path.expanduser().absolute()
    if not os.path.isdir(path):
        raise ConfigError(f"{who}: {path} is not a directory", hint="Name the directory of its task files.")
    for inner in (path / "lm_eval" / "tasks", path / "tasks"):
        if inner.is_dir() and (inner / "__init__.py").is_file():
            return inner
    return path


def _split_paths(include_path: str | Path | Iterable[str | Path] | None) -> list[Path]:
    given = (
        [] if include_path is None else [include_path] if isinstance(include_path, str | Path) else list(include_path)
    )
    return [Path(part).expanduser().absolute() for item in given for part in str(item).split(os.pathsep) if part]
