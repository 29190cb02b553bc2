"""The content hash of a doc: the same on every machine, whatever the order of its columns."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def _plain(value: Any) -> Any:
    """What JSON cannot hold: bytes, dates, arrays, images."""
    if isinstance(value, bytes | bytearray):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "tobytes"):  # images
        return {"bytes": hashlib.sha256(value.tobytes()).hexdigest()}
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_plain).encode


def doc_hash(doc: dict[str, Any]) -> str:
    """SHA-256 (hex) of the doc as canonical JSON.

    >>> doc_hash({"a": 1, "b": "ä"}) == doc_hash({"b": "ä", "a": 1})
    True
    """
    return hashlib.sha256(_encode(doc).encode("utf-8", "surrogatepass")).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 (hex) of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
