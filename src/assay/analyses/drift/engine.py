"""Two models and some texts to a drift: its size, where it is, and whether it is too large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from assay.analyses.drift.bounds import bounds_of
from assay.analyses.drift.texts import Passage
from assay.config import CommandFlag, Options, option
from assay.errors import ConfigError
from assay.instance import Instance
from assay.models import LM, TokenDivergences
from assay.stats import Estimate, mean_estimate

BUCKETS = (16, 64, 256, 1024)
"""Places at which a new part of the text begins in the table by position."""

DriftVerdict = Literal["within", "beyond", "open"]


class DriftOptions(Options):
    """How much is read, and how far apart is too far."""

    max_tokens: int = option(10_000, "Tokens to compare.", ge=2)
    max_requests: int = option(500, "For servers, which need one request per token.", ge=2)
    continuations: int = option(50, "Prompts that both models continue greedily.", ge=0)
    continuation_tokens: int = option(32, "Tokens of each continuation.", ge=1, flag=CommandFlag(is_hidden=True))
    max_kl: float | None = option(None, "Fail if the mean KL divergence exceeds this, in nats.", ge=0)


@dataclass(frozen=True)
class DriftPart:
    """All tokens, or those of a domain, or of a part of the texts. Tokens of one text stand together in every interval."""

    kind: Literal["all", "domain", "position"]
    name: str
    tokens: int
    texts: int
    kl: Estimate
    same_first: Estimate
    entropy: Estimate
    """Of A."""
    entropy_change: Estimate
    """B − A."""

    @property
    def title(self) -> str:
        return self.name if self.kind == "all" else f"{self.kind} {self.name}"

    def to_dict(self) -> dict[str, Any]:
        estimates = ("kl", "same_first", "entropy", "entropy_change")
        about = {"kind": self.kind, "name": self.name, "tokens": self.tokens, "texts": self.texts}
        return {**about, **{name: _plain(getattr(self, name)) for name in estimates}}


@dataclass(frozen=True)
class Drift:
    """B against A."""

    a: str
    b: str
    parts: tuple[DriftPart, ...]
    is_exact: bool
    """Whether whole distributions were seen. Else `kl` is a lower bound, and `variation` bounds the total variation."""
    variation: tuple[Estimate, Estimate] | None
    continued: Estimate | None
    """The share of greedy continuations that differ."""
    first_difference: float | None
    """Where they differ: the median of the first word that does, from 1."""
    max_kl: float | None
    bounds: tuple[float, float] | None
    """One-sided 95 % bounds of the mean KL."""

    @property
    def whole(self) -> DriftPart:
        return self.parts[0]

    @property
    def verdict(self) -> DriftVerdict | None:
        """As of a gate: shown to be within the limit, shown to be beyond, or neither. None without a limit."""
        if self.max_kl is None:
            return None
        if self.bounds is None:
            return "open"
        low, high = self.bounds
        # What the likeliest tokens show is a lower bound: it can break a limit and never keep one.
        return "beyond" if low > self.max_kl else "within" if high <= self.max_kl and self.is_exact else "open"

    def to_dict(self) -> dict[str, Any]:
        return {
            "a": self.a,
            "b": self.b,
            "exact": self.is_exact,
            "parts": [part.to_dict() for part in self.parts],
            "total_variation": None if self.variation is None else [_plain(each) for each in self.variation],
            "continuations_that_differ": _plain(self.continued),
            "max_kl": self.max_kl,
            "bounds": self.bounds,
            "verdict": self.verdict,
        }


def _plain(estimate: Estimate | None) -> dict[str, Any] | None:
    names = ("value", "stderr", "low", "high", "n")
    return None if estimate is None else {name: getattr(estimate, name) for name in names}


@dataclass(frozen=True)
class _Measured:
    """Token by token."""

    tokens: TokenDivergences
    variation: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None


def measure_drift(a: LM, b: LM, passages: Sequence[Passage], options: DriftOptions | None = None) -> Drift:
    """B against A on these texts."""
    options = options or DriftOptions()
    passages = _interleaved(passages)
    texts = [passage.text for passage in passages]
    blocks = a.token_divergences(b, texts, options.max_tokens)
    measured = _joined(blocks) if blocks is not None else _by_lists(a, b, texts, options)
    tokens = measured.tokens
    if len(tokens.kl) == 0:
        raise ConfigError("the texts have no tokens to compare", hint="Use longer texts with --texts.")
    parts = list(drift_parts(tokens, [passage.domain for passage in passages]))
    wide = mean_kl(tokens.kl, tokens.texts, level=0.90)
    ends = None if wide.low is None or wide.high is None else (wide.low, wide.high)
    # The same distributions, token by token, are the same model: that keeps every limit.
    bounds = (0.0, 0.0) if not tokens.kl.any() else ends
    continued, first = _continuations(a, b, texts, options)
    return Drift(
        a=a.info().name,
        b=b.info().name,
        parts=tuple(parts),
        is_exact=blocks is not None,
        variation=None
        if measured.variation is None
        else (mean_estimate(measured.variation[0], tokens.texts), mean_estimate(measured.variation[1], tokens.texts)),
        continued=continued,
        first_difference=first,
        max_kl=options.max_kl,
        bounds=bounds,
    )


def _interleaved(passages: Sequence[Passage]) -> list[Passage]:
    """Domains in turn: where tokens are limited, no domain is read first and alone."""
    domains: dict[str, list[Passage]] = {}
    for passage in passages:
        domains.setdefault(passage.domain, []).append(passage)
    turns = zip_longest(*domains.values())
    return [passage for turn in turns for passage in turn if passage is not None]


_FEW_TEXTS, _UNEVEN = 40, 0.5
"""Texts of equal length that would weigh as much, and their share of all texts, below which there is no interval."""


def mean_kl(kl: NDArray[np.float64], texts: NDArray[np.int64], level: float = 0.95) -> Estimate:
    """The mean of divergences, which have no upper limit: values that happen to lie in [0, 1] are no shares of anything.

    Among mostly short texts, a few long ones hold most of the tokens, and often have another drift. With fewer than about
    forty texts' worth of tokens, intervals then hold the mean in 78 to 90 % of cases, so there is none.
    """
    shift = 2 * float(kl.max(initial=0.0))
    if shift == 0:
        return Estimate(0.0, 0.0, None, None, len(kl), "", level=level).without_interval("no token drifts")
    moved = mean_estimate(kl - shift, texts, level=level)
    count, worth = len(np.unique(texts)), 1 + (moved.df or 0.0)
    if moved.low is not None and worth < min(_FEW_TEXTS, _UNEVEN * count):
        reason = f"the {count} texts differ so much in length that they tell no more than {worth:.0f} of equal length; use more of them"
        return Estimate.bare(float(kl.mean()), len(kl), reason)
    ends = (None if end is None else end + shift for end in (moved.value, moved.low, moved.high))
    value, low, high = ends
    return replace(moved, value=value, low=None if low is None else max(0.0, low), high=high)


def _joined(blocks: Iterator[TokenDivergences]) -> _Measured:
    listed = list(blocks)
    names = ("texts", "places", "kl", "same_first", "entropy_a", "entropy_b")
    columns: list[Any] = [
        np.concatenate([getattr(block, name) for block in listed]) if listed else np.empty(0) for name in names
    ]
    return _Measured(TokenDivergences(*columns))


def _by_lists(a: LM, b: LM, texts: Sequence[str], options: DriftOptions) -> _Measured:
    """Word by word, as neither knows where the other's tokens end; every word of a text is a prompt of its own."""
    _refuse_chats(a, b)
    prompts = _word_prompts(texts)
    # Evenly over all texts: the first ones alone would be one domain.
    count = min(len(prompts), options.max_requests)
    chosen = [prompts[i] for i in np.linspace(0, len(prompts) - 1, count).astype(np.int64)] if count else []
    sent = [prompt for _, _, prompt in chosen]
    bounds = [bounds_of(p, q) for p, q in zip(a.likeliest_tokens(sent), b.likeliest_tokens(sent), strict=True)]
    tokens = TokenDivergences(
        texts=np.array([text for text, _, _ in chosen], dtype=np.int64),
        places=np.array([place for _, place, _ in chosen], dtype=np.int64),
        kl=np.array([each.kl for each in bounds]),
        same_first=np.array([float(each.same_first) for each in bounds]),
        entropy_a=np.array([each.entropy_a for each in bounds]),
        entropy_b=np.array([each.entropy_b for each in bounds]),
    )
    low, high = (np.array([getattr(each, f"variation_{end}") for each in bounds]) for end in ("low", "high"))
    return _Measured(tokens, (low, high))


