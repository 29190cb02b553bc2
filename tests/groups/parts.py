"""Pieces that the tests of groups share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from assay.groups import Group, GroupManager
from assay.results import GroupScore, MetricKey, RunResult, Score, TaskResult
from assay.stats import bootstrap_replicates, mean_estimate

ACC = MetricKey("acc", "none")


@dataclass(eq=False)
class Leaf:
    """The least a group needs of a task."""

    task_name: str
    groups: list[Any] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)

    def add_to_group(self, group: Any) -> None:
        if group not in self.groups:
            self.groups.append(group)
            group.add(self)


def mean_score(values: Any, keys: Any = None, *, replicates: int = 200, counts: Any = None, **kwargs: Any) -> Score:
    """A score as a run makes it: values of docs, their keys, lazily drawn replicates."""
    x = np.asarray(values, dtype=np.float64)
    k = np.arange(len(x), dtype=np.uint64) if keys is None else np.asarray(keys, dtype=np.uint64)
    table = np.column_stack([x, np.ones(len(x))])

    def draw() -> Any:
        return bootstrap_replicates(table, lambda sums: sums[..., 0] / sums[..., 1], k, B=replicates)

    return Score(
        mean_estimate(x),
        len(x),
        replicates=draw,
        counts=None if counts is None else lambda: counts,
        samples=lambda: (x, k),
        **kwargs,
    )


def fresh_keys(rng: np.random.Generator, n: int) -> Any:
    return rng.integers(0, 2**63, n, dtype=np.uint64)


def manager_of(configs: dict[str, Any], tasks: list[str], **kwargs: Any) -> GroupManager:
    """A manager over named leaves and group files given as mappings."""
    manager = GroupManager()
    for name in tasks:
        manager.register_task(Leaf(name))
    manager.build_hierarchy({name: {"group": name, **body} for name, body in configs.items()}, **kwargs)
    return manager


def result_of(manager: GroupManager, **tasks: dict[str, Any]) -> RunResult:
    """What a run over these groups would keep, without numbers. `tasks` gives facts about tasks by name."""
    return RunResult(
        {name: TaskResult(name, name, {}, **tasks.get(name, {})) for name in manager.tasks},
        {name: group.result({}) for name, group in manager.groups.items()},
        roots=tuple(manager.roots or [group.name for group in manager.root_groups]),
    )


def scores_of(**values: float) -> dict[str, dict[MetricKey, Score]]:
    """A score per child, exact to 1/100, with docs of its own."""
    rng = np.random.default_rng(1)
    return {
        n: {ACC: mean_score([1] * round(v * 100) + [0] * round(100 - v * 100), fresh_keys(rng, 100))}
        for n, v in values.items()
    }


def group_score(
    scores: dict[str, dict[MetricKey, Score]], *, group: dict[str, Any] | None = None, **entry: Any
) -> GroupScore:
    manager = manager_of(
        {"g": {"task": list(scores), "aggregate_metric_list": [{"metric": "acc", **entry}], **(group or {})}},
        list(scores),
    )
    return manager.score_groups(scores)["g"][ACC]


PLAIN = {
    "a": {"acc,none": 0.5, "acc_stderr,none": 0.1, "sample_len": 10},
    "b": {"acc,none": 0.8, "acc_stderr,none": 0.05, "sample_len": 30},
}


def plain_group(**entry: Any) -> Group:
    group = Group("g", aggregate_metric_list=[{"metric": "acc", **entry}])
    group.add(Leaf("a"))
    group.add(Leaf("b"))
    return group
