"""What unfolding some names gives, each task and group under a name that nothing else has.

A task keeps its name as long as everybody means the same task by it. A group that wants it with other fields gets its
own, `group::task`, then `group::task::2` and so on; a group that is wanted with other fields is renamed the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from assay.config import GroupConfig, Origin, TaskConfig
from assay.errors import ConfigError


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
    """Everything that some names stand for, collected while they are unfolded."""

    tasks: dict[str, TaskConfig] = field(default_factory=dict)
    groups: dict[str, GroupSpec] = field(default_factory=dict)
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sources: dict[str, Path | None] = field(default_factory=dict)
    origins: dict[str, Mapping[str, Origin]] = field(default_factory=dict)

    def add_task(self, config: TaskConfig, parent: str | None, path: Path | None, origins: Mapping[str, Origin]) -> str:
        """Keep a task that `parent` wants (None: that was asked for itself), and say under which name."""

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
            f"{wanted!r} is defined more than once, each time differently: {files}",
            hint="Rename all but one, or run them one at a time.",
        )


def _names(wanted: str, parent: str | None) -> Iterator[str]:
    """The names to try. What was asked for itself has only its own: results are looked up by it.

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
