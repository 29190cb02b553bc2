"""Generation with shared prefixes: prompts are computed as a tree, rows continue them side by side.

Rows come and go one by one. While some are being generated, the prompts of the next are computed as soon as there is
room, so the passes stay full and no row waits for the slowest of a batch.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from assay.models.hf.attention import kept_dtype
from assay.models.hf.decoding import Base, DecodePlan, RowSpan, Slots
from assay.models.hf.kept_prompts import KeptPrompts
from assay.models.hf.linear import LinearMode, linear_mode
from assay.models.hf.row import NgramDrafter, Place, Prompt, Row, choose_tokens
from assay.models.hf.stops import StopWatch
from assay.models.hf.tokenization import TextEncoder
from assay.models.hf.tree import KVCache, TreeRunner
from assay.models.prefix_tree import PrefixTree, Step

_SHARED_FROM = 64
"""A shorter prefix is copied into each row: keeping it apart would cost more than it saves."""
_MOST_BASES = 8
"""Rows of more prefixes than this are rare, and each prefix is a computation of its own in every layer."""
_CHEAP = {"cpu": 32, "cuda": 256}
"""Up to so many tokens a pass mostly waits for the weights; rows that are fewer fill it with drafts."""


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A prompt that has been computed and waits for a slot."""

    index: int
    base: Base
    states: KVCache
    places: Any
    logits: Any


