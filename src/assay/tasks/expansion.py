"""What names stand for once they are unfolded: each task and group under a name that nothing else in the run has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeAlias

from assay.config import GroupConfig, Origin, TaskConfig
from assay.errors import ConfigError, did_you_mean

Built: TypeAlias = dict[tuple[str, Path | None], tuple[TaskConfig, Mapping[str, Origin]]]
"""Configs of tasks as their own files give them, with the origins of their fields, by name and file."""


class ReadyConfig(NamedTuple):
    """A task or group that a Python file defines, and the lines that set its fields."""

    config: TaskConfig | GroupConfig
    path: Path
    origins: Mapping[str, Origin]


@dataclass(frozen=True)
class GroupSpec:
    """A group with its members resolved; `children` are names of tasks or of other groups."""

    name: str
    config: GroupConfig
    children: tuple[str, ...]
    conditions: dict[str, str] = field(default_factory=dict)
    """Child to the expression of its `if:`; a child without one always belongs."""

    def renamed(self, name: str) -> GroupSpec:
        if name == self.name:
            return self
        return replace(self, name=name, config=self.config.model_copy(update={"group": name}))


@dataclass
class Expansion:
    """Everything that some names stand for, each task and group under a name that nothing else has."""

    tasks: dict[str, TaskConfig] = field(default_factory=dict)
    groups: dict[str, GroupSpec] = field(default_factory=dict)
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sources: dict[str, Path | None] = field(default_factory=dict)
    origins: dict[str, Mapping[str, Origin]] = field(default_factory=dict)

    def add_task(self, config: TaskConfig, parent: str | None, path: Path | None, origins: Mapping[str, Origin]) -> str:
        """Keep a task that `parent` wants (None: that was requested itself), and say under which name."""

        def as_named(name: str) -> TaskConfig:
            return config if name == config.task else config.override(task=name)

        name = self._settle(config.task, parent, path, lambda name: self.tasks.get(name) == as_named(name))
        self.tasks[name] = as_named(name)
        self.sources[name], self.origins[name] = path, origins
        return name

    def add_group(self, spec: GroupSpec, parent: str | None, path: Path | None, origins: Mapping[str, Origin]) -> str:
        """The same for a group."""
        name = self._settle(spec.name, parent, path, lambda name: self.groups.get(name) == spec.renamed(name))
        self.groups[name] = spec.renamed(name)
        self.sources[name], self.origins[name] = path, origins
        return name

    def _settle(self, wanted: str, parent: str | None, path: Path | None, is_known: Callable[[str], bool]) -> str:
        for name in _names(wanted, parent):
            if (name not in self.tasks and name not in self.groups) or is_known(name):
                return name
        files = " and ".join(str(file) for file in (self.sources[wanted], path) if file is not None)
        raise ConfigError(
            f"{wanted!r} has several different definitions: {files}",
            hint="Rename all but one, or run them one at a time.",
        )


def _names(wanted: str, parent: str | None) -> Iterator[str]:
    """The names to try. What was requested itself has only its own: results are looked up by it.

    >>> from itertools import islice
    >>> list(islice(_names("x", "g"), 4)), list(_names("x", None))
    (['x', 'g::x', 'g::x::2', 'g::x::3'], ['x'])
    """
    yield wanted
    if parent is None:
        return
    longer = wanted if wanted.startswith(f"{parent}::") else f"{parent}::{wanted}"
    if longer != wanted:
        yield longer
    yield from (f"{longer}::{number}" for number in count(2))


def child_called(part: str, group: GroupSpec | None, requested: str) -> str:
    """The member of a group that one part of a path names: by its name there, or without its format and variant."""
    children = {} if group is None else {child.split("::")[-1]: child for child in group.children}
    bare = {name.partition("@")[0].partition(":")[0]: child for name, child in reversed(children.items())}
    found = children.get(part) or bare.get(part)
    if found is None:
        hint = did_you_mean(part, bare) or f"Members: {', '.join(children) or 'none, because it is a task'}."
        raise ConfigError(f"{requested!r}: there is no member {part!r}", hint=hint)
    return found
