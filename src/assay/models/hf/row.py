"""A generation: its prompt and settings, how far it has come, and the tokens that follow.

*Choosing* works on many rows at once, on the device where their logits are. A draw depends on the prompt, the number of
the draw, the run's seed and how many tokens have been said, and on nothing that is computed beside it: its random number
is a hash of these (a counter-based generator), so neither the order of rows nor tokens that were only drafted use any up.

*Drafting* is speculative decoding without a second model: n-gram prompt lookup drafts tokens, and one pass verifies them.
A pass over one token of each row costs nearly as much as one over several: most of it is reading the weights. So a row
brings a draft along, and whatever of it turns out to be what the row would have said is already computed. Answers copy
from their question, follow the examples and repeat themselves, so the draft is what followed the last time:

    … 5 hours / week = 250 hours / year * 5 hours      said so far
      ───────              ────────────   ───────      the last tokens stood here before
                         ▸ / week = 250 …              the draft

Drafted tokens that are not accepted are thrown away. What is said does not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from assay.models.generation import GenerationSettings
from assay.models.hf.decoding import Base
from assay.models.hf.stops import StopRules, StopWatch

_RUN_SIZES = (3, 2)
"""So many last tokens are looked up, the longer ones first."""
_FIRST_DRAFT, _LONGEST_DRAFT = 4, 16
_MOST_MISSES = 5
_REMEMBERED = 4096
"""Tokens of a prompt that are looked at, from its end."""
_AT_ONCE = 64
"""Rows whose probabilities are held at a time."""
_CANDIDATES = 1024
"""Most likely tokens among which a nucleus is looked for first: it is rarely larger, and sorting a vocabulary is slow."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One generation: token ids to continue, how, and the seed of this draw."""

    tokens: tuple[int, ...]
    settings: GenerationSettings
    rules: StopRules
    seed: int
    repetition_penalty: float = 1.0

    @property
    def key(self) -> tuple[Any, ...]:
        """Prompts of equal key have equal answers: all draws of a greedy prompt are one generation."""
        settings = self.settings
        how = (settings.temperature, settings.top_p, settings.top_k, settings.min_p, self.repetition_penalty)
        return (self.tokens, how, repr(sorted(settings.other.items())), self.rules, 0 if settings.greedy else self.seed)


@dataclass(slots=True)
class Row:
    """A generation under way. Its last id is not in the cache yet."""

    index: int
    prompt: Prompt
    base: Base | None
    prompt_length: int
    """Tokens of its prompt that are in its slot; the others are in the base."""
    drafter: NgramDrafter
    watch: StopWatch
    ids: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens in its slot."""
        return self.prompt_length + len(self.ids) - 1

    def draft(self, most: int) -> list[int]:
        """What may follow; nothing beyond the last token it may say, for which the model may have no position."""
        left = self.prompt.rules.max_gen_toks - len(self.ids) - 1
        return self.drafter.draft(min(most, left))

    def say(self, token: int) -> None:
        self.ids.append(token)
        self.drafter.say(token)


class NgramDrafter:
    """What one row has read and said, by its runs of tokens.

    >>> drafter = NgramDrafter([1, 2, 3, 4, 1, 2])
    >>> drafter.draft(3)
    [3, 4, 1]
    >>> drafter.say(9)
    >>> drafter.draft(3)
    []
    """

    def __init__(self, prompt: Sequence[int]) -> None:
        self._tokens: list[int] = []
        self._following: dict[tuple[int, ...], int] = {}
        """Run of tokens → the place after its last occurrence, once there is a token there."""
        self._reach = _FIRST_DRAFT
        self._misses = self._resting = 0
        """Drafts in a row of which nothing was right, and passes for which no further one is tried."""
        for token in prompt[-_REMEMBERED:]:
            self.say(token)

    def say(self, token: int) -> None:
        for size in _RUN_SIZES:
            if len(self._tokens) >= size:
                self._following[tuple(self._tokens[-size:])] = len(self._tokens)
        self._tokens.append(token)

    def draft(self, most: int) -> list[int]:
        """At most so many tokens, and no more than it is worth."""
        if self._resting:
            self._resting -= 1
            return []
        tokens = self._tokens
        runs = (tuple(tokens[-size:]) for size in _RUN_SIZES)
        start = next((self._following[run] for run in runs if run in self._following), None)
        draft: list[int] = []
        if start is not None:
            # Past the end of what was said it reads on in itself: a loop is drafted for more than one turn.
            for place in range(start, start + min(most, self._reach)):
                draft.append(tokens[place] if place < len(tokens) else draft[place - len(tokens)])
        return draft

    def learn(self, right: int) -> None:
        """So many tokens of the last draft were right. After each miss it rests twice as long: text that is drawn rarely repeats."""
        self._reach = min(_LONGEST_DRAFT, 2 * right + 1)
        self._misses = 0 if right else min(_MOST_MISSES, self._misses + 1)
        self._resting = 2**self._misses - 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a token is to be chosen: the prompt, and what has been said behind it."""

    prompt: Prompt
    said: Sequence[int]


