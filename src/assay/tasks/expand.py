"""From names to configs: groups unfolded, overrides pushed down, inline members named. No task is built here.

The rules are those of lm-evaluation-harness group files:
- a key of a group file that is no group's own goes to every child, and an outer group wins over an inner one;
- a member mapping overrides the named task, key by key;
- a member that is no registered name is written out on the spot and called `group::task` or `group::subgroup`.
One rule is ours. What two places of one run want with different fields is there twice, under two names, instead of one
of them silently winning: a task keeps its name as long as everybody means the same task by it; a group that wants it
with other fields gets its own, `group::task`, then `group::task::2` and so on. Groups are renamed the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from assay.config import (
    ConfigWarning,
    GroupConfig,
    LoadedFile,
    Origin,
    TaskConfig,
    build_group_config,
    build_task_config,
    lm_eval_version_of,
    load_yaml,
    resolve_includes,
    split_group,
)
from assay.errors import ConfigError
from assay.tasks.expansion import (
    Built,
    Expansion,
    FileVariant,
    GroupSpec,
    Names,
    ReadyConfig,
    child_called,
    split_path,
    with_variant,
)
from assay.tasks.formats import select_format, written_group
from assay.tasks.index import Entry
from assay.tasks.styled import apply_variant

_MEMBER_KEYS = frozenset({"task", "group", "if"})
_DEFINES_TASK = frozenset({"dataset_path", "custom_dataset", "include", "class", "doc_to_text"})
_GROUP_ONLY = frozenset({"group_alias", "aggregate_metric_list", "group_filter", "scorer"})


@dataclass(frozen=True)
class _Place:
    """Where the unfolding stands: the groups above, and what they push down."""

    groups: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, Origin] = field(default_factory=dict)
    variant: tuple[str, ...] = ()
    path: Path | None = None
    member: Mapping[str, Any] = field(default_factory=dict)
    """What of `overrides` the entry itself says in its group: it also goes before what the caller says."""

    @property
    def parent(self) -> str | None:
        return self.groups[-1] if self.groups else None


@dataclass(frozen=True)
class _Requested:
    """A task or group that the run requests by itself, not as the member of a group."""

    entry: Entry
    variant: tuple[str, ...] = ()
    loaded: LoadedFile | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return with_variant(self.entry.name, self.variant)


MAX_LEVELS = 50
MAX_UNFOLDED = 100_000


class Expander:
    """Unfolds names against an index into one `Expansion`."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        *,
        metadata: Mapping[str, Any] | None = None,
        ready: Mapping[str, ReadyConfig] | None = None,
        built: Built | None = None,
        overrides: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """`ready` holds configs that were made by Python files; `built` keeps what was read, for the next expander.

        `overrides` are fields by the name of a task, or of a group, whose members then get them.
        """
        self.names = Names(entries)
        self._ready = ready or {}
        self.metadata = dict(metadata or {})
        self._built = {} if built is None else built
        self._overrides = overrides or {}
        self.result = Expansion()
        self._beside: dict[Path, Names] = {}
        self._unfolded = 0
        self._pending: dict[str, _Requested] = {}
        self._roots: dict[tuple[str, str | None], list[str]] = {}

    @property
    def entries(self) -> Mapping[str, Entry]:
        return self.names.entries

    def add_entries(self, entries: Mapping[str, Entry]) -> None:
        """Know further names too, such as those in a directory that is requested by its path."""
        self.names = Names({**self.entries, **entries})

    def add_beside(self, folder: Path, entries: Mapping[str, Entry]) -> None:
        """Groups whose files lie in this directory find their members there first; other names mean what they did."""
        self._beside[folder] = Names({**self.entries, **entries})

    def _names_at(self, path: Path | None) -> Names:
        return self.names if path is None else self._beside.get(path.parent, self.names)

    def expand(self, requested: Iterable[str | Path | FileVariant | Mapping[str, Any]]) -> list[str]:
        """The keys of the tasks and groups that registered names (with variants), files, and mappings as a group's members
        are written, stand for, in order.

        What is requested by itself keeps its name, also where an earlier group has a member of that name with other
        fields: `_entry` lets a root go first.
        """
        wanted = [each if self._is_path(each) else self._requested(each) for each in requested]
        named = [target for each in wanted if isinstance(each, list) for target in each]
        self._pending = {each.key: each for each in reversed(named)}
        roots: list[str] = []
        for each in wanted:
            roots += [key for one in each for key in self._root(one)] if isinstance(each, list) else [self._path(each)]
        return list(dict.fromkeys(roots))

    def _is_path(self, requested: object) -> bool:
        return (isinstance(requested, FileVariant) and bool(requested.members)) or self.names.is_path(requested)

    def _path(self, requested: Any) -> str:
        """`group::subgroup::task`: what the group makes of this one of its members, under the name that was requested."""
        whole = Expander(
            self.entries, metadata=self.metadata, ready=self._ready, built=self._built, overrides=self._overrides
        )
        whole._beside = self._beside
        if isinstance(requested, FileVariant):
            parts, target = [*requested.members], requested._replace(members=())
            (key,) = whole.expand([target])
            path = with_variant("::".join((split_path(key)[0], *parts)), requested.variant)
        else:
            path = str(requested)
            head, parts, variant = split_path(path)
            entry, _ = self.names.find(head)
            if entry.kind != "group":
                raise ConfigError(f"{path!r}: {head!r} is a {entry.kind}, expected a group before `::`")
            (key,) = whole.expand([with_variant(head, variant)])
        for part in parts:
            key = child_called(part, whole.result.groups.get(key), path)
        return self._adopt(whole.result, key, path, None)

    def _adopt(self, expansion: Expansion, key: str, name: str, parent: str | None) -> str:
        """A task or group of another expansion, with all that is below it."""
        path, origins = expansion.sources.get(key), expansion.origins.get(key, {})
        if key in expansion.tasks:
            return self.result.add_task(expansion.tasks[key].override(task=name), parent, path, origins)
        spec = expansion.groups[key]
        children = {child: self._adopt(expansion, child, child, name) for child in spec.children}
        conditions = {children[child]: condition for child, condition in spec.conditions.items()}
        own = replace(spec.renamed(name), children=tuple(children.values()), conditions=conditions)
        return self.result.add_group(own, parent, path, origins)

    def _root(self, requested: _Requested) -> list[str]:
        self._pending.pop(requested.key, None)
        place = (requested.key, requested.entry.file)
        if requested.overrides or place not in self._roots:
            inner = _Place(variant=requested.variant, overrides=requested.overrides, member=requested.overrides)
            self._roots[place] = self._entry(requested.entry, inner, requested.loaded)
        return self._roots[place]

    def _requested(self, requested: str | Path | FileVariant | Mapping[str, Any]) -> list[_Requested]:
        if isinstance(requested, Mapping):
            return self._written_out(requested)
        if isinstance(requested, Path | FileVariant):
            file, variant = (requested, ()) if isinstance(requested, Path) else requested[:2]
            loaded = load_yaml(file)
            name, is_group = _name_in(loaded, file)
            return [_Requested(Entry(name, "group" if is_group else "task", str(file)), variant, loaded)]
        entry, variant = self.names.find(requested)
        if entry.kind != "tag":
            return [_Requested(entry, variant)]
        members = [_Requested(self.entries[name], variant) for name in entry.members]
        self.result.tags[with_variant(entry.name, variant)] = tuple(member.key for member in members)
        return members

    def _written_out(self, entry: Mapping[str, Any]) -> list[_Requested]:
        """A registered task or group with other fields, or a task or group that is written out on the spot."""
        name = entry.get("group", entry.get("task"))
        if not isinstance(name, str):
            raise ConfigError(f"a task has neither `task` nor `group`: {entry!r}", hint='Write {"task": NAME, …}.')
        fields = {key: value for key, value in entry.items() if key not in _MEMBER_KEYS}
        known = self.names.split(name)
        if known is not None and not isinstance(entry.get("task"), list):
            return [_Requested(self.entries[known[0]], known[1], overrides=fields)]
        is_group = "group" in entry
        if not is_group and not _DEFINES_TASK & {*fields}:
            self.names.find(name)  # raises: nothing here says what the task would be
        return [_Requested(Entry(name, "group" if is_group else "task"), loaded=LoadedFile(dict(entry), {}))]

    def _entry(self, entry: Entry, place: _Place, loaded: LoadedFile | None = None) -> list[str]:
        if entry.rivals:
            files = ", ".join(str(path) for path in (entry.file, *entry.rivals))
            raise ConfigError(
                f"{entry.kind} {entry.name!r} is defined more than once: {files}", hint="Rename all but one."
            )
        if entry.kind == "tag":
            entries = self._names_at(place.path).entries
            keys = [key for name in entry.members for key in self._entry(entries[name], place)]
            self.result.tags[with_variant(entry.name, place.variant)] = tuple(keys)
            return keys
        self._unfolded += 1
        if self._unfolded > MAX_UNFOLDED:
            within = place.groups[0] if place.groups else entry.name
            raise ConfigError(
                f"group {within!r} unfolds to more than {MAX_UNFOLDED:,} tasks and groups",
                hint="A group that stands in two others is unfolded in each; name it once.",
            )
        if place.groups and (requested := self._pending.get(with_variant(entry.name, place.variant))):
            self._root(requested)
        if told := self._overrides.get(entry.name):
            place = replace(place, overrides={**place.overrides, **told, **place.member})
        is_python = entry.path is not None and entry.path.suffix == ".py"
        made = self._ready.get(entry.name) if loaded is None and is_python else None
        if made is not None and isinstance(made.config, TaskConfig):
            config = made.config.override(**place.overrides) if place.overrides else made.config
            return [self._register(config, place, entry.path, {**made.origins, **place.origins})]
        if made is not None:
            fields = {name: getattr(made.config, name) for name in made.config.model_fields_set}
            loaded = LoadedFile(fields, {"group": made.origins["task"], **made.origins})
        if entry.kind == "group":
            self._check_circle(entry.name, place)
            return [self._group(entry.name, loaded or load_yaml(_path_of(entry)), entry.path, place)]
        # A task nobody overrides is the same in every group, and validating all groups meets it a dozen times.
        built = None if place.overrides or loaded is not None else self._built.get((entry.name, entry.path))
        if built is not None:
            return [self._register(built[0], place, entry.path, built[1])]
        loaded = loaded or load_yaml(_path_of(entry))
        fields = {**loaded.data, **place.overrides}
        return [self._task(entry.name, fields, {**loaded.origins, **place.origins}, place, entry.path)]

    def _check_circle(self, name: str, place: _Place) -> None:
        if len(place.groups) > MAX_LEVELS:
            raise ConfigError(f"group {place.groups[0]!r} holds groups more than {MAX_LEVELS} levels deep, at {name!r}")
        if name in place.groups:
            circle = " → ".join((*place.groups[place.groups.index(name) :], name))
            raise ConfigError(f"group {name!r} contains itself: {circle}", hint="Remove one of these members.")

    def _task(
        self, name: str, fields: Mapping[str, Any], origins: Mapping[str, Origin], place: _Place, path: Path | None
    ) -> str:
        metadata = fields.get("metadata") or {}
        if self.metadata:
            metadata = {**(metadata if isinstance(metadata, dict) else {"_metadata": metadata}), **self.metadata}
        own = {**fields, "task": name, "metadata": metadata}
        if path is not None and (version := lm_eval_version_of(path)) is not None:
            own.setdefault("lm_eval_version", version)
        config = build_task_config(own, origins)
        if not place.overrides and name in self._names_at(path).entries:
            self._built[name, path] = (config, origins)
        return self._register(config, place, path, origins)

    def _register(self, config: TaskConfig, place: _Place, path: Path | None, origins: Mapping[str, Origin]) -> str:
        written = config
        named, at, own = config.task.rpartition("@")
        chosen = [part[1:] for part in place.variant if part.startswith("@")] or ([own] if at and named else [])
        if chosen:
            config = config.override(formats=select_format(config, chosen[-1]))
        if variant := tuple(part for part in place.variant if not part.startswith("@")):
            config = apply_variant(config, variant)
        if place.variant:
            config = config.override(task=with_variant(config.task, place.variant))
            told = {name for name in type(config).model_fields if getattr(config, name) != getattr(written, name)}
            origins = {field: origin for field, origin in origins.items() if field not in told - {"task"}}
        return self.result.add_task(config, place.parent, path, origins)

    def _group(self, name: str, loaded: LoadedFile, path: Path | None, place: _Place) -> str:
        own, inherited = split_group(loaded.data, loaded.origins)
        if path is not None and lm_eval_version_of(path) == "0.5":
            inherited = _without_direct(inherited, loaded, path)
        # An override may also replace a field of the group itself, such as its alias.
        pushed = {key: value for key, value in place.overrides.items() if key not in _GROUP_ONLY}
        own.update({key: value for key, value in place.overrides.items() if key in _GROUP_ONLY})
        key = with_variant(name, place.variant)
        inner = _Place(
            groups=(*place.groups, name),
            overrides={**inherited, **pushed},
            origins={**{k: loaded.origins[k] for k in inherited if k in loaded.origins}, **place.origins},
            variant=place.variant,
            path=path,
        )
        config = written_group(build_group_config({**own, "group": key}, loaded.origins), place.variant)
        config = _weighed_in(config, place.variant)
        if self.metadata:
            config = config.model_copy(update={"metadata": {**(config.metadata or {}), **self.metadata}})
        children: dict[str, None] = {}
        conditions: dict[str, str] = {}
        for member in config.task:
            keys, condition = self._member(member, inner, loaded.origins.get("task"))
            children.update(dict.fromkeys(keys))
            if condition is not None:
                conditions.update(dict.fromkeys(keys, condition))
        spec = GroupSpec(key, config, tuple(children), conditions)
        return self.result.add_group(spec, place.parent, path, loaded.origins)

    def _member(
        self, member: str | dict[str, Any], place: _Place, origin: Origin | None
    ) -> tuple[list[str], str | None]:
        where = f"{origin}: " if origin else ""
        where += f"group {place.groups[-1]!r}: "
        names = self._names_at(place.path)
        if isinstance(member, str):
            entry, variant = names.find(member, place=where)
            self._say_what_is_replaced(entry, where)
            return self._entry(entry, _nest(place, {}, origin, variant)), None
        name, condition = _name_and_condition(member, where)
        overrides = {key: value for key, value in member.items() if key not in _MEMBER_KEYS}
        known = names.split(name)
        if known is not None and not isinstance(member.get("task"), list):
            self._say_what_is_replaced(names.entries[known[0]], where)
            return self._entry(names.entries[known[0]], _nest(place, overrides, origin, known[1])), condition
        if "group" in member:
            return [self._inline_group(name, member, place, origin)], condition
        if not _DEFINES_TASK & {*overrides, *place.overrides}:
            names.find(name, place=where)  # raises: nothing here says what the task would be
        return [self._inline_task(name, overrides, place, origin)], condition

    def _say_what_is_replaced(self, entry: Entry, where: str) -> None:
        """A file beside a group goes before a registered name: a benchmark's name must not mislead."""
        registered = self.entries.get(entry.name)
        if registered is not None and registered.file != entry.file:
            other = registered.file or f"the {registered.kind}"
            warnings.warn(f"{where}{entry.name} is {entry.file}, not {other}", ConfigWarning, stacklevel=2)

    def _inline_group(self, name: str, member: dict[str, Any], place: _Place, origin: Origin | None) -> str:
        full = f"{place.groups[-1]}::{name}"
        self._check_circle(full, place)
        fields = {key: value for key, value in member.items() if key != "if"}
        loaded = LoadedFile(fields, _all_from(origin, fields))
        if isinstance(fields.get("include"), str | list) and origin is not None:
            base = resolve_includes(fields.pop("include"), origin)
            loaded = LoadedFile({**base.data, **fields}, {**base.origins, **loaded.origins})
        return self._group(full, loaded, place.path, place)

    def _inline_task(self, name: str, overrides: dict[str, Any], place: _Place, origin: Origin | None) -> str:
        fields: dict[str, Any] = {**place.overrides, **overrides}
        origins = {**place.origins, **_all_from(origin, overrides)}
        if "include" in fields and origin is not None:
            base = resolve_includes(fields.pop("include"), origin)
            fields, origins = {**base.data, **fields}, {**base.origins, **origins}
        return self._task(f"{place.groups[-1]}::{name}", fields, origins, place, place.path)


