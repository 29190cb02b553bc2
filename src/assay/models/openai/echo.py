"""Log-likelihoods from a completions server: the prompt is echoed with the log-probability of each of its tokens.

    prompt    "The sky is" + " blue"          echo, logprobs=1, max_tokens=1
    tokens    The | sky | is | blue | .       the last one was generated and is dropped
    logprobs  None  -4.1  -1.2  -2.7  -0.9    blue is scored: it starts at the length of the context

With a tokenizer of our own the prompt is sent as ids and the border is a count of ids; without one it is a count of
characters, and a token that reaches over the border counts to the continuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assay.models.openai.wire import Unusable


@dataclass(frozen=True, slots=True)
class EchoRequest:
    """One prompt, and where in it scoring begins."""

    prompt: str | list[int]
    start: int
    """In characters of a text, in tokens of a list."""

    def body(self, model: str, seed: int | None) -> dict[str, Any]:
        settings: dict[str, Any] = {"model": model, "prompt": self.prompt, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0}  # fmt: skip
        return settings if seed is None else {**settings, "seed": seed}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to score: an empty continuation is certain."""
        return self.start >= len(self.prompt)


@dataclass(frozen=True, slots=True)
class EchoedToken:
    logprob: float | None
    best: float | None
    """The highest log-probability at this place."""
    offset: int


def scored_tokens(request: EchoRequest, reply: Any) -> list[EchoedToken]:
    """The continuation's tokens, each with its log-probability."""
    tokens = echoed_tokens(reply)
    scored = _scored_by_offset(request, tokens) if isinstance(request.prompt, str) else _scored_by_count(request, tokens, reply)  # fmt: skip
    if not scored:
        raise Unusable("no token of the continuation in it")
    if any(token.logprob is None for token in scored):
        raise Unusable("a token of the continuation has no log-probability")
    return scored


def sum_score(scored: Sequence[EchoedToken]) -> tuple[float, bool]:
    """The sum over the continuation's tokens, and whether each was the most likely one."""
    total = sum(token.logprob for token in scored if token.logprob is not None)
    # Servers repeat the token's own value among the top ones; equality is how lm-evaluation-harness decides as well.
    greedy = all(token.best is None or (token.logprob or 0.0) >= token.best for token in scored)
    return float(total), greedy


def _scored_by_offset(request: EchoRequest, tokens: Sequence[EchoedToken]) -> list[EchoedToken]:
    end = len(request.prompt)
    ends = [token.offset for token in tokens[1:]] + [max(end, tokens[-1].offset + 1) if tokens else end]
    # A token that holds only part of a character has no width, so its place counts as well as its end.
    return [
        t for t, stop in zip(tokens, ends) if (t.offset >= request.start or stop > request.start) and t.offset < end
    ]


def _scored_by_count(request: EchoRequest, tokens: Sequence[EchoedToken], reply: Any) -> list[EchoedToken]:
    asked = len(request.prompt)
    counted = (reply.get("usage") or {}).get("prompt_tokens") or asked
    added = counted - asked  # a server may put a BOS in front
    if added not in (0, 1) or len(tokens) < counted:
        raise Unusable(f"{len(tokens)} tokens were echoed for a prompt of {asked}")
    return list(tokens[request.start + added : counted])


def echoed_tokens(reply: Any) -> list[EchoedToken]:
    """Tokens of the reply, prompt and generated, from the completions form of log-probabilities."""
    logprobs = reply["choices"][0].get("logprobs")
    if not logprobs or not logprobs.get("token_logprobs"):
        raise Unusable("it has no log-probabilities")
    values = logprobs["token_logprobs"]
    texts = logprobs.get("tokens") or [""] * len(values)
    tops = logprobs.get("top_logprobs") or [None] * len(values)
    offsets = logprobs.get("text_offset") or _offsets(texts)
    if not len(values) == len(tops) == len(offsets):
        raise Unusable("its lists of log-probabilities differ in length")
    return [
        EchoedToken(None if v is None else float(v), max(top.values()) if top else None, int(offset))
        for v, top, offset in zip(values, tops, offsets)
    ]


def _offsets(texts: Sequence[str]) -> list[int]:
    offsets, at = [], 0
    for text in texts:
        offsets.append(at)
        at += len(text)
    return offsets
