"""`GroupManager`: all groups and tasks of a run, and the numbers of every group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from assay.config import GroupConfig
from assay.errors import ConfigError, did_you_mean
from assay.groups.aggregators import require_one_to_count
from assay.groups.conditions import holds, names_in
from assay.groups.group import Group, Leaf, TagGroup, node_name
from assay.groups.members import Scores
from assay.results import GroupResult, GroupScore, MetricKey
from assay.scoring import filters_of, right_or_wrong_metrics


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


@dataclass(frozen=True)
class ListedMember:
    """One line of a member list: a name, maybe a condition, maybe the body of a group written in place."""

    name: str
    condition: str | None = None
    inline: Mapping[str, Any] | None = None


class GroupManager:
    """All groups and tasks by name; a task in several groups is listed once."""

    def __init__(self) -> None:
        self.groups: dict[str, Group[Any]] = {}
        self.tasks: dict[str, Leaf] = {}
        self.roots: list[str] = []
        """What was requested, in order: names of groups and tasks. Empty for a hierarchy built by hand."""
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
            manager.register_group(Group(spec.config.model_copy(update={"group": spec.name})))
        for spec in loaded.groups.values():
            for child in spec.children:
                condition = spec.conditions.get(child)
                manager._attach(spec.name, ListedMember(child, condition), loaded.tasks, facts)
        manager.roots = list(loaded.roots)
        for name in loaded.roots:
            if name in loaded.tasks and name not in manager.tasks:
                manager.register_task(loaded.tasks[name])
        manager._forget_unreachable()
        for group in manager.groups.values():
            check_draws(group)
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

    def register_group(self, group: Group[Any]) -> None:
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
            if not isinstance(config, GroupConfig | Mapping):
                continue  # the config of a task, say: only groups are built here
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

    def _attach(
        self, group: str, member: ListedMember, tasks: Mapping[str, Leaf], facts: Mapping[str, Any] | None
    ) -> None:
        child = self.groups.get(member.name) or tasks.get(member.name)
        if child is None:
            raise ConfigError(
                f"group {group!r} lists {member.name!r}, which is neither a task nor a group",
                hint=did_you_mean(member.name, [*self.groups, *tasks]) or "`assay ls` lists the known names.",
            )
        if member.condition is not None and not self._belongs(group, member, facts):
            return
        self.groups[group].add(child)
        if not isinstance(child, Group) and member.name not in self.tasks:
            self.register_task(child)

    def _belongs(self, group: str, member: ListedMember, facts: Mapping[str, Any] | None) -> bool:
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
    def root_groups(self) -> list[Group[Any]]:
        """Groups that are in no other group."""
        return [group for group in self.groups.values() if not group.parents]

    @property
    def tags(self) -> dict[str, TagGroup]:
        """The tasks of this manager by tag."""
        groups: dict[str, TagGroup] = {}
        for task in self.tasks.values():
            for tag in list(getattr(task, "tags", None) or ()):
                groups.setdefault(tag, TagGroup(tag)).add(task)
        return groups

    def get_groups_for_task(self, task_name: str) -> list[Group[Any]]:
        """The groups that have this task as a direct child."""
        return [
            group
            for group in self.groups.values()
            if task_name in group and not isinstance(group.get(task_name), Group)
        ]

    def get_tasks_for_group(self, group_name: str) -> list[Leaf]:
        """All leaves below a group."""
        return self.groups[group_name].get_all_tasks() if group_name in self.groups else []

    def traverse_hierarchy(self, visitor: Callable[[Group[Any] | Leaf], None], root: Group[Any] | None = None) -> None:
        """Visit every node below the roots, or below one group, each once."""
        seen: set[int] = set()

        def once(node: Group[Any] | Leaf) -> None:
            if id(node) not in seen:
                seen.add(id(node))
                visitor(node)

        for group in [root] if root is not None else self.root_groups:
            group.traverse(once)

    def bottom_up(self) -> list[Group[Any]]:
        """All groups, children before parents."""
        ordered = {id(group): group for root in self.root_groups for group in root.bottom_up()}
        return list(ordered.values())

    def score_groups(self, scores: Scores) -> dict[str, dict[MetricKey, GroupScore]]:
        """The numbers of every group from the scores of the tasks."""
        known = dict(scores)
        numbers: dict[str, dict[MetricKey, GroupScore]] = {}
        for group in self.bottom_up():
            known[group.name] = numbers[group.name] = group.score(known)
        return numbers

    def results(self, scores: Scores) -> dict[str, GroupResult]:
        """Every group with its numbers, children before parents, as results have them."""
        return {name: self.groups[name].result(numbers) for name, numbers in self.score_groups(scores).items()}

    def compute_all_group_metrics(self, results: Mapping[str, Mapping[Any, Any]]) -> dict[str, dict[Any, Any]]:
        """Every group's numbers and nothing else, in the form the tasks' come in.

        Scores by `MetricKey` give scores by `MetricKey`; plain results dictionaries give plain dictionaries. What else a
        results file says of a group is in `group_entries`.
        """
        if any(isinstance(key, MetricKey) for numbers in results.values() for key in numbers):
            return {name: dict(numbers) for name, numbers in self.score_groups(results).items()}
        return {group.name: group.compute_metrics(results) for group in self.bottom_up()}

    def group_entries(self, results: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Every group's entry of a results file: numbers, standard errors, alias and counts."""
        return {group.name: group.aggregate(results) for group in self.bottom_up()}


def check_draws(group: Group[Any]) -> None:
    """Refuse a pass@k that could count the draws of several metrics, while nothing has been sent yet."""
    for entry in group.aggregate_metric_list or []:
        if entry.aggregation != "pass@k" or entry.over != "tasks":
            continue
        for task in [task for task in group.get_all_tasks() if hasattr(task, "config")]:
            for each in filters_of(task.config):
                if entry.filter_list is None or each.name in entry.filter_list:
                    metrics = right_or_wrong_metrics(task.config, each)
                    require_one_to_count(entry, group.name, node_name(task), metrics)


def member_of(group: str, item: str | Mapping[str, Any]) -> ListedMember:
    """Read one line of a member list.

    >>> member_of("math", {"task": "aime", "if": "model.params > 7e9"})
    ListedMember(name='aime', condition='model.params > 7e9', inline=None)
    """
    if isinstance(item, str):
        return ListedMember(item)
    body = {key: value for key, value in item.items() if key != "if"}
    condition = item.get("if")
    if isinstance(body.get("group"), str):
        if set(body) == {"group"}:
            return ListedMember(body["group"], condition)
        return ListedMember(f"{group}::{body['group']}", condition, body)
    if set(body) == {"task"} and isinstance(body["task"], str):
        return ListedMember(body["task"], condition)
    raise ConfigError(
        f"group {group!r}: cannot read the member {dict(item)!r}",
        hint="Write a name, {task: name, if: condition}, or an inline group {group: name, task: [...]}.",
    )


def refuse_cycles(children: Mapping[str, Sequence[str]]) -> None:
    """Raise if groups contain each other, with the way round; names that are no groups are leaves."""
    finished: set[str] = set()

    def walk(name: str, trail: list[str]) -> None:
        if name in finished or name not in children:
            return
        if name in trail:
            loop = [*trail[trail.index(name) :], name]
            raise ConfigError(
                f"groups contain each other: {' → '.join(loop)}", hint="Remove one of them from the other's list."
            )
        for child in children[name]:
            walk(child, [*trail, name])
        finished.add(name)

    for start in children:
        walk(start, [])
