"""A model that answers at random, for trials of everything around a model.

An answer is drawn from a hash of the request and the seed. So it depends on nothing else: not on the batch, the order,
the process, or how many requests it has had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from math import log
from typing import Any

from assay.instance import Instance, Response
from assay.models.base import LM, Stop, never
from assay.models.info import ModelInfo

_WORDS = [
    "the",
    "answer",
    "is",
    "so",
    "then",
    "because",
    "1",
    "2",
    "3",
    "7",
    "12",
    "42",
    "yes",
    "no",
    "A",
    "B",
    "C",
    "D",
    "####",
    ".",
]


class DummyLM(LM):
    """Random log-likelihoods and short random texts, reproducible from `seed`."""

    registered_name = "dummy"
    at_random = "dummy answers at random, from a hash of the request; it does not read text, so moving a space makes another request"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._hash = blake2b(str(seed).encode(), digest_size=16)

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        # The choices of a doc come one after the other with one context object: it is hashed once for all of them.
        answers, last, base = [], None, self._hash
        for request in requests:
            context, continuation = request.arguments
            if context is not last:
                base = self._hash.copy()
                base.update(str(context).encode("utf-8", "surrogatepass"))
                last = context
            digest = base.copy()
            digest.update(b"\0" + str(continuation).encode("utf-8", "surrogatepass"))
            word = digest.digest()
            answers.append((_log_uniform(word), word[15] < 64))
        return answers

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        # A text's log-likelihood grows with its length; a random one that did not would give senseless perplexities.
        return [
            (len(text := str(request.arguments[0])) + 1) * _log_uniform(self._draw(text, "rolling", 0))
            for request in requests
        ]

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return [self._generate(request, 0) for request in requests]

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        if request_type != "generate_until":
            # Eighty thousand of these measure the harness, so nothing is spent on converting what is plain already.
            yield from enumerate(map(Response, self.method_for(request_type)(instances)))
            return
        for position, (instance, draw) in enumerate(zip(instances, draws)):
            if stop():
                return
            yield position, Response(self._generate(instance, draw), "eos")

    def info(self) -> ModelInfo:
        return replace(super().info(), computes_here=True)

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        """
        >>> print(DummyLM().apply_chat_template([{"role": "user", "content": "Hello"}]))
        <|user|>Hello<|end|>
        <|assistant|>
        """
        turns = [f"<|{message['role']}|>{message['content']}" for message in messages]
        return "<|end|>\n".join(turns) + ("<|end|>\n<|assistant|>" if add_generation_prompt else "")

    def chat_template(self, name: bool | str | None = None) -> str | None:
        return "<|role|>content<|end|>"

    def fingerprint(self) -> str:
        return f"dummy-1:{self.seed}"

    def _generate(self, request: Instance, draw: int) -> str:
        context, kwargs = request.arguments
        word = self._draw(str(context), "generate", draw)
        text = " ".join([_WORDS[byte % len(_WORDS)] for byte in word[: 4 + word[15] % 8]])
        until = kwargs.get("until") if isinstance(kwargs, dict) else None
        for stop in [until] if isinstance(until, str) else until or ():
            if stop:
                text = text.split(stop, 1)[0]
        return text

    def _draw(self, text: str, kind: str, draw: int) -> bytes:
        digest = self._hash.copy()
        digest.update(f"{text}\0{kind}\0{draw}".encode("utf-8", "surrogatepass"))
        return digest.digest()


def _log_uniform(word: bytes) -> float:
    """The logarithm of a number between 0 and 1 made from the first eight bytes, never of 0."""
    return log((int.from_bytes(word[:8], "little") + 1) / 2**64)