def _refuse_chats(*models: LM) -> None:
    for info in [lm.info() for lm in models]:
        if info.chat == "messages":
            raise ConfigError(
                f"{info.name} accepts only chats, and a chat is not the text that the other model reads",
                hint="Use the server's completions: local-completions.",
            )


def _word_prompts(texts: Sequence[str]) -> list[tuple[int, int, str]]:
    """Which text, the place of the word in it, and all that stands before that word."""
    split = [text.split(" ") for text in texts]
    places = [(at, place) for at, words in enumerate(split) for place in range(1, len(words))]
    prompts = [(at, place - 1, " ".join(split[at][:place])) for at, place in places]
    return [(at, place, prompt) for at, place, prompt in prompts if prompt.strip()]


def drift_parts(tokens: TokenDivergences, domains: Sequence[str]) -> Iterator[DriftPart]:
    yield _part("all", "all", tokens, np.ones(len(tokens.kl), dtype=bool))
    of_token = np.array([domains[text] for text in tokens.texts])
    for domain in dict.fromkeys(domains):
        if (of_token == domain).any():
            yield _part("domain", domain, tokens, of_token == domain)
    bucket = np.digitize(tokens.places, BUCKETS)
    for at in np.unique(bucket).tolist():
        first = 0 if at == 0 else BUCKETS[at - 1]
        name = f"{first}–{BUCKETS[at] - 1}" if at < len(BUCKETS) else f"{first} and on"
        yield _part("position", name, tokens, bucket == at)


