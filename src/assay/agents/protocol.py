"""How tools are offered to a model and how its calls are read: as servers do it, or as text for those that cannot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from assay.agents.tools import Tool
from assay.instance import Message, Response
from assay.tool_calls import calls_in_text, plain_call

HOW_TO_CALL = """You can call tools. To call one, end your message with one JSON object in a fence, like this:

```json
{"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}}
```

You get the result in the next message. Tools:
"""


def described(tools: Sequence[Tool]) -> str:
    """The tools as part of a system text."""
    return HOW_TO_CALL + listed(tools)


def listed(tools: Sequence[Tool]) -> str:
    return "\n".join(
        f"- {tool.name}: {tool.description}\n  arguments (JSON Schema): {json.dumps(tool.parameters, ensure_ascii=False)}"
        for tool in tools
    )


def calls_of(
    response: Response, offers: Sequence[Mapping[str, Any]], *, as_text: bool, step: int
) -> list[dict[str, Any]]:
    """The calls of an answer, each with name, arguments and an id. Arguments that are no JSON object stay text."""
    if response.tool_calls:
        made = [(plain_call(call), call.get("id")) for call in response.tool_calls]
    elif as_text and isinstance(response.answer, str):
        made = [(call, None) for call in calls_in_text(response.answer, offers)]
    else:
        made = []
    return [{**call, "id": str(given or f"call_{step}_{place}")} for place, (call, given) in enumerate(made)]


def why_malformed(call: Mapping[str, Any]) -> str | None:
    """What the model is told of a call that cannot be made, whatever the tool."""
    if not isinstance(call["name"], str) or not call["name"]:
        return "The call has no name."
    if not isinstance(call["arguments"], Mapping):
        return f"The arguments are not a JSON object: {str(call['arguments'])[:200]}"
    return None


def answer_message(response: Response, calls: Sequence[Mapping[str, Any]], *, as_text: bool) -> Message:
    """What the model said, as it is sent back to it."""
    said = response.answer if isinstance(response.answer, str) else ""
    if as_text or not calls:
        return Message("assistant", said)
    made = [
        {"id": call["id"], "type": "function", "function": {"name": str(call["name"]), "arguments": _written(call)}}
        for call in calls
    ]
    return Message("assistant", said, tool_calls=tuple(made))


def _written(call: Mapping[str, Any]) -> str:
    given = call["arguments"]
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def result_messages(calls: Sequence[Mapping[str, Any]], results: Sequence[str], *, as_text: bool) -> list[Message]:
    """What came of the calls, each as a message of its own; as text all in one."""
    if as_text:
        said = [f"Result of {call['name']}:\n{result}" for call, result in zip(calls, results)]
        return [Message("user", "\n\n".join(said))]
    return [
        Message("tool", result, tool_call_id=call["id"], more={"name": str(call["name"])})
        for call, result in zip(calls, results)
    ]
