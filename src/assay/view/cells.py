"""Cells of a sample file, which hold JSON, or anything at all where the file is somebody else's."""

from __future__ import annotations

import json
from typing import Any


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_cell(text: str | None, default: Any) -> Any:
    if text is None:
        return default
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def likelihood_pair(value: Any) -> tuple[float, bool] | None:
    """`[loglikelihood, is_greedy]` as it comes out of JSON."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], int | float) and isinstance(value[1], bool):
        return float(value[0]), value[1]
    return None


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def item_at(items: Any, position: int) -> Any:
    return items[position] if isinstance(items, list) and position < len(items) else None


def response_tokens(tokens: Any, request: int, draw: int) -> int | None:
    """Of (prompt, response), where the run kept them."""
    pair = item_at(item_at(tokens, request), draw)
    return int(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None
