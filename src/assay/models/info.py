"""What is known of a model: what it can do, what it is, what it has used and may cost, how it compares with another."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from assay.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


ChatForm: TypeAlias = Literal["messages", "text"]


@dataclass(slots=True)
class Usage:
    """What a backend has used so far. Backends that know fill it in; the run shows it."""

    prompt_tokens: int = 0
    """Tokens of all prompts, as if nothing were shared."""
    computed_tokens: int = 0
    """Prompt tokens that really went through the model."""
    generated_tokens: int = 0
    cost: float = 0.0
    """In the currency of the prices given to the backend."""
    retries: int = 0
    images: int = 0
    """Images that were sent."""
    image_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do. A task that needs more is refused before the first request."""

    likelihoods: bool = True
    top_logprobs: bool = False
    images: bool = False
    tools: bool = False
    seeds: bool = True
    """Whether a sampled draw can be had again."""
    stop_strings: bool = True
    continues: bool = True
    """Whether an assistant's message that was begun can be continued."""

    def named(self) -> dict[str, bool]:
        """
        >>> Capabilities(likelihoods=False).named()["likelihoods"]
        False
        """
        return {name: getattr(self, name) for name in ABILITIES}


ABILITIES = tuple(field.name for field in fields(Capabilities))


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Everything callers may want to know about a model before the first request."""

    name: str = ""
    fingerprint: str = ""
    """Changes whenever answers may change."""
    num_parameters: int | None = None
    max_length: int | None = None
    """Tokens that the model reads in all."""
    tokenizer: str = ""
    chat: ChatForm | None = None
    """Whether a conversation goes to the model as messages, or as text through its template; None: neither."""
    chat_template: str | None = None
    """The text of the template in use."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further facts for results files, by the names that lm-evaluation-harness gives them."""
    capabilities: Capabilities = Capabilities()
    prices: tuple[float, float] | None = None
    """Of a million tokens of prompts, and of answers."""
    computes_here: bool = False
    """Whether it is known to ask no server, which may charge: such a model may be tried out for a forecast."""
    max_gen_toks: int = 256
    """Tokens of an answer where neither task nor run says; more for a model that thinks first."""
    window_requests: int = 0
    """Requests that it needs at once to keep busy, where that is more than a run holds anyway."""
    streams_at_once: int = 1
    """Calls of `stream` that may be under way together: more than one where another machine computes, which would wait
    for the last answers of one part of a run before it got the next."""


@dataclass(frozen=True, slots=True)
class Check:
    """`passed` is None where a check does not apply; `flipped` is the share of questions whose best choice changed."""

    name: str
    passed: bool | None
    difference: float | None = None
    flipped: float | None = None
    note: str = ""


@dataclass(frozen=True)
class TokenDivergences:
    """Two models at a block of tokens: each array has a number for each token."""

    texts: NDArray[np.int64]
    """Which text it is of."""
    places: NDArray[np.int64]
    """Its place in that text, from 0."""
    kl: NDArray[np.float64]
    """Kullback–Leibler divergence of the second model's next-token distribution from the first's, in nats."""
    same_first: NDArray[np.float64]
    """1 where both find the same token likeliest."""
    entropy_a: NDArray[np.float64]
    entropy_b: NDArray[np.float64]


class CostReached(ModelError):
    """The next request might exceed the limit. All answers so far are in the store."""

    exit_code = 130


class CostLimit:
    """One limit for all models of a run. Requests in progress are counted at the most they can cost.

    >>> limit = CostLimit(1.0)
    >>> limit.reserve(0.7), limit.reserve(0.7)
    (True, False)
    >>> limit.settle(0.7, spent=0.1)
    >>> limit.reserve(0.7)
    True
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self.spent = self.reserved = 0.0
        self._lock = threading.Lock()

    def reserve(self, cost: float) -> bool:
        """Whether this much may still be spent; if so it is set aside."""
        with self._lock:
            if self.spent + self.reserved + cost > self.most:
                return False
            self.reserved += cost
            return True

    def settle(self, reserved: float, *, spent: float = 0.0) -> None:
        """A request is over."""
        with self._lock:
            self.reserved = max(0.0, self.reserved - reserved)
            self.spent += spent

    def reached(self, dearest: float, why: str) -> CostReached:
        """`dearest` is the most that the next request can cost, and `why` what that is made of."""
        stored = "All answers are stored. " if self.spent else ""
        return CostReached(
            f"stopped: {self.spent:.4g} of --max_cost {self.most:g} is spent, and the next request may cost up to {dearest:.2g} ({why})",
            hint=f"{stored}Run the same command with --max_cost {self.spent + dearest:.2g} or more, or allow shorter answers with --gen_kwargs max_gen_toks=…",
        )
