"""What was said and called on the way to an answer, message by message; and two such ways beside each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from assay.results import messages_in, trajectory_in
from assay.view.cells import as_list
from assay.view.prompts import Turn, turn_of_message


def conversation_of(extras: Mapping[str, Any]) -> tuple[Turn, ...]:
    """Of another harness's log, or of our own trajectory, whose calls tell how long their tools took."""
    turns = list(map(turn_of_message, messages_in(extras)))
    calls = [call for call in as_list(trajectory_in(extras).get("calls")) if isinstance(call, Mapping)]
    answered = [place for place, turn in enumerate(turns) if turn.role == "tool"]
    if calls and len(calls) == len(answered):
        for place, call in zip(answered, calls):
            if isinstance(seconds := call.get("seconds"), int | float):
                turns[place] = replace(turns[place], took={"seconds": seconds})
    return tuple(turns)


@dataclass(frozen=True)
class TwoWays:
    """Two conversations on the same doc: what both begin with, and from the first difference on message beside message."""

    draw: int
    alike: tuple[Turn, ...]
    pairs: tuple[tuple[Turn | None, Turn | None], ...]


def two_ways(ours: Sequence[Sequence[Turn]], theirs: Sequence[Sequence[Turn]]) -> tuple[TwoWays, ...]:
    """Draw by draw, as far as both have conversations."""
    return tuple(align(draw, a, b) for draw, (a, b) in enumerate(zip(ours, theirs), 1) if a and b)


def align(draw: int, a: Sequence[Turn], b: Sequence[Turn]) -> TwoWays:
    """
    >>> asked, yes, no = Turn("user", "Is it?"), Turn("assistant", "Yes"), Turn("assistant", "No")
    >>> found = align(1, [asked, yes], [asked, no, asked])
    >>> len(found.alike), [(x.text if x else None, y.text if y else None) for x, y in found.pairs]
    (1, [('Yes', 'No'), (None, 'Is it?')])
    """
    alike = next((i for i, (x, y) in enumerate(zip(a, b)) if _said(x) != _said(y)), min(len(a), len(b)))
    return TwoWays(draw, tuple(a[:alike]), tuple(zip_longest(a[alike:], b[alike:])))


def _said(turn: Turn) -> Any:
    """A message without what differs in every run: ids of calls, and what it took."""
    return turn.role, turn.text, turn.pictures, [_called(call) for call in turn.calls]


def _called(call: Any) -> Any:
    """Name and arguments, which are JSON text in some logs and values in others."""
    inner = call.get("function") if isinstance(call, Mapping) else None
    found = inner if isinstance(inner, Mapping) else call
    if not isinstance(found, Mapping):
        return found
    arguments = found.get("arguments")
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return found.get("name"), arguments
