"""`GroupManager`: all groups and tasks of a run, and the numbers of every group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from assay.config import GroupConfig
from assay.errors import ConfigError
from assay.groups.build import Member, member_of, refuse_cycles
from assay.groups.compute import GroupScore, score_group
from assay.groups.conditions import holds, names_in
from assay.groups.group import Group, Leaf, node_name, unknown_member
from assay.groups.keys import MetricKey
from assay.groups.plain import aggregate_plain, results_entry, sample_lengths
from assay.groups.tags import TagGroup
from assay.stats import Score


class _GroupSpec(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def config(self) -> GroupConfig: ...
    @property
    def children(self) -> Sequence[str]: ...
    @property
    def conditions(self) -> Mapping[str, str]: ...


class _Loaded(Protocol):
    @property
    def tasks(self) -> Mapping[str, Leaf]: ...
    @property
    def groups(self) -> Mapping[str, _GroupSpec]: ...
    @property
    def roots(self) -> Sequence[str]: ...


class GroupManager:
    """Knows each group and each task by name; a task that sits in several groups is here once."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.tasks: dict[str, Leaf] = {}
        self.roots: list[str] = []
        """What was asked for, in order: names of groups and tasks. Empty for a hierarchy built by hand."""
        self.excluded: dict[tuple[str, str], str] = {}
        """(group, member) → the condition that kept the member out."""

    @classmethod
    def from_loaded(cls, loaded: _Loaded, facts: Mapping[str, Any] | None = None) -> GroupManager:
        """Build the groups of what a task manager loaded.

        `facts` is what conditions may ask about: `{"model": {"name": …, "params": …}}`. Without facts (listing,
        planning before a model is there) every member is in.
        """
        manager = cls()
        refuse_cycles({name: spec.children for name, spec in loaded.groups.items()})
        for spec in loaded.groups.values():
            if not spec.children:
                raise ConfigError(f"group {spec.name!r} has no members", hint="List at least one task under `task:`.")
            manager.register_group(Group(spec.config if spec.config.group == spec.name else spec.config.model_copy(update={"group": spec.name})))  # fmt: skip
        for spec in loaded.groups.values():
            for child in spec.children:
                condition = spec.conditions.get(child)
                manager._attach(spec.name, Member(child, condition), loaded.tasks, facts)
        manager.roots = list(loaded.roots)
        for name in loaded.roots:
            if name in loaded.tasks and name not in manager.tasks:
                manager.register_task(loaded.tasks[name])
        manager._forget_unreachable()
        return manager

    def _forget_unreachable(self) -> None:
        """Drop what only excluded members led to: it is neither run nor reported."""
        reached: set[str] = set(self.roots)
        for name in self.roots:
            if name in self.groups:
                self.groups[name].traverse(lambda node: reached.add(node_name(node)))
        for name in [name for name in self.groups if name not in reached]:
            group = self.groups.pop(name)
            for child in group.child_names:
                group.pop(child)
        self.tasks = {name: task for name, task in self.tasks.items() if name in reached}

    def register_group(self, group: Group) -> None:
        if self.groups.get(group.name, group) is not group:
            raise ConfigError(f"there are two groups named {group.name!r}", hint="Rename one of them.")
        if group.name in self.tasks:
            raise ConfigError(f"{group.name!r} names a group and a task", hint="Rename one of them.")
        self.groups[group.name] = group

    def register_task(self, task: Leaf) -> None:
        name = node_name(task)
        if self.tasks.get(name, task) is not task:
            raise ConfigError(f"there are two tasks named {name!r}", hint="Rename one of them, or use a variant.")
        if name in self.groups:
            raise ConfigError(f"{name!r} names a group and a task", hint="Rename one of them.")
        self.tasks[name] = task

    def build_hierarchy(
        self, configs: Mapping[str, GroupConfig | Mapping[str, Any]], facts: Mapping[str, Any] | None = None
    ) -> None:
        """Make the groups of these configs and link them to each other and to the registered tasks.

        Inline groups are made on the way and are named `parent::name`.
        """
        pending: list[tuple[str, Sequence[str | Mapping[str, Any]]]] = []
        for config in configs.values():
            group = Group.from_config(config)
            self.register_group(group)
            pending.append((group.name, group.config.task))
        tasks = dict(self.tasks)
        members = {name: [member_of(name, item) for item in items] for name, items in pending}
        refuse_cycles({name: [member.name for member in listed] for name, listed in members.items()})
        for name, listed in members.items():
            if not listed:
                raise ConfigError(f"group {name!r} has no members", hint="List at least one task under `task:`.")
            for member in listed:
                if member.inline is not None:
                    self.build_hierarchy({member.name: {**member.inline, "group": member.name}}, facts)
                self._attach(name, member, tasks, facts)

    def _attach(self, group: str, member: Member, tasks: Mapping[str, Leaf], facts: Mapping[str, Any] | None) -> None:
        child = self.groups.get(member.name) or tasks.get(member.name)
        if child is None:
            raise unknown_member(group, member.name, [*self.groups, *tasks])
        if member.condition is not None and not self._belongs(group, member, facts):
            return
        self.groups[group].add(child)
        if not isinstance(child, Group) and member.name not in self.tasks:
            self.register_task(child)

    def _belongs(self, group: str, member: Member, facts: Mapping[str, Any] | None) -> bool:
        assert member.condition is not None
        try:
            names_in(member.condition)  # a condition that does not parse is an error even where nothing is decided
            belongs = facts is None or holds(member.condition, facts)
        except ConfigError as error:
            raise error.reworded(f"group {group!r}, member {member.name!r}: {error.message}") from error
        if not belongs:
            self.excluded[group, member.name] = member.condition
        return belongs

    @property
    def root_groups(self) -> list[Group]:
        """Groups that are in no other group."""
        return [group for group in self.groups.values() if not group.parents]

    @property
    def tags(self) -> dict[str, TagGroup]:
        """The tasks of this manager by tag."""
        found: dict[str, TagGroup] = {}
        for task in self.tasks.values():
            for tag in list(getattr(task, "tags", None) or ()):
                found.setdefault(tag, TagGroup(tag)).add(task)
        return found

    def get_groups_for_task(self, task_name: str) -> list[Group]:
        """The groups that have this task as a direct child."""
        return [
            group
            for group in self.groups.values()
            if task_name in group and not isinstance(group.get(task_name), Group)
        ]

    def get_tasks_for_group(self, group_name: str) -> list[Leaf]:
        """All leaves below a group."""
        return self.groups[group_name].get_all_tasks() if group_name in self.groups else []

    def traverse_hierarchy(self, visitor: Callable[[Group | Leaf], None], root: Group | None = None) -> None:
        """Visit every node below the roots, or below one group, each once."""
        seen: set[int] = set()

        def once(node: Group | Leaf) -> None:
            if id(node) not in seen:
                seen.add(id(node))
                visitor(node)

        for group in [root] if root is not None else self.root_groups:
            group.traverse(once)

    def bottom_up(self) -> list[Group]:
        """All groups, children before parents."""
        ordered: dict[str, Group] = {}

        def visit(group: Group) -> None:
            for child in group:
                if isinstance(child, Group) and child.name not in ordered:
                    visit(child)
            ordered[group.name] = group

        for group in self.root_groups:
            visit(group)
        return list(ordered.values())

    def score_groups(self, scores: Mapping[str, Mapping[MetricKey, Score]]) -> dict[str, dict[MetricKey, GroupScore]]:
        """The numbers of every group from the scores of the tasks."""
        known: dict[str, Mapping[MetricKey, Score]] = dict(scores)
        results: dict[str, dict[MetricKey, GroupScore]] = {}
        for group in self.bottom_up():
            results[group.name] = score_group(group, known)
            known[group.name] = results[group.name]
        return results

    def compute_all_group_metrics(self, results: Mapping[str, Mapping[Any, Any]]) -> dict[str, dict[Any, Any]]:
        """Every group's numbers, in the form the tasks' come in.

        Scores by `MetricKey` give scores by `MetricKey`; plain results dictionaries give plain dictionaries.
        """
        if any(isinstance(key, MetricKey) for found in results.values() for key in found):
            return {name: dict(found) for name, found in self.score_groups(results).items()}
        return {group.name: aggregate_plain(group, results) for group in self.bottom_up()}

    def results_entries(
        self,
        group_scores: Mapping[str, Mapping[MetricKey, GroupScore]],
        scores: Mapping[str, Mapping[MetricKey, Score]],
    ) -> dict[str, dict[str, Any]]:
        """Every group as lm-evaluation-harness writes it into `results`."""
        lengths = sample_lengths(scores)
        return {name: results_entry(self.groups[name], found, lengths) for name, found in group_scores.items()}
