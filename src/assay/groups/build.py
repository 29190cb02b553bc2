"""Reading the member list of a group: names, mappings with a condition, inline groups; and cycles among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import ConfigError


@dataclass(frozen=True)
class Member:
    """One line of a member list: a name, maybe a condition, maybe the body of a group written in place."""

    name: str
    condition: str | None = None
    inline: Mapping[str, Any] | None = None


def member_of(group: str, item: str | Mapping[str, Any]) -> Member:
    """Read one line.

    >>> member_of("math", {"task": "aime", "if": "model.params > 7e9"})
    Member(name='aime', condition='model.params > 7e9', inline=None)
    """
    if isinstance(item, str):
        return Member(item)
    body = {key: value for key, value in item.items() if key != "if"}
    condition = item.get("if")
    if isinstance(body.get("group"), str):
        if set(body) == {"group"}:
            return Member(body["group"], condition)
        return Member(f"{group}::{body['group']}", condition, body)
    if set(body) == {"task"} and isinstance(body["task"], str):
        return Member(body["task"], condition)
    raise ConfigError(
        f"group {group!r}: cannot read the member {dict(item)!r}",
        hint="Write a name, {task: name, if: condition}, or an inline group {group: name, task: [...]}.",
    )


def refuse_cycles(children: Mapping[str, Sequence[str]]) -> None:
    """Raise if groups contain each other, with the way round; names that are no groups are leaves."""
    finished: set[str] = set()
    for start in children:
        trail: list[str] = []
        _walk(start, children, trail, finished)


def _walk(name: str, children: Mapping[str, Sequence[str]], trail: list[str], finished: set[str]) -> None:
    if name in finished or name not in children:
        return
    if name in trail:
        loop = [*trail[trail.index(name) :], name]
        raise ConfigError(
            f"groups contain each other: {' → '.join(loop)}", hint="Take one of them out of the list of the other."
        )
    trail.append(name)
    for child in children[name]:
        _walk(child, children, trail, finished)
    trail.pop()
    finished.add(name)
