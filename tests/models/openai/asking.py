"""What the tests of servers ask, and how they connect."""

from __future__ import annotations

import math
from typing import Any

from tests.models.openai.faulty_server import FaultyServer

from assay.instance import Instance
from assay.models import load_model
from assay.models.ngram import NgramLM

NGRAM = NgramLM()
TEXTS = ["The river is wide", "Salt was once", "A clock", "émile 😀 said", "x"]


def ask(kind: str, *arguments: Any) -> Instance:
    return Instance(kind, {}, arguments, 0)  # type: ignore[arg-type]


def connect(server: FaultyServer, name: str = "local-completions", **more: Any) -> Any:
    settings: dict[str, Any] = {"base_url": server.url, "model": "ngram", "backoff": 0.01, "timeout": 5, **more}
    return load_model(name, settings)


class ByteEncoder:
    """Bytes as tokens: the server's own tokenizer, on our side."""

    name = fingerprint = "bytes"
    prefix = 0
    max_length = None

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")


def with_tokens(model: Any, encoder: Any = None, *, tokenized: bool = True) -> Any:
    model.encoder, model.tokenized = encoder or ByteEncoder(), tokenized
    return model


def pairs(n: int) -> list[Instance]:
    return [ask("loglikelihood", f"{TEXTS[i % 5]} {i // 5}", f" and {i}") for i in range(n)]


def generations(n: int) -> list[Instance]:
    return [ask("generate_until", f"The {TEXTS[i % 5]} {i}", {"until": ["."], "max_gen_toks": 12}) for i in range(n)]


def close_to(one: list[tuple[float, bool]], two: list[tuple[float, bool]]) -> bool:
    return all(math.isclose(a[0], b[0], rel_tol=1e-9) and a[1] == b[1] for a, b in zip(one, two, strict=True))
