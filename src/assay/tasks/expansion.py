"""How tasks are named, `[group::]…task[@format][:variant]…`, taken apart and put together here and nowhere else; and what names
stand for once they are unfolded: each task and group under a name that nothing else in the run has.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import NamedTuple, TypeAlias

from assay.config import GroupConfig, Origin, TaskConfig, as_one_name
from assay.errors import ConfigError, UnknownName, did_you_mean
from assay.tasks.index import Entry

_SINGLE_COLON = re.compile(r"(?<!:):(?!:)")


class Names:
    """The registered names, and what a name with a format and variants after it means among them.

    What follows a name is kept as its parts, formats with their `@`: `arc_easy@mcqa:5shot` is `arc_easy`, `("@mcqa",
    "5shot")`.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.entries = entries

    def find(self, name: str, *, place: str = "") -> tuple[Entry, tuple[str, ...]]:
        """The entry, and what follows the name."""
        parts = self.split(name)
        if parts is None:
            near = self._cut_at_a_comma(name) or did_you_mean(name, map(as_one_name, self.entries))
            raise UnknownName(
                f"{place}there is no task, group or tag named {name!r}",
                hint=near or "`assay ls` lists them; --include_path adds a directory.",
            )
        return self.entries[parts[0]], parts[1]

    def _cut_at_a_comma(self, name: str) -> str | None:
        whole = next((each for each in self.entries if each.startswith((f"{name},", f"{name} "))), None)
        return whole and f"Commas and spaces that are part of a name have a backslash before them: {as_one_name(whole)}"

    def split(self, name: str) -> tuple[str, tuple[str, ...]] | None:
        """The registered name, and what follows it: `@format` of lm-evaluation-harness 0.5, then `:variant` of ours."""
        if name in self.entries:
            return name, ()
        base, *variant = _SINGLE_COLON.split(name)
        if base in self.entries:
            return base, tuple(variant)
        plain, *formats = _split_format(base)
        if formats and plain in self.entries:
            return plain, (*formats, *variant)
        # A file may choose for itself (`task: arc_easy@cloze`); it is the task's only one, so the bare name means it too.
        own = [each for each in self._with_format if each.startswith(f"{plain}@")]
        return (own[0], (*formats, *variant)) if len(own) == 1 else None

    @cached_property
    def _with_format(self) -> list[str]:
        return [name for name in self.entries if "@" in name]

    def is_path(self, name: object) -> bool:
        """Whether it names a member of a group by the groups above it."""
        return isinstance(name, str) and "::" in name and self.split(name) is None


class FileVariant(NamedTuple):
    """A task or group file, in a variant: `caps.yaml:gen`; or a member of a group file, `both.yaml::caps:gen`."""

    path: Path
    variant: tuple[str, ...]
    members: tuple[str, ...] = ()


def split_file(name: str) -> FileVariant | None:
    """The file or directory that a name begins with, and what follows it: `caps.yaml:gen`, `my_tasks/@mcqa:5shot`."""
    for end in (len(name), *(match.start() for match in reversed([*re.finditer("[:@]", name)]))):
        path = Path(name[:end]).expanduser()
        # Not `path.is_dir()`, which fails below a directory that may not be entered.
        if name[:end] and (os.path.isdir(path) or os.path.isfile(path)):
            _, members, variant = split_path(f"_{name[end:]}")
            return FileVariant(path, variant, tuple(members))
    return None


def split_path(path: str) -> tuple[str, list[str], tuple[str, ...]]:
    """
    >>> split_path("mmlu::stem::physics@mcqa:5shot")
    ('mmlu', ['stem', 'physics'], ('@mcqa', '5shot'))
    """
    base, *variant = _SINGLE_COLON.split(path)
    plain, *formats = _split_format(base)
    head, *parts = plain.split("::")
    return head, parts, (*formats, *variant)


def _split_format(base: str) -> list[str]:
    """
    >>> _split_format("arc_easy@mcqa"), _split_format("arc_easy")
    (['arc_easy', '@mcqa'], ['arc_easy'])
    """
    plain, at, chosen = base.rpartition("@")
    return [plain, f"@{chosen}"] if at else [base]


def with_variant(name: str, variant: tuple[str, ...]) -> str:
    """
    >>> with_variant("arc_easy", ("@mcqa", "5shot")), with_variant("arc_easy@cloze", ("@mcqa", "@cot"))
    ('arc_easy@mcqa:5shot', 'arc_easy@cot')
    """
    formats = [part for part in variant if part.startswith("@")]
    base = f"{name.rpartition('@')[0] or name}{formats[-1]}" if formats else name
    return ":".join((base, *(part for part in variant if not part.startswith("@"))))


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
