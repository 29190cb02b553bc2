"""`key=value` words as people type them on a command line."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from assay.errors import ConfigError


def parse_value(text: str) -> Any:
    """A boolean, a number, a Python literal, or the text itself.

    >>> [parse_value(t) for t in ("true", "8", "1e-3", "[1, 2]", "auto")]
    [True, 8, 0.001, [1, 2], 'auto']
    """
    lowered = text.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def parse_words(text: str, *, flag: str = "argument") -> dict[str, Any]:
    """`a=1,b=x`, `a=1 b=x`, or one JSON object. Commas inside brackets and quotes do not split.

    A quote is one only at the start of a value or inside brackets: `pretrained=/m/john's` has an apostrophe.

    >>> parse_words('pretrained=gpt2,dtype=float32,chat_template_args={"x": [1, 2]}')
    {'pretrained': 'gpt2', 'dtype': 'float32', 'chat_template_args': {'x': [1, 2]}}
    >>> parse_words('until=["a,b"] do_sample=true')
    {'until': ['a,b'], 'do_sample': True}
    >>> parse_words("pretrained=/m/john's,stop='a,b'")
    {'pretrained': "/m/john's", 'stop': 'a,b'}
    """
    text = text.strip()
    if not text:
        return {}
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ConfigError(f"{flag}: {text!r} is not valid JSON: {error}", hint="Check quotes and commas, or write key=value,key=value.") from error  # fmt: skip
        if not isinstance(found, dict):
            raise ConfigError(f"{flag}: expected a JSON object, got {text!r}")
        return found
    parsed: dict[str, Any] = {}
    for part in _split(text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{flag}: {part!r} is not key=value", hint="Write key=value,key=value or a JSON object.")
        parsed[key.strip()] = parse_value(value)
    return parsed


def _split(text: str) -> list[str]:
    """Pieces at commas, or at spaces before a `key=`, outside brackets and quotes."""
    pieces, current, depth, quote = [], "", 0, ""
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (depth or re.fullmatch(r"[^=]+=\s*", current)):
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth = max(0, depth - 1)
        ends = not quote and depth == 0
        if ends and (char == "," or (char == " " and re.match(r"\s*\w+=", text[position:]))):
            pieces.append(current)
            current = ""
        else:
            current += char
    return [piece.strip() for piece in [*pieces, current] if piece.strip()]


def merge_words(value: Any, *, flag: str) -> Any:
    """One mapping from a mapping, a text, or several of either; later ones win."""
    if value is None:
        return {}
    if isinstance(value, str):
        return parse_words(value, flag=flag)
    if isinstance(value, list | tuple):
        merged: dict[str, Any] = {}
        for item in value:
            merged.update(merge_words(item, flag=flag))
        return merged
    return value
