"""Branching the model's own cache: what a prefix leaves behind is computed once and copied for everyone who continues it.

For models that the prefix tree does not fit. A recurrent layer keeps a small state and no keys that a mask could hide, and
some families attend in a way of their own; but all of them go on from the cache that transformers keeps for generation:

    prefix ──► cache ──┬─ copy ──► row 1      rows side by side, padded on the right: padding comes
                       ├─ copy ──► row 2      after everything that is read, so it changes nothing
                       └─ copy ──► row 3

So log-likelihoods are had too: a prefix that many requests share is computed once, the rest in padded batches.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from assay.models.hf.attention import innermost
from assay.models.hf.linear import LinearMode, linear_mode
from assay.models.hf.scoring import LogLikelihood, Tally, Wanted, log_probabilities, wanted_by_node
from assay.models.hf.tokenization import Scored
from assay.models.prefix_tree import PrefixTree

_WORTH = 48
"""Tokens that a cached prefix has to save: it is a pass of its own, and its cache is copied."""


class UnsupportedState(Exception):
    """The model's cache cannot be continued, copied or joined."""


class StateRunner:
    """One forward pass after another, each behind a cache."""

    def __init__(self, model: Any, *, shares: bool = True) -> None:
        self.model = model
        self.shares = shares
        """Whether a cache can be continued by more than one token, so that prefixes may be cached."""
        self.computed = 0
        """Tokens that went through the model."""
        takes = inspect.signature(innermost(model).forward).parameters
        self._cache_name = next((name for name in ("past_key_values", "cache_params") if name in takes), None)
        if self._cache_name is None:
            raise UnsupportedState("its forward method takes no cache")
        self._takes = {name for name in ("attention_mask", "position_ids", "logits_to_keep") if name in takes}

    @property
    def device(self) -> Any:
        return self.model.get_input_embeddings().weight.device

    def fresh(self) -> Cache:
        """An empty cache whose attention layers keep every key: rows are joined token by token."""
        cache = DynamicCache(config=self.model.config)
        cache.layers = [DynamicLayer() if type(one) is DynamicSlidingWindowLayer else one for one in cache.layers]
        return cache

    def extend(self, cache: Cache, rows: Sequence[Sequence[int]], keep: int) -> Any:
        """Logits `[rows, keep, vocabulary]` of the last places, padding among them; the cache grows by the rows."""
        width = max(map(len, rows))
        tokens = torch.zeros((len(rows), width), dtype=torch.long)
        for row, ids in enumerate(rows):
            tokens[row, : len(ids)] = torch.as_tensor(ids)
        self.computed += sum(map(len, rows))
        return self._forward(cache, tokens, {}, keep)

    def decode(self, cache: Cache, tokens: Sequence[int], lengths: Sequence[int]) -> Any:
        """Logits `[rows, vocabulary]` after one more token of each row, behind `lengths` tokens that it has read."""
        reach = torch.as_tensor(lengths)
        longest = int(reach.max())
        mask = torch.arange(longest + 1) >= (longest - reach).unsqueeze(1)
        given = {"attention_mask": mask.long(), "position_ids": reach.unsqueeze(1)}
        return self._forward(cache, torch.as_tensor(tokens).unsqueeze(1), given, 1)[:, -1]

    def _forward(self, cache: Cache, tokens: Any, given: dict[str, Any], keep: int) -> Any:
        options = {name: value.to(self.device) for name, value in given.items() if name in self._takes}
        if "logits_to_keep" in self._takes:
            options["logits_to_keep"] = keep
        options[str(self._cache_name)] = cache
        with torch.inference_mode():
            return self.model(input_ids=tokens.to(self.device), use_cache=True, **options).logits[:, -keep:]


def branch(cache: Cache, rows: Sequence[int] | int) -> Cache:
    """A copy with these rows of the cache, or its only row so many times."""
    with torch.inference_mode():
        copied = copy.deepcopy(cache)
        places = torch.as_tensor(list(rows) if not isinstance(rows, int) else [0] * rows)
        copied.reorder_cache(places)
    return copied


