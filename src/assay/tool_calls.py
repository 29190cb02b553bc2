"""Calls of tools, in the forms that servers, task files and models write them in."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

_BRACE = re.compile(r"[{\[]")
_FUNCTION_TAG = re.compile(r"<function=([\w.-]{1,64})>\s*(\{.*?\})\s*</function>", re.DOTALL)
_UNREADABLE = re.compile("[\0\ud800-\udfff]")
_MOST_PLACES = 200
_MOST_TEXT = 100_000
_MOST_LINE = 4_000
"""What is looked at of an answer: calls are short, and an answer may be anything."""


def plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Name and arguments.

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


def readable(text: str) -> str:
    """Text that every server and file takes: without NULs and halves of characters.

    >>> readable("a\\0b\\ud800")
    'a�b�'
    """
    return _UNREADABLE.sub("\ufffd", text)


def calls_in_text(text: str, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Calls of these tools that a model wrote into its answer: JSON (alone, fenced or in a tag such as `<tool_call>`), or
    a call as Python writes it, on a line of its own. What names no tool that was offered is no call.

    >>> tools = [{"type": "function", "function": {"name": "add", "parameters": {"properties": {"a": {}, "b": {}}}}}]
    >>> calls_in_text('<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>', tools)
    [{'name': 'add', 'arguments': {'a': 1}}]
    >>> calls_in_text("I would say:\\nadd(1, b=2)", tools), calls_in_text('{"name": "Ada", "arguments": {}}', tools)
    ([{'name': 'add', 'arguments': {'a': 1, 'b': 2}}], [])
    """
    text = text[:_MOST_TEXT]
    parameters = {name: _parameter_names(tool) for tool in tools if (name := plain_call(tool)["name"])}
    found = [
        *((at, plain_call(call)) for at, call in _objects(text) if _is_call(call, parameters)),
        *_tagged(text, parameters),
        *_python_calls(text, parameters),
    ]
    return [call for _, call in sorted(found, key=lambda each: each[0])]


def _parameter_names(tool: Mapping[str, Any]) -> list[str]:
    inner = tool.get("function")
    schema = (inner if isinstance(inner, Mapping) else tool).get("parameters")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return list(properties) if isinstance(properties, Mapping) else []


def _is_call(value: Any, parameters: Mapping[str, list[str]]) -> bool:
    """An object with a tool's name alone is a call only of a tool that takes nothing."""
    if not isinstance(value, Mapping):
        return False
    inner = value.get("function")
    given = inner if isinstance(inner, Mapping) else value
    name = given.get("name")
    if not isinstance(name, str) or name not in parameters:
        return False
    return "arguments" in given or "parameters" in given or not parameters[name]


def _objects(text: str) -> Iterator[tuple[int, Any]]:
    """JSON objects in a text, and those in its lists, with where each begins."""
    decoder, at = json.JSONDecoder(), 0
    for _ in range(_MOST_PLACES):
        place = _BRACE.search(text, at)
        if place is None:
            return
        try:
            value, at = decoder.raw_decode(text, place.start())
        except (ValueError, RecursionError):
            at = place.start() + 1
            continue
        for each in value if isinstance(value, list) else [value]:
            yield place.start(), each


def _tagged(text: str, parameters: Mapping[str, list[str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """`<function=add>{"a": 1}</function>`."""
    for tag in _FUNCTION_TAG.finditer(text):
        if tag[1] in parameters:
            yield tag.start(), plain_call({"name": tag[1], "arguments": tag[2]})


def _python_calls(text: str, parameters: Mapping[str, list[str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    """`add(1, b=2)`, or several in a list, with values as they stand."""
    at = 0
    for line in text.splitlines(keepends=True):
        said = line.strip().strip("`").strip()
        if any(f"{name}(" in said for name in parameters) and len(said) <= _MOST_LINE:
            with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                body = ast.parse(said, mode="eval").body
                for call in body.elts if isinstance(body, ast.List) else [body]:
                    if isinstance(call, ast.Call) and ast.unparse(call.func) in parameters:
                        yield at, _python_call(call, parameters[ast.unparse(call.func)])
        at += len(line)


def _python_call(call: ast.Call, names: Sequence[str]) -> dict[str, Any]:
    given = dict(zip(names, map(ast.literal_eval, call.args)))
    given |= {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg}
    return {"name": ast.unparse(call.func), "arguments": given}
