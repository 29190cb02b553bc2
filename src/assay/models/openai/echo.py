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
from math import isnan
from typing import Any

from assay.models.openai.offsets import scored_tokens_of
from assay.models.openai.wire import Unusable


@dataclass(frozen=True, slots=True)
class EchoRequest:
    """One prompt, and where in it scoring begins."""

    prompt: str | list[int]
    start: int
    """In characters of a text, in tokens of a list."""

    def body(self, model: str, seed: int | None) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "model": model,
            "prompt": self.prompt,
            "echo": True,
            "logprobs": 1,
            "max_tokens": 1,
            "temperature": 0,
        }
        return settings if seed is None else {**settings, "seed": seed}

    @property
    def context(self) -> str | list[int]:
        return self.prompt[: self.start]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to score."""
        return self.start >= len(self.prompt)


@dataclass(frozen=True, slots=True)
class EchoedToken:
    logprob: float
    best: float
    """The highest log-probability at this place."""


def scored_tokens(request: EchoRequest, reply: Any) -> list[EchoedToken]:
    """The continuation's tokens, each with its log-probability."""
    logprobs = reply["choices"][0].get("logprobs") or {}
    values = logprobs.get("token_logprobs") or []
    if len(values) < 2:  # a prompt has a context and a continuation; one token is the generated one
        raise Unusable("it does not echo prompts with log-probabilities", again=False)
    if isinstance(request.prompt, str):
        scored = _scored_by_place(request.prompt, request.start, logprobs)
    else:
        scored = _scored_by_count(len(request.prompt), request.start, len(values), reply)
    tops = logprobs.get("top_logprobs")
    if not tops:
        raise Unusable(
            "it has no top_logprobs, which tell whether the continuation is the most likely one", again=False
        )
    if len(tops) != len(values):
        raise Unusable("its lists of log-probabilities differ in length")
    return [_token(values[i], tops[i]) for i in scored]


def sum_score(scored: Sequence[EchoedToken]) -> tuple[float, bool]:
    """The sum over the continuation's tokens, and whether each was the most likely one.

    Servers repeat the token's own value among the top ones; equality is how lm-evaluation-harness decides as well.
    """
    return sum(token.logprob for token in scored), all(token.logprob >= token.best for token in scored)


def _token(value: Any, top: Any) -> EchoedToken:
    if value is None or isnan(value):
        raise Unusable("a token of the continuation has no log-probability")
    if not top:
        raise Unusable("a token of the continuation has no top_logprobs")
    return EchoedToken(float(value), float(max(top.values())))


def _scored_by_place(prompt: str, start: int, logprobs: Any) -> Sequence[int]:
    texts = logprobs.get("tokens") or []
    if len(texts) != len(logprobs["token_logprobs"]):
        raise Unusable("its lists of log-probabilities differ in length")
    scored = scored_tokens_of(prompt, start, texts, logprobs.get("text_offset") or [])
    if scored is None:
        raise Unusable(
            "its texts and offsets do not show which tokens belong to the continuation (with tokenizer=NAME in --model_args, tokens are counted instead)",
            again=False,
        )
    if not scored:
        raise Unusable("it has no token of the continuation")
    return scored


def _scored_by_count(sent: int, start: int, echoed: int, reply: Any) -> Sequence[int]:
    # A server may put a BOS in front. One that does not count the prompt still shows it by one token too many.
    counted = (reply.get("usage") or {}).get("prompt_tokens") or max(sent, echoed - 1)
    added = counted - sent
    if added not in (0, 1) or echoed < counted:
        raise Unusable(f"{echoed} tokens were echoed for a prompt of {sent}")
    return range(start + added, counted)
