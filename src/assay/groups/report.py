"""What reports need of groups: rows by depth, and the parts of the results file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from assay.groups.compute import GroupScore
from assay.groups.group import Group, Leaf
from assay.groups.keys import MetricKey
from assay.groups.manager import GroupManager

T = TypeVar("T")


def tree_rows(manager: GroupManager, roots: Sequence[str] | None = None) -> list[tuple[int, Group | Leaf]]:
    """(depth, node) in the order of a table. A node in several groups has a row under each: computed once, shown often."""
    rows: list[tuple[int, Group | Leaf]] = []

    def visit(node: Group | Leaf, depth: int) -> None:
        rows.append((depth, node))
        for child in node if isinstance(node, Group) else ():
            visit(child, depth + 1)

    for name in (manager.roots or [group.name for group in manager.root_groups]) if roots is None else roots:
        node = manager.groups.get(name) or manager.tasks.get(name)
        if node is not None:
            visit(node, 0)
    return rows


def details(scores: Mapping[MetricKey, GroupScore]) -> dict[str, dict[str, Any]]:
    """For the `assay` block: each number with its interval, how it was made and of what."""
    return {str(key): _details(score) for key, score in scores.items()}


def _details(score: GroupScore) -> dict[str, Any]:
    e = score.estimate
    return {
        "value": e.value,
        "stderr": e.stderr,
        "low": e.low,
        "high": e.high,
        "n": e.n,
        "method": e.method,
        "aggregator": score.aggregator,
        "children": [{"name": c.name, "weight": c.weight, "value": c.value} for c in score.children],
        "undefined": e.undefined,
        "missing": dict(score.missing),
        "filtered_out": list(score.filtered_out),
    }


def group_subtasks(manager: GroupManager) -> dict[str, list[str]]:
    """Each group's direct children by name."""
    return {name: group.child_names for name, group in manager.groups.items()}


def n_shot(manager: GroupManager, shots: Mapping[str, int]) -> dict[str, int]:
    """The tasks' shots, and those of groups whose children agree.

    lm-evaluation-harness looks at parents before children, so a group of groups gets none. So do we: the file is
    compared with its.
    """
    known = dict(shots)
    for group in reversed(manager.bottom_up()):
        said = {known[child] for child in group.child_names if child in known}
        if len(said) == 1:
            known[group.name] = said.pop()
    return known


def higher_is_better(
    manager: GroupManager, directions: Mapping[str, Mapping[str, bool | None]]
) -> dict[str, dict[str, bool | None]]:
    """The tasks' directions by metric, and those of groups; None where children disagree. The order is that of `n_shot`."""
    known: dict[str, dict[str, bool | None]] = {name: dict(found) for name, found in directions.items()}
    for group in reversed(manager.bottom_up()):
        merged: dict[str, bool | None] = {}
        for child in group.child_names:
            for metric, direction in known.get(child, {}).items():
                merged[metric] = direction if merged.setdefault(metric, direction) == direction else None
        if merged:
            known[group.name] = merged
    return known
