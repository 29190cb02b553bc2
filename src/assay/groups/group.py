"""`Group` and `TagGroup`: the tree of tasks. A group knows its children and its parents, and hands aggregation on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from assay.config import AggMetricConfig, GroupConfig, build_group_config, split_group
from assay.errors import ConfigError, WrongKind
from assay.groups.members import Scores
from assay.groups.score import sample_len, score_group, scores_in
from assay.groups.walks import bottom_up, depth_first, path_between, steps_to
from assay.registry import load_object
from assay.results import GroupResult, GroupScore, MetricKey, Score, group_entry, read_numbers, write_key

if TYPE_CHECKING:
    from assay.tasks import Task

    Leaf: TypeAlias = Task
else:
    Leaf: TypeAlias = Any
    """A task, or anything with a `task_name`."""

TaskT = TypeVar("TaskT")


class Children(list[Any]):
    """The children of a group as a list that stays true: what is appended to it joins the group."""

    def __init__(self, group: Group[Any]) -> None:
        super().__init__(group._children.values())
        self._group = group

    def append(self, item: Any) -> None:
        Group.add(self._group, item)
        self[:] = self._group._children.values()

    def extend(self, items: Iterable[Any]) -> None:
        for item in items:
            self.append(item)

    def remove(self, item: Any) -> None:
        self._group.pop(node_name(item))
        super().remove(item)


@dataclass(init=False, repr=False, eq=False)
class Group(Generic[TaskT]):
    """A collection of tasks and groups, with the numbers it aggregates from them.

    A task or group may be a child of many groups. A leaf that is reached twice is one leaf: it is listed once, run
    once and counted once.

    >>> group = Group("mmlu", alias="MMLU", aggregate_metric_list=["acc"])
    >>> group.add(Group("mmlu_stem"))
    >>> group.child_names, group.is_leaf(), len(group)
    (['mmlu_stem'], False, 1)
    """

    name: str
    alias: str | None = None
    aggregate_metric_list: list[AggMetricConfig] | None = None
    metadata: dict[str, Any] | None = None
    _children: dict[str, Group[Any] | Leaf] = field(default_factory=dict)
    _config: GroupConfig | None = None

    def __init__(
        self,
        name: str | GroupConfig,
        alias: str | Group[Any] | None = None,
        aggregate_metric_list: Sequence[AggMetricConfig | Mapping[str, Any] | str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        _children: Mapping[str, Group[Any] | Leaf] | None = None,
        _config: GroupConfig | None = None,
        *,
        parent: Group[Any] | None = None,
    ) -> None:
        """By name and what the group has, or by a config and maybe the group that it is to join."""
        if isinstance(alias, Group):
            alias, parent = None, alias
        config = name if isinstance(name, GroupConfig) else _made_config(name, alias, aggregate_metric_list, metadata)
        if isinstance(name, str) and _config is not None:  # what is said here goes before what the config says
            config = _config.model_copy(update={field: getattr(config, field) for field in config.model_fields_set})
        self.config = self._config = config
        self.name = config.group
        self.alias = config.group_alias
        self.aggregate_metric_list = config.aggregate_metric_list
        self.metadata = dict(config.metadata) if config.metadata else None
        self.parents: list[Group[Any]] = []
        self._own_aggregator: Any = None
        self._children = {}
        for child in (_children or {}).values():
            self.add(child)
        if parent is not None:
            parent.add(self)

    # Children

    def add(self, item: Group[Any] | Leaf) -> None:
        """Add a task or a subgroup and link it back. The same object twice is one child; a namesake is an error."""
        name = node_name(item)
        present = self._children.get(name)
        if present is not None and present is not item:
            raise ConfigError(
                f"group {self.name!r} already has another child named {name!r}", hint="Rename one of them."
            )
        if present is None:
            self._accept(item)
            self._children[name] = item
            self._link(item)

    def add_child(self, child: Group[Any] | Leaf) -> None:
        self.add(child)

    def pop(self, name: str) -> Group[Any] | Leaf | None:
        """Take a child out, and this group out of its parents."""
        item = self._children.pop(name, None)
        holders: list[Any] = item.parents if isinstance(item, Group) else getattr(item, "groups", [])
        holders[:] = [group for group in holders if group is not self]
        return item

    def get(self, name: str) -> Group[Any] | Leaf | None:
        return self._children.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._children

    def __iter__(self) -> Iterator[Group[Any] | Leaf]:
        return iter(list(self._children.values()))

    def __len__(self) -> int:
        return len(self._children)

    def __bool__(self) -> bool:
        # An empty group is still a group: `if group:` must not ask how many children it has.
        return True

    @property
    def children(self) -> list[Group[Any] | Leaf]:
        return Children(self)

    @property
    def child_names(self) -> list[str]:
        return list(self._children)

    def _accept(self, item: Group[Any] | Leaf) -> None:
        """Refuse a child that does not belong here; a subclass may refuse more."""
        if isinstance(item, Group) and (loop := item.path_to(self)):
            names = " → ".join([self.name, *(group.name for group in loop)])
            raise ConfigError(f"groups contain each other: {names}", hint="Remove one of them from the other's list.")

    def _link(self, item: Group[Any] | Leaf) -> None:
        if isinstance(item, Group):
            item.parents.append(self)
        elif hasattr(item, "add_to_group") and not any(group is self for group in item.groups):
            item.add_to_group(self)

    # Position

    @property
    def parent(self) -> Group[Any] | None:
        """The first of `parents`: the only one in a tree without overlap."""
        return self.parents[0] if self.parents else None

    @parent.setter
    def parent(self, group: Group[Any] | None) -> None:
        """Join a group; None leaves all of them."""
        if group is None:
            for above in list(self.parents):
                above.pop(self.name)
        else:
            group.add(self)

    def depth(self) -> int:
        """Steps to the nearest root: 0 for a group without parents."""
        return 1 + min(parent.depth() for parent in self.parents) if self.parents else 0

    def is_leaf(self) -> bool:
        """Whether there are no subgroups below."""
        return not _subgroups(self)

    def path_to(self, target: Group[Any]) -> list[Group[Any]]:
        """The groups from here down to `target`, both included; empty if it is not below."""
        return path_between(self, target, _subgroups)

    # What is below

    def get_direct_children(self) -> list[Group[Any] | Leaf]:
        return self.children

    def get_all_tasks(self, recursive: bool = True) -> list[Leaf]:
        """All leaves in the order in which they are first met, each once."""
        return self.get_subtasks(None if recursive else 1)

    def get_subtasks(self, max_depth: int | None = None) -> list[Leaf]:
        """Leaves at most `max_depth` steps below: 1 gives the direct children, 0 nothing."""
        return list(self._leaves(max_depth).values())

    @property
    def task_names(self) -> list[str]:
        """The names of `get_all_tasks()`."""
        return list(self._leaves())

    def get_all_groups(self, recursive: bool = True) -> list[Group[Any]]:
        """All subgroups, parents before children, each once; without this group itself."""
        return list(depth_first(_subgroups(self), _subgroups)) if recursive else _subgroups(self)

    def bottom_up(self) -> list[Group[Any]]:
        """All groups below and then this one, children before parents, each once."""
        return [*bottom_up(_subgroups(self), _subgroups), self]

    def traverse(self, visitor: Callable[[Group[Any] | Leaf], None]) -> None:
        """Call `visitor` on this group and on everything below, parents first; a shared node is visited once."""
        visitor(self)
        for node in self._below():
            visitor(node)

    def _leaves(self, max_depth: int | None = None) -> dict[str, Leaf]:
        """By name. Of namesakes, which only different groups can have, the first."""
        steps = None if max_depth is None else steps_to(self._children.values(), _members)
        tasks: dict[str, Leaf] = {}
        for node in self._below():
            if not isinstance(node, Group) and (steps is None or steps[id(node)] <= (max_depth or 0)):
                tasks.setdefault(node_name(node), node)
        return tasks

    def _below(self) -> Iterator[Group[Any] | Leaf]:
        return depth_first(self._children.values(), _members)

    # Numbers

    @property
    def _aggregator(self) -> Any:
        """The class of `AggregatorFactory` that its entries ask for, over plain dictionaries; or the one that was set."""
        if self._own_aggregator is not None:
            return self._own_aggregator
        return load_object("assay.groups.aggregator_classes:AggregatorFactory").create_aggregator(self.config)  # type: ignore[attr-defined]

    @_aggregator.setter
    def _aggregator(self, aggregator: Any) -> None:
        self._own_aggregator = aggregator

    def _discover_filters_for_metric(self, metric: str, task_metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """The filters under which the tasks below have a metric, in the order in which they are met."""
        of_tasks = (read_numbers(task_metrics[name]) for name in self.task_names if name in task_metrics)
        return list(dict.fromkeys(key.filter for numbers in of_tasks for key in numbers if key.metric == metric))

    @property
    def _qualified_name(self) -> str:
        return self.name

    @property
    def version(self) -> str:
        return str((self.metadata or {}).get("version", "N/A"))

    @property
    def has_aggregation(self) -> bool:
        return bool(self.aggregate_metric_list) or self.config.scorer is not None

    def score(self, scores: Scores, entries: Sequence[AggMetricConfig] | None = None) -> dict[MetricKey, GroupScore]:
        """The group's numbers from those of its tasks, and of its subgroups where an entry runs over them.

        `entries` stand in for the group's own `aggregate_metric_list`.
        """
        return score_group(self, scores, entries)

    def result(self, scores: Mapping[MetricKey, GroupScore]) -> GroupResult:
        """The group with its numbers as results have it."""
        return GroupResult(
            self.name,
            alias=self.alias or self.name,
            scores=dict(scores),
            children=tuple(self.child_names),
            version=self.version,
            has_aggregation=self.has_aggregation,
        )

    def aggregate(
        self, task_metrics: Mapping[str, Mapping[str, Any]], *, entries: Sequence[AggMetricConfig] | None = None
    ) -> dict[str, Any]:
        """The group's entry of a results file, from the entries of its tasks.

        Reads `{task: {"acc,none": 0.5, "acc_stderr,none": 0.1, "sample_len": 10}}`. There are no replicates in it, so the
        error of anything that is not a mean is first-order: how far the number moves when each child moves by its
        standard error. `GroupManager.score_groups` does better.
        """
        own: dict[MetricKey, GroupScore] = {}
        if self.has_aggregation or entries is not None:
            scores: dict[str, Mapping[MetricKey, Score]] = {
                name: scores_in(name, metrics) for name, metrics in task_metrics.items()
            }
            for below in self.bottom_up()[:-1]:
                # Subgroups are computed even if the dictionaries hold them: those may come from other settings.
                scores[below.name] = below.score(scores)
            own = self.score(scores, entries)
        lengths = {name: sample_len(metrics) for name, metrics in task_metrics.items()}
        entry = group_entry(self.result(own), lengths, self.task_names)
        if entries is None and self._own_aggregator is not None:
            entry |= self._own_aggregator.aggregate(self, task_metrics)
        return entry

    compute_aggregate_metrics = aggregate

    def compute_metrics(
        self, task_results: Mapping[str, Mapping[str, Any]], *, entries: Sequence[AggMetricConfig] | None = None
    ) -> dict[str, Any]:
        """Only the numbers of `aggregate`: no alias, no counts, no standard errors."""
        if entries is None and self._own_aggregator is not None:
            return dict(self._own_aggregator.aggregate(self, task_results))
        numbers = read_numbers(self.aggregate(task_results, entries=entries))
        return {write_key(key): value for key, (value, _) in numbers.items()}

    # In and out

    def to_dict(self) -> dict[str, Any]:
        """The group as its YAML file would say it, without what is not set; what was set later is in it."""
        entries = self.aggregate_metric_list
        now = {
            "group_alias": self.alias,
            "aggregate_metric_list": None if entries is None else [AggMetricConfig.model_validate(e) for e in entries],
            "metadata": self.metadata,
        }
        config = self.config.model_copy(update=now)
        written = config.model_dump(exclude_unset=True, exclude_none=True)
        members = self.child_names or written.pop("task", [])
        listed = {"task": members} if members else {}
        return {"group": self.name, **listed, **{k: v for k, v in written.items() if k not in ("group", "task")}}

    @classmethod
    def from_config(cls, config: GroupConfig | Mapping[str, Any]) -> Group[Any]:
        """The group without its children: those are added once they are built. A key that no group has is refused."""
        if isinstance(config, GroupConfig):
            return cls(config)
        split_group(config)
        return cls(build_group_config(config))

    def __eq__(self, other: object) -> bool:
        """By what it says and what is in it: tasks by identity, groups in their turn."""
        if not isinstance(other, Group):
            return NotImplemented
        return self is other or (self.to_dict(), self._children) == (other.to_dict(), other._children)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        kind, names = type(self).__name__, self.child_names
        return f"{kind}(name={self.name!r}, len_children={len(names)}, children={names}, version={self.version})"


StandardGroup = Group


class TagGroup(Group[Any]):
    """The tasks with one tag. Flat: a tag contains tasks, never groups."""

    def __init__(self, tag_name: str, description: str | None = None) -> None:
        super().__init__(GroupConfig(group=tag_name, group_alias=description or tag_name, metadata={"type": "tag"}))

    def _accept(self, item: Group[Any] | Leaf) -> None:
        if isinstance(item, Group):
            raise WrongKind(
                f"tag {self.name!r} cannot hold the group {item.name!r}, because tags are flat",
                hint="Make it a group, or tag the tasks themselves.",
            )

    def _link(self, item: Group[Any] | Leaf) -> None:
        # A task lists its tags by name; a task-like object without a list is simply not told.
        tags = getattr(item, "tags", None)
        if isinstance(tags, list) and self.name not in tags:
            tags.append(self.name)


def node_name(node: Group[Any] | Leaf) -> str:
    """The name under which a node is known in its groups and in results."""
    if isinstance(node, Group):
        return node.name
    name = getattr(node, "task_name", None) or getattr(node, "_qualified_name", None)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{node!r} is neither a group nor a task", hint="A member of a group has a task_name.")
    return name


def _members(node: Group[Any] | Leaf) -> Iterable[Group[Any] | Leaf]:
    return node._children.values() if isinstance(node, Group) else ()


def _subgroups(group: Group[Any]) -> list[Group[Any]]:
    return [child for child in group._children.values() if isinstance(child, Group)]


def _made_config(
    name: str,
    alias: str | None,
    aggregate_metric_list: Sequence[AggMetricConfig | Mapping[str, Any] | str] | None,
    metadata: Mapping[str, Any] | None,
) -> GroupConfig:
    given: dict[str, Any] = {"group_alias": alias, "metadata": dict(metadata) if metadata else None}
    if aggregate_metric_list is not None:
        given["aggregate_metric_list"] = [
            entry if isinstance(entry, AggMetricConfig) else AggMetricConfig.model_validate(entry)
            for entry in aggregate_metric_list
        ]
    return GroupConfig(group=name, **{key: value for key, value in given.items() if value is not None})