class RowGenerator:
    """Runs prompts to their ends, at most `max_rows` at a time."""

    def __init__(
        self,
        runner: TreeRunner,
        encoder: TextEncoder,
        *,
        tokens_per_pass: int,
        max_rows: int,
        cache_bytes: int,
        draft: bool = True,
        kept: KeptPrompts | None = None,
    ) -> None:
        self.runner = runner
        self.encoder = encoder
        self.tokens_per_pass = tokens_per_pass
        self.max_rows = max_rows
        self.cache_bytes = cache_bytes
        self.kept = kept
        self.decoded = 0
        """Tokens that went through the model after the prompts, drafts among them."""
        self.passes = 0
        self._cheap = _CHEAP.get(runner.device.type, 64) if draft else 0
        self._slots = Slots()
        self._rows: list[Row] = []
        self._base: Base | None = None

    def run(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, list[int]]]:
        """Yield `(position, generated ids)` as rows end."""
        readers: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, prompt in enumerate(prompts):
            readers[prompt.tokens].append(index)
        steps = self._steps(readers)
        waiting: deque[_Arrival] = deque()
        exhausted = False
        while True:
            while len(self._rows) < self.max_rows and not (exhausted and not waiting):
                if not waiting:
                    step = next(steps, None)
                    exhausted = step is None
                    if step is not None:
                        waiting.extend(self._compute(*step, prompts))
                elif self._has_room(prompts[waiting[0].index]):
                    yield from self._admit(waiting.popleft(), prompts)
                else:
                    break
            if not self._rows:
                return
            yield from self._advance()

    def _steps(
        self, readers: Mapping[tuple[int, ...], list[int]]
    ) -> Iterator[tuple[PrefixTree, Step, dict[int, list[int]]]]:
        """Steps that compute all prompts, with their tree and who ends at which of its nodes: a tree of those that extend
        nothing, and one for each earlier prompt that some extend."""
        new = [(None, 0, list(readers))]
        for base, length, members in self.kept.parts(list(readers)) if self.kept is not None else new:
            tree = PrefixTree([tokens[length:] for tokens in members])
            ending = {tree.ends[place]: readers[tokens] for place, tokens in enumerate(members)}
            self._base = None
            self.runner.path.become([] if base is None else base.states, length)
            for step in tree.schedule(self.tokens_per_pass):
                yield tree, step.behind(length), ending

    def _compute(
        self, tree: PrefixTree, step: Step, ending: dict[int, list[int]], prompts: Sequence[Prompt]
    ) -> Iterator[_Arrival]:
        """Run a step of a prompt tree; whoever ends in it can start."""
        ends = {
            piece.at + piece.length - 1: ending[piece.node]
            for piece in step.pieces
            if piece.node in ending and piece.offset + piece.length == len(tree.nodes[piece.node].tokens)
        }
        places = sorted(ends)
        logits, states = self.runner.run(step, places, capture=bool(places))
        # What was cached for the step before is the path of this one if it is as long; then nothing was cut off it.
        bases = {step.depth: self._base} if self._base and self._base.length == step.depth else {}
        for row, place in enumerate(places):
            chain = step.keep if place >= step.below else 0
            depth = step.depth + chain
            if depth not in bases:
                bases[depth] = Base(self.runner.path.copy(depth), depth)
            own = torch.from_numpy(step.line(place)[chain:])
            base = bases[depth]
            if len(ends[place]) > 1 and len(own) > depth:  # several draws of a prompt that shares little with others
                base, own = _longer(base, states, own), own[:0]
            if self.kept is not None:
                whole = _longer(base, states, own) if len(own) else base
                self.kept.put(prompts[ends[place][0]].tokens, whole)
            for index in ends[place]:
                yield _Arrival(index, base, states, own, logits[row])
        self._base = bases.get(step.depth + step.keep)

    def _has_room(self, prompt: Prompt) -> bool:
        if not self._rows:
            return True
        layers = self._slots.layers
        per_token = sum(part[0, :, 0].numel() * part.element_size() for pair in layers for part in pair)
        longest = max(row.prompt_length + row.prompt.rules.max_gen_toks for row in self._rows)
        longest = max(longest, len(prompt.tokens) + prompt.rules.max_gen_toks)
        return bool(per_token * longest * (len(self._rows) + 1) <= self.cache_bytes)

    def _admit(self, arrival: _Arrival, prompts: Sequence[Prompt]) -> Iterator[tuple[int, list[int]]]:
        prompt = prompts[arrival.index]
        base = arrival.base
        shared = {id(row.base) for row in self._rows if row.base is not None}
        apart = base.length >= _SHARED_FROM and (id(base) in shared or len(shared) < _MOST_BASES)
        start = 0 if apart else base.length
        length = start + len(arrival.places)
        slot = len(self._rows)
        self._slots.reserve(arrival.states or base.states, slot + 1, length + 1)
        if start:
            self._slots.fill(slot, 0, base.states, torch.arange(start))
        if len(arrival.places):
            self._slots.fill(slot, start, arrival.states, arrival.places)
        row = Row(
            arrival.index,
            prompt,
            base if apart else None,
            length,
            NgramDrafter(prompt.tokens),
            StopWatch(prompt.rules, self.encoder),
        )
        self._rows.append(row)
        yield from self._extend([row], [[]], arrival.logits.unsqueeze(0))

    def _advance(self) -> Iterator[tuple[int, list[int]]]:
        """One pass: every row's last token and its draft go in, its next token and more come out."""
        rows = list(self._rows)
        drafts = self._draft(rows)
        spans = [RowSpan(row.base, row.length, 1 + len(draft)) for row, draft in zip(rows, drafts)]
        self._slots.reserve(self._slots.layers, len(rows), max(span.length + span.tokens for span in spans))
        plan = DecodePlan(self._slots, spans)
        tokens = np.concatenate([[row.ids[-1], *draft] for row, draft in zip(rows, drafts)])
        places = torch.arange(len(tokens), device=self.runner.device)
        before = self.runner.computed
        with linear_mode(LinearMode.GENERATING):
            logits = self.runner.forward(plan, tokens, plan.positions, places)
        self.runner.computed = before
        self.decoded += len(tokens)
        self.passes += 1
        yield from self._extend(rows, drafts, logits)

    def _draft(self, rows: list[Row]) -> list[list[int]]:
        spare = self._cheap - len(rows)
        drafts = []
        for row in rows:
            drafts.append(row.draft(spare) if spare > 0 else [])
            spare -= len(drafts[-1])
        return drafts

    def _extend(self, rows: list[Row], drafts: list[list[int]], logits: Any) -> Iterator[tuple[int, list[int]]]:
        """The logits stand in line: for each row those after its last token, then those after each token of its draft."""
        places = [
            Place(row.prompt, [*row.ids, *draft[:at]])
            for row, draft in zip(rows, drafts)
            for at in range(1 + len(draft))
        ]
        chosen = choose_tokens(places, logits)
        ended = []
        start = 0
        for row, draft in zip(rows, drafts):
            for place, expected in enumerate([*draft, None], start):
                token = chosen[place]
                row.say(token)
                if row.watch.reason(row.ids) is not None:
                    ended.append(row)
                    break
                if token != expected:
                    break
            if draft:
                row.drafter.learn(place - start)
            start += 1 + len(draft)
        # Not before all have been looked at: a row that takes the place of another must be whole by then.
        for row in ended:
            self._drop(row)
            yield row.index, row.ids

    def _drop(self, row: Row) -> None:
        slot = next(place for place, other in enumerate(self._rows) if other is row)
        last = self._rows.pop()
        if last is not row:
            self._slots.move(len(self._rows), slot, last.length)
            self._rows[slot] = last


def _longer(base: Base, states: KVCache, places: Any) -> Base:
    """The prefix with these places of a pass behind it."""
    layers = []
    for layer, pair in enumerate(states):
        own = [part[:, :, places.to(part.device)].to(kept_dtype(part)) for part in pair]
        before = base.states[layer] if base.states else [part[:, :, :0] for part in own]
        layers.append((torch.cat([before[0], own[0]], 2), torch.cat([before[1], own[1]], 2)))
    return Base(layers, base.length + len(places))