def _part(
    kind: Literal["all", "domain", "position"], name: str, tokens: TokenDivergences, chosen: NDArray[np.bool_]
) -> DriftPart:
    texts = tokens.texts[chosen]

    def mean(values: NDArray[np.float64]) -> Estimate:
        return mean_estimate(values[chosen], texts)

    return DriftPart(
        kind=kind,
        name=name,
        tokens=int(chosen.sum()),
        texts=len(np.unique(texts)),
        kl=mean_kl(tokens.kl[chosen], texts),
        same_first=mean(tokens.same_first),
        entropy=mean(tokens.entropy_a),
        entropy_change=mean(tokens.entropy_b - tokens.entropy_a),
    )


def _continuations(a: LM, b: LM, texts: Sequence[str], options: DriftOptions) -> tuple[Estimate | None, float | None]:
    """The first half of each text, continued greedily by both."""
    halves = [" ".join(words[: max(1, len(words) // 2)]) for words in (text.split(" ") for text in texts)]
    prompts = list(dict.fromkeys(half for half in halves if half.strip()))
    step = max(1, len(prompts) // max(1, options.continuations))
    prompts = prompts[::step][: options.continuations]
    if not prompts:
        return None, None
    settings = {"until": [], "max_gen_toks": options.continuation_tokens, "do_sample": False}
    requests = [Instance("generate_until", {}, (prompt, settings), 0) for prompt in prompts]
    answers = [
        [answer if isinstance(answer, str) else str(answer.answer) for answer in lm.generate_until(requests)]
        for lm in (a, b)
    ]
    firsts = [_first_other_word(x, y) for x, y in zip(*answers, strict=True)]
    others = [first for first in firsts if first is not None]
    differs = np.array([float(first is not None) for first in firsts])
    return mean_estimate(differs), float(np.median(others)) if others else None


def _first_other_word(one: str, other: str) -> int | None:
    """
    >>> _first_other_word("a b c", "a x c"), _first_other_word("a b", "a b"), _first_other_word("a", "a b")
    (2, None, 2)
    """
    if one == other:
        return None
    left, right = one.split(), other.split()
    pairs = zip(left, right, strict=False)
    return next((at for at, (x, y) in enumerate(pairs, 1) if x != y), min(len(left), len(right)) + 1)
