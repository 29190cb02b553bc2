"""Stores with answers in them."""

from __future__ import annotations

from pathlib import Path

from assay.instance import Response
from assay.store import ResponseStore, request_key


def key(i: int) -> bytes:
    return request_key("m", "loglikelihood", (f"context {i}", " yes"))


def fill(path: Path, n: int, *, text: str = "") -> list[bytes]:
    with ResponseStore(path) as store:
        for i in range(n):
            store.put(key(i), Response(f"{text}{i}" if text else (-float(i), i % 2 == 0), "stop" if i % 3 else None))
    return [key(i) for i in range(n)]
