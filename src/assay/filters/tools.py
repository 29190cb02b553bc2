"""The calls that a model asked for, as text that metrics can compare."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from assay.filters.base import FILTERS, Filter
from assay.instance import Doc, Response


def plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Name and arguments, from the forms that servers and task files write them in.

    >>> plain_call({"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}})
    {'name': 'add', 'arguments': {'a': 1}}
    >>> plain_call({"name": "now"}), plain_call({"name": "add", "arguments": "{not JSON"})
    ({'name': 'now', 'arguments': {}}, {'name': 'add', 'arguments': '{not JSON'})
    """
    inner = call.get("function")
    given = inner if isinstance(inner, Mapping) else call
    arguments = given.get("arguments", given.get("parameters"))
    if isinstance(arguments, str):
        with suppress(ValueError):  # what is no JSON stays text, which is the arguments of no call
            arguments = json.loads(arguments) if arguments.strip() else {}
    return {"name": given.get("name"), "arguments": {} if arguments is None else arguments}


@FILTERS.register("tool_calls")
class ToolCalls(Filter):
    """Each response's calls as JSON, `[{"name": …, "arguments": {…}}, …]`; `[]` where it called nothing."""

    takes_responses = True

    def apply(self, resps: Iterable[Any], docs: Sequence[Doc]) -> list[list[str]]:
        return [[self._calls(each) for each in entry] for entry in resps]

    def _calls(self, response: Any) -> str:
        calls = response.tool_calls if isinstance(response, Response) else ()
        return json.dumps([plain_call(call) for call in calls], ensure_ascii=False)
