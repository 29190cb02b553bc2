"""What a server can be asked for, found out with tiny requests: it takes a picture, a tool, a stop string, or declines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.instance import Context, Message
from assay.models.identity import PROBES

_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
_TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    },
}
CHAT_ABILITIES: Mapping[str, tuple[Context, Mapping[str, Any]]] = {
    "images": (
        (
            Message(
                "user",
                ({"type": "image_url", "image_url": {"url": _PIXEL}}, {"type": "text", "text": PROBES[0]}),
            ),
        ),
        {},
    ),
    "tools": (PROBES[0], {"tools": [_TOOL]}),
    "stop_strings": (PROBES[0], {"stop": ["\n\n\n"]}),
}
"""Ability → what is shown, and the fields beside it. A server that answers such a request has it."""
COMPLETION_ABILITIES = {"stop_strings": CHAT_ABILITIES["stop_strings"]}

_CONTEXT = ("max_model_len", "context_length", "context_window", "meta.n_ctx", "meta.n_ctx_train")


def context_said(entry: Mapping[str, Any]) -> int | None:
    """The tokens that a model reads in all, as the server's list of models says.

    >>> context_said({"id": "m", "meta.n_ctx": 4096, "meta.n_ctx_train": 8192}), context_said({"id": "m"})
    (4096, None)
    """
    return next((entry[name] for name in _CONTEXT if isinstance(entry.get(name), int) and entry[name] > 0), None)
