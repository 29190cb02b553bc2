"""A server's reply as a response. Every field of it is read, stored under its own name, or named below as left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.instance import Response, TokenCounts
from assay.models.generation import cut_at_stop, split_reasoning
from assay.models.openai.wire import Unusable, whole_characters

READ: Mapping[str, frozenset[str]] = {
    "reply": frozenset({"choices", "model", "usage"}),
    "choice": frozenset({"message", "finish_reason"}),
    "message": frozenset({"content", "reasoning_content", "reasoning", "thinking", "tool_calls", "refusal"}),
    "completion": frozenset(
        {"text", "finish_reason", "reasoning_content", "reasoning", "thinking", "tool_calls", "refusal"}
    ),
    "usage": frozenset({"prompt_tokens", "completion_tokens"}),
}
"""Fields that become a response, by where they stand: a completion is a choice without a message."""

LEFT_OUT: Mapping[str, Mapping[str, str]] = {
    "reply": {
        "id": "names the reply, not the answer",
        "object": "the kind of reply that was requested",
        "created": "when it was sent; the store keeps when it was answered",
        "system_fingerprint": "part of what tells one build of a model from another, stored once a run",
        "timings": "how fast it went",
    },
    "choice": {"index": "one choice is requested"},
    "message": {"role": "always the assistant's"},
    "completion": {"index": "one completion is requested"},
    "usage": {
        "total_tokens": "the sum of the two that are stored",
        "prompt_tokens_details": "what was cached is counted for the run",
        "cost": "the run counts by the prices that it was given",
    },
}
"""Fields that are not stored, and why."""

_KNOWN = {place: READ[place] | LEFT_OUT[place].keys() for place in READ}

_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_MAY_BE_ODD = frozenset({"refusal", "tool_calls", *_THOUGHTS})
_PLAIN = {place: known - _MAY_BE_ODD for place, known in _KNOWN.items()}
"""Fields of a reply in which nothing but a text was said."""


def read_response(
    reply: Mapping[str, Any],
    until: Sequence[str] = (),
    think_end: str | None = None,
    count: Callable[[Mapping[str, Any]], TokenCounts | None] = lambda reply: None,
    beginning: str = "",
) -> Response:
    """The response, with the tokens that `count` finds in the reply, and without the `beginning` of the answer that the
    server got and returns. A text that the server's content filter withheld is a failed request."""
    choice = reply["choices"][0]
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        return Response(None, failure="the server's content filter withheld the answer", tokens=count(reply))
    content, thoughts, parts = read_content(choice)
    if not content.startswith(beginning):
        raise Unusable("it does not begin as the answer was begun (gen_prefix), as this server's other replies do")
    content = content.removeprefix(beginning)
    reasoning, text = split_reasoning(whole_characters(content), think_end, cut_off=reason == "length")
    text, was_cut = cut_at_stop(text, until)
    stop_reason = "stop" if was_cut or not reason else str(reason)
    model = str(reply["model"]) if reply.get("model") else None
    if not thoughts and not parts and _is_plain(reply):
        return Response(text, stop_reason, None, count(reply), reasoning, (), model)
    message = choice["message"] if _is_chat(choice) else choice  # completions have the same fields beside the text
    thoughts = next((message[name] for name in _THOUGHTS if _is_text(message.get(name))), thoughts)
    calls, refusal = message.get("tool_calls"), message.get("refusal")
    more = unread(reply, message, thoughts)
    return Response(
        text,
        stop_reason,
        reasoning=whole_characters(thoughts) if thoughts else reasoning,
        tool_calls=tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list | tuple) else (),
        model=model,
        refusal=whole_characters(refusal) if isinstance(refusal, str) and refusal else None,
        reasoning_tokens=_reasoning_tokens(reply),
        more=_whole({**parts, **more}) if parts or more else more,
        tokens=count(reply),
    )


def _is_plain(reply: Mapping[str, Any]) -> bool:
    """Whether a text is all that it says, which most replies do: one look at the names in each place tells."""
    choices, usage = reply["choices"], reply.get("usage")
    if len(choices) != 1 or not reply.keys() <= _PLAIN["reply"]:
        return False
    if usage is not None and not (isinstance(usage, dict) and usage.keys() <= _PLAIN["usage"]):
        return False
    choice = choices[0]
    if not _is_chat(choice):
        return bool(choice.keys() <= _PLAIN["completion"])
    return bool(choice.keys() <= _PLAIN["choice"] and choice["message"].keys() <= _PLAIN["message"])


