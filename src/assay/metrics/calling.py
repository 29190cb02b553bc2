"""Whether a model called the right tools with the right arguments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from assay.errors import ScoringError
from assay.metrics.base import METRICS, Metric


def tool_call_match(
    *, predictions: Sequence[Any], references: Sequence[Any], ordered: bool = False, **_: Any
) -> dict[str, float]:
    """1 where the calls are those of a reference: same names, arguments equal as JSON; their order counts if `ordered`.

    >>> said = '[{"name": "add", "arguments": {"b": 2, "a": 1.0}}]'
    >>> tool_call_match(predictions=[said], references=['[{"name": "add", "arguments": {"a": 1, "b": 2}}]'])
    {'tool_call_match': 1.0}
    """
    said = read_calls(predictions[0])
    return {"tool_call_match": float(any(is_same(said, read_calls(each), ordered) for each in references))}


def read_calls(given: Any) -> list[dict[str, Any]]:
    calls = given
    if isinstance(given, str):
        try:
            calls = json.loads(given)
        except (ValueError, RecursionError):
            raise ScoringError(
                f"tool_call_match compares calls, and was given {given[:80]!r}",
                hint='Targets are JSON: [{"name": …, "arguments": {…}}]; answers go through the filter tool_calls.',
            ) from None
    listed = calls if isinstance(calls, list) else [calls]
    if not all(isinstance(call, Mapping) and "name" in call for call in listed):
        raise ScoringError(f"a call has a name and arguments, and was given {json.dumps(listed)[:120]}")
    return [{"name": call["name"], "arguments": call.get("arguments") or {}} for call in listed]


def is_same(said: list[dict[str, Any]], wanted: list[dict[str, Any]], ordered: bool) -> bool:
    """Python's equality is JSON's, but for true and 1, which are two values there."""
    left = [_exact(call) for call in wanted]
    if ordered:
        return [_exact(call) for call in said] == left
    for call in map(_exact, said):
        if call not in left:
            return False
        left.remove(call)
    return not left


def _exact(value: Any) -> Any:
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    return [_exact(each) for each in value] if isinstance(value, list) else value


METRICS.add("tool_call_match", Metric("tool_call_match", tool_call_match, binary=True))