def select(cache: Cache, rows: Sequence[int], spare: int = 0) -> None:
    """Only these rows stay, without the first `spare` places, which are padding for all of them."""
    with torch.inference_mode():
        cache.reorder_cache(torch.as_tensor(list(rows)))
        for layer in cache.layers if spare else ():
            if getattr(layer, "keys", None) is not None and layer.keys.numel():
                layer.keys, layer.values = layer.keys[:, :, spare:], layer.values[:, :, spare:]


def size_of(cache: Cache) -> int:
    """Bytes of its keys, values and states."""
    size = 1
    for layer in cache.layers:
        states = [*getattr(layer, "conv_states", {}).values(), *getattr(layer, "recurrent_states", {}).values()]
        parts = [getattr(layer, "keys", None), getattr(layer, "values", None), *states]
        size += sum(part.numel() * part.element_size() for part in parts if part is not None)
    return size


def join(caches: Sequence[Cache]) -> Cache:
    """Rows of several caches in one: keys and values padded on the left to the longest, states as they are."""
    joined = copy.copy(caches[0])
    joined.layers = [_join_layers([cache.layers[index] for cache in caches]) for index in range(len(caches[0].layers))]
    return joined


def _join_layers(layers: Sequence[Any]) -> Any:
    joined = copy.copy(layers[0])
    with torch.inference_mode():
        if getattr(layers[0], "keys", None) is not None and layers[0].keys.numel():
            longest = max(layer.keys.shape[2] for layer in layers)
            joined.keys = torch.cat([_left_padded(layer.keys, longest) for layer in layers])
            joined.values = torch.cat([_left_padded(layer.values, longest) for layer in layers])
        for name in ("conv_states", "recurrent_states"):
            if states := getattr(layers[0], name, None):
                found = {index: [getattr(layer, name)[index] for layer in layers] for index in states}
                setattr(joined, name, {i: None if part[0] is None else torch.cat(part) for i, part in found.items()})
    return joined


def _left_padded(states: Any, length: int) -> Any:
    return torch.nn.functional.pad(states, (0, 0, length - states.shape[2], 0))


@dataclass(frozen=True, slots=True)
class Stem:
    """A prefix that is cached: nodes from below the stem above it, and what hangs from its end."""

    path: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    """Paths of nodes to the ends of sequences, each computed as one row."""
    stems: tuple[Stem, ...]


def plan_stems(
    tree: PrefixTree, ends: set[int], path: tuple[int, ...] = (), *, inner_ends: bool = False, shares: bool = True
) -> Stem:
    """Cut the tree into prefixes worth keeping and rows behind them.

    A sequence that ends inside of another is read on the way to the other, unless `inner_ends` asks for a row of its own.
    """
    counts = _ends_below(tree, ends)
    rows: list[tuple[int, ...]] = []
    stems: list[Stem] = []
    stack: list[tuple[int, ...]] = [(child,) for child in tree.children[path[-1] if path else 0]]
    while stack:
        way = stack.pop()
        node = way[-1]
        tokens = sum(len(tree.nodes[part].tokens) for part in way)
        if shares and tree.children[node] and tokens * (counts[node] - 1) >= _WORTH:
            stems.append(plan_stems(tree, ends, way, inner_ends=inner_ends))
            continue
        stack.extend((*way, child) for child in tree.children[node])
        if not tree.children[node] or (inner_ends and node in ends):
            rows.append(way)
    return Stem(path, tuple(rows), tuple(stems))


def _ends_below(tree: PrefixTree, ends: set[int]) -> list[int]:
    counts = [int(node in ends) for node in range(len(tree.nodes))]
    for node in sorted(range(1, len(tree.nodes)), key=lambda one: -tree.nodes[one].start):
        counts[tree.nodes[node].parent] += counts[node]
    return counts