def _name_and_condition(member: Mapping[str, Any], where: str) -> tuple[str, str | None]:
    name, condition = member.get("group", member.get("task")), member.get("if")
    if not isinstance(name, str):
        raise ConfigError(f"{where}a member has neither `task` nor `group`: {member!r}", hint="Write `- task: name`.")
    if condition is not None and not isinstance(condition, str):
        raise ConfigError(
            f"{where}`if` of {name!r} is {condition!r}, expected text", hint='Quote it: if: "model.params > 7e9".'
        )
    return name, condition


def _without_direct(inherited: Mapping[str, Any], loaded: LoadedFile, path: Path) -> dict[str, Any]:
    """What members get from a group file for lm-evaluation-harness 0.5: what comes through `include`, and nothing else."""
    include = loaded.data.get("include")
    included = include if isinstance(include, Mapping) else {}
    own = path.resolve()
    set_here = {key for key, origin in loaded.origins.items() if origin.path == own}
    direct = [key for key in inherited if key not in included and key in set_here]
    if direct:
        what = f"{path}: {', '.join(direct)} of a group apply to no member in lm-evaluation-harness 0.5"
        warnings.warn(f"{what}; `include: {{{direct[0]}: …}}` does", ConfigWarning, stacklevel=2)
    return {key: value for key, value in inherited.items() if key not in direct}