def choose_tokens(places: Sequence[Place], logits: Any) -> list[int]:
    """The likeliest token of each row of `logits`, or a draw, as its prompt asks."""
    with torch.inference_mode():
        logits = _penalised(places, logits)
        chosen: list[int] = logits.argmax(dim=-1).tolist()
        drawn = [index for index, place in enumerate(places) if not place.prompt.settings.greedy]
        for start in range(0, len(drawn), _AT_ONCE):
            some = drawn[start : start + _AT_ONCE]
            points = uniform([places[i].prompt.seed for i in some], [len(places[i].said) for i in some])
            found = draw_tokens(logits[some], [places[i].prompt.settings for i in some], points)
            for index, token in zip(some, found):
                chosen[index] = token
    return chosen


def uniform(seeds: Sequence[int], counts: Sequence[int]) -> NDArray[np.float64]:
    """Numbers in [0, 1), one for each seed and count: SplitMix64, which gives any place of its sequence.

    >>> uniform([1, 1, 2], [0, 1, 0]).round(3).tolist()
    [0.567, 0.746, 0.591]
    """
    with np.errstate(over="ignore"):
        state = np.asarray(seeds, dtype=np.uint64)
        state = state + (np.asarray(counts, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
    return ((state ^ (state >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def draw_tokens(logits: Any, settings: Sequence[GenerationSettings], points: Any) -> list[int]:
    """Tokens by inverse transform, after temperature, top-k, top-p and min-p, in this order.

    Kept tokens lie in the order of the vocabulary, so nothing is sorted to draw from all of it. Tokens that tie with the last one
    kept are kept.
    """
    heat = logits.new_tensor([one.temperature for one in settings], dtype=torch.float32).unsqueeze(1)
    probabilities = torch.softmax(logits.float() / heat, dim=-1)
    least = _least_kept(probabilities, settings)
    if least is not None:
        probabilities = torch.where(probabilities >= least, probabilities, 0.0)
    # Metal has no float64.
    sums = probabilities.cumsum(-1, dtype=torch.float32 if logits.device.type == "mps" else torch.float64)
    targets = torch.as_tensor(points, dtype=sums.dtype, device=sums.device).unsqueeze(1) * sums[:, -1:]
    tokens = torch.searchsorted(sums, targets, right=True).squeeze(1)
    # Behind the last kept token the sum stays what it is; rounding must not end there.
    last = torch.searchsorted(sums, sums[:, -1:].contiguous()).squeeze(1)
    found: list[int] = torch.minimum(tokens, last).tolist()
    return found


def _least_kept(probabilities: Any, settings: Sequence[GenerationSettings]) -> Any:
    """The smallest probability that each row keeps `[rows, 1]`, or None if all keep everything."""
    size = probabilities.shape[1]
    if all(one.top_p >= 1.0 and one.min_p <= 0.0 and not 0 < one.top_k < size for one in settings):
        return None
    wanted = max((one.top_k for one in settings if one.top_k < size), default=0)
    nuclei = [one.top_p for one in settings if one.top_p < 1.0 and not one.top_k]
    for count in (_CANDIDATES, 16 * _CANDIDATES, size):
        top = probabilities.topk(min(size, max(wanted, count)), dim=-1).values
        if not nuclei or bool((top.sum(-1) >= max(nuclei)).all()):
            break
    ranks = torch.arange(top.shape[1], device=top.device)
    kept = [one.top_k if 0 < one.top_k < size else top.shape[1] for one in settings]
    inside = ranks < torch.as_tensor(kept, device=top.device).unsqueeze(1)
    nucleus = top.new_tensor([one.top_p for one in settings]).unsqueeze(1)
    cut = top.new_tensor([float(one.top_k > 0) for one in settings]).unsqueeze(1)
    total = torch.where(cut > 0, (top * inside).sum(-1, keepdim=True), 1.0)
    # The token that crosses the threshold stays: without it top_p = 0 would keep none.
    before = (top.cumsum(-1) - top) / total
    inside &= (before < nucleus) | (nucleus >= 1.0) | (ranks == 0)
    limited = torch.as_tensor([one.top_p < 1.0 or 0 < one.top_k < size for one in settings], device=top.device)
    least = torch.where(inside, top, torch.inf).amin(-1) * limited
    return torch.maximum(least, top[:, 0] * top.new_tensor([one.min_p for one in settings])).unsqueeze(1)


def _penalised(places: Sequence[Place], logits: Any) -> Any:
    """Tokens that were already there made less likely, as transformers does. A copy: draws of one prompt share logits."""
    rows = [index for index, place in enumerate(places) if place.prompt.repetition_penalty != 1.0]
    if not rows:
        return logits
    logits = logits.clone()
    for row in rows:
        prompt = places[row].prompt
        seen = torch.tensor(sorted({*prompt.tokens, *places[row].said}), device=logits.device)
        scores, penalty = logits[row, seen], prompt.repetition_penalty
        logits[row, seen] = torch.where(scores < 0, scores * penalty, scores / penalty)
    return logits