def read_content(choice: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The text of an answer, thoughts among its parts, and the parts that are neither.

    All tokens may have gone into thinking or a tool call: then it is an empty answer, not a broken one.
    """
    content = choice["message"].get("content") if _is_chat(choice) else choice.get("text")
    if content is None and _is_chat(choice):
        return "", "", {}
    if isinstance(content, str):
        return content, "", {}
    if not isinstance(content, list):
        raise Unusable("its message has no text")
    texts: list[str] = []
    thoughts: list[str] = []
    other: list[Any] = []
    for part in content:
        kind = part.get("type", "text") if isinstance(part, Mapping) else None
        said = part.get("text", part.get(str(kind))) if isinstance(part, Mapping) else None
        if kind in ("text", "output_text") and isinstance(said, str):
            texts.append(said)
        elif kind in ("thinking", "reasoning") and isinstance(said, str):
            thoughts.append(said)
        else:
            other.append(part)
    return "".join(texts), "\n".join(thoughts), {"parts": other} if other else {}


def unread(reply: Mapping[str, Any], message: Mapping[str, Any], thoughts: str = "") -> dict[str, Any]:
    """What no field of a response stands for, by where it stood; fields without a value say nothing.

    >>> unread({"choices": [{"message": {}, "score": 3}], "id": "x", "citations": ["a"]}, {"audio": 7})
    {'reply': {'citations': ['a']}, 'choice': {'score': 3}, 'message': {'audio': 7}}
    """
    choice, *others = reply["choices"]
    if _is_chat(choice):
        beside, own = _rest("choice", choice), _rest("message", message)
    else:
        beside, own = {}, _rest("completion", message)
    own |= _odd_values(message, thoughts)
    usage = _without_counts(_rest("usage", reply.get("usage")))
    found = {"reply": _rest("reply", reply), "choice": beside, "message": own, "usage": usage, "choices": others}
    return {place: rest for place, rest in found.items() if rest}


def _without_counts(usage: dict[str, Any]) -> dict[str, Any]:
    """Without the tokens of reasoning, which a response has, and details that count nothing."""
    if not usage:
        return usage
    details = usage.get("completion_tokens_details")
    if isinstance(details, Mapping):
        rest = {name: value for name, value in details.items() if value and name != "reasoning_tokens"}
        usage = {**usage, "completion_tokens_details": rest}
    return {name: value for name, value in usage.items() if not _is_nothing(value)}


def _rest(place: str, fields: Any) -> dict[str, Any]:
    if not isinstance(fields, dict):
        return {} if fields is None else {"value": fields}
    known = _KNOWN[place]
    if fields.keys() <= known:
        return {}
    return {str(name): value for name, value in fields.items() if name not in known and not _is_nothing(value)}


def _odd_values(message: Mapping[str, Any], thoughts: str) -> dict[str, Any]:
    """Fields that are read, with a value of another kind than is read, or with other thoughts than those that were."""
    if message.keys().isdisjoint(_MAY_BE_ODD):
        return {}
    calls = message.get("tool_calls")
    odd = {name: message[name] for name in ("refusal", *_THOUGHTS) if not isinstance(message.get(name) or "", str)}
    odd |= {name: message[name] for name in _THOUGHTS if _is_text(message.get(name)) and message[name] != thoughts}
    if calls and not (isinstance(calls, list) and all(isinstance(call, dict) for call in calls)):
        odd["tool_calls"] = calls
    return odd


def _is_chat(choice: Mapping[str, Any]) -> bool:
    return isinstance(choice.get("message"), dict)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | tuple | dict) and not value)


def _reasoning_tokens(reply: Mapping[str, Any]) -> int | None:
    used = reply.get("usage")
    details = used.get("completion_tokens_details") if isinstance(used, dict) else None
    counted = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return counted if isinstance(counted, int) and counted > 0 else None


def _whole(more: dict[str, Any]) -> dict[str, Any]:
    """Half characters made whole: the store and the samples hold text."""
    if not more:
        return more
    whole: dict[str, Any] = json.loads(whole_characters(json.dumps(more, ensure_ascii=False, default=str)))
    return whole