def _weighed_in(config: GroupConfig, variant: tuple[str, ...]) -> GroupConfig:
    """The group's weights, which its file gives by plain names, by the names that its members have in the variant."""
    entries = config.aggregate_metric_list
    if not variant or not any(entry.weights for entry in entries or ()):
        return config
    named = [
        entry.model_copy(
            update={"weights": {with_variant(name, variant): share for name, share in entry.weights.items()}}
        )
        if entry.weights
        else entry
        for entry in entries or ()
    ]
    return config.model_copy(update={"aggregate_metric_list": named})


def _path_of(entry: Entry) -> Path:
    assert entry.path is not None, "only what was written out on the spot has no file"
    return entry.path


def _nest(place: _Place, overrides: dict[str, Any], origin: Origin | None, variant: tuple[str, ...]) -> _Place:
    return _Place(
        groups=place.groups,
        overrides={**place.overrides, **overrides},
        origins={**place.origins, **_all_from(origin, overrides)},
        variant=(*variant, *place.variant),
        path=place.path,
        member=overrides,
    )


def _all_from(origin: Origin | None, fields: Iterable[str]) -> dict[str, Origin]:
    return {} if origin is None else dict.fromkeys(fields, origin)


def _name_in(loaded: LoadedFile, path: Path) -> tuple[str, bool]:
    """The name a file gives itself, and whether it is a group's."""
    data = loaded.data
    is_group = "group" in data and "class" not in data
    name = data.get("group") if is_group else data.get("task")
    if not isinstance(name, str) or not name:
        wanted = "`group:`" if is_group else "`task:`"
        written = "nothing" if name is None else repr(name)
        raise ConfigError(
            f"{path}: found {written} for {wanted}, expected a name",
            hint="A file without a name is a base for others to include, not a task.",
        )
    return name, is_group
