"""Scores that must not be used, and the numbers of groups that are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Withheld = dict[tuple[str, str], str]
"""By name and `metric,filter`: why."""


def withheld_in(block: Mapping[str, Any]) -> Withheld:
    """All withheld numbers of an `assay` block, whether an older Assay wrote it or this one.

    A task is withheld as a whole. A group's number is withheld when one of the scores it is made of is: the shares a
    run allows are per task, so nobody has said that a little of a bad score is harmless.
    """
    estimates: Mapping[str, Mapping[str, Any]] = block["estimates"]
    reasons = {name: health["withheld"] for name, health in block["health"].items() if health.get("withheld")}
    found = {(name, key): reason for name, reason in reasons.items() for key in estimates.get(name, {})}
    # From the leaves up: in the order of the tree, all that is below a group comes after it.
    for name in dict.fromkeys(node["name"] for node in reversed(block["tree"]) if reasons):
        for key, entry in estimates.get(name, {}).items():
            members = _members(entry, name, block["tree"]) if "aggregator" in entry else []
            spoiled = [m for m in members if m in reasons or (m, key) in found]
            if spoiled:
                found[name, key] = f"made of withheld scores: {_some(spoiled)}"
    return found


def _members(entry: Mapping[str, Any], name: str, tree: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a number is made of; a group's own scorer need not say, so then all that is below the group."""
    if entry["children"]:
        return [child["name"] for child in entry["children"]]
    below: list[str] = []
    inside: int | None = None
    for node in tree:
        if inside is not None and node["depth"] > inside:
            below.append(node["name"])
        else:
            inside = node["depth"] if node["name"] == name else None
    return list(dict.fromkeys(below))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