def score_by_state(
    runner: StateRunner, requests: Sequence[Scored], budget: int, asked: Set[int] | None = None
) -> Iterator[tuple[int, LogLikelihood]]:
    """Yield `(position, (log-likelihood, is_greedy))` as passes that hold the last target of a request finish.

    With `asked`, passes that none of those requests needs are left out.
    """
    tree = PrefixTree([request.tokens for request in requests])
    wanted = wanted_by_node(tree, requests)
    nodes = {n for n, listed in wanted.items() if asked is None or any(want.request in asked for want in listed)}
    pass_ = _Pass(runner, tree, requests, wanted)
    stack: list[tuple[Stem, Any]] = [(plan_stems(tree, set(tree.ends)), None)]
    while stack:
        stem, above = stack.pop()
        if not _holds(stem, nodes):
            continue
        cache = None
        if stem.path:
            cache = runner.fresh() if above is None else branch(above, 1)
            yield from pass_.stem(stem.path, cache, budget)
        for rows in _batches(tree, stem.rows, budget):
            if any(node in nodes for row in rows for node in row):
                yield from pass_.rows(rows, runner.fresh() if cache is None else branch(cache, len(rows)))
        stack.extend((below, cache) for below in stem.stems)


def _holds(stem: Stem, nodes: Set[int]) -> bool:
    """Whether one of these nodes is in the stem or hangs from it."""
    own = any(node in nodes for way in (stem.path, *stem.rows) for node in way)
    return own or any(_holds(below, nodes) for below in stem.stems)


def _batches(tree: PrefixTree, rows: Sequence[tuple[int, ...]], budget: int) -> Iterator[list[tuple[int, ...]]]:
    """Longest first, so the first row of a batch says how wide it is."""
    sizes = {row: sum(len(tree.nodes[node].tokens) for node in row) for row in rows}
    batch: list[tuple[int, ...]] = []
    for row in sorted(rows, key=lambda row: -sizes[row]):
        if batch and (len(batch) + 1) * sizes[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class _Pass:
    """Passes over rows of nodes, and what requests look up in them."""

    def __init__(
        self, runner: StateRunner, tree: PrefixTree, requests: Sequence[Scored], wanted: dict[int, list[Wanted]]
    ) -> None:
        self.runner, self.tree, self.requests, self.wanted = runner, tree, requests, wanted
        self.tally = Tally(requests)

    def stem(self, path: tuple[int, ...], cache: Any, budget: int) -> Iterator[tuple[int, LogLikelihood]]:
        """In pieces of the budget, because a prefix may be as long as the model reads."""
        tokens = self._tokens(path)
        lookups = self._lookups(path, 0)
        for start in range(0, len(tokens), budget):
            piece = tokens[start : start + budget]
            here = [
                (row, place - start, target, owner)
                for row, place, target, owner in lookups
                if start <= place < start + len(piece)
            ]
            yield from self._run(cache, [piece], here)

    def rows(self, paths: Sequence[tuple[int, ...]], cache: Any) -> Iterator[tuple[int, LogLikelihood]]:
        lookups = [lookup for row, path in enumerate(paths) for lookup in self._lookups(path, row)]
        yield from self._run(cache, [self._tokens(path) for path in paths], lookups)

    def _run(
        self, cache: Any, rows: list[list[int]], lookups: list[tuple[int, int, int, int]]
    ) -> Iterator[tuple[int, LogLikelihood]]:
        width = max(map(len, rows))
        first = min((place for _, place, _, _ in lookups), default=width - 1)
        with linear_mode(LinearMode.SCORING):
            logits = self.runner.extend(cache, rows, width - first)
        if not lookups:
            return
        row, place, target, owner = (np.asarray(column, dtype=np.int64) for column in zip(*lookups))
        distinct, inverse = np.unique(row * (width - first) + place - first, return_inverse=True)
        picked = logits.reshape(-1, logits.shape[-1])[distinct]
        yield from self.tally.add(owner, *log_probabilities(picked, inverse, target))

    def _tokens(self, path: tuple[int, ...]) -> list[int]:
        return [token for node in path for token in self.tree.nodes[node].tokens.tolist()]

    def _lookups(self, path: tuple[int, ...], row: int) -> list[tuple[int, int, int, int]]:
        """Row, place, expected token and request of what is wanted on this path and was not on another."""
        found = []
        before = self.tree.nodes[path[0]].start
        for node in path:
            for want in self.wanted.pop(node, ()):
                request = self.requests[want.request]
                lead = len(request.tokens) - len(request.targets)
                found += [
                    (row, depth - before, request.targets[depth - lead], want.request)
                    for depth in range(want.first, want.last)
                ]
        return found
