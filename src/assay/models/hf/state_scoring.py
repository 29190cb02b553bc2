"""Log-likelihoods behind cached states: a prefix that many requests share is computed once, the rest in padded batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.models.hf.linear import LinearMode, linear_mode
from assay.models.hf.scoring import LogLikelihood, Tally, Wanted, log_probabilities, wanted_by_node
from assay.models.hf.state import StateRunner, branch
from assay.models.hf.tokenization import Scored
from assay.models.prefix_tree import PrefixTree

_WORTH = 48
"""Tokens that a cached prefix has to save: it is a pass of its own, and its cache is copied."""


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


def score_by_state(runner: StateRunner, requests: Sequence[Scored], budget: int) -> Iterator[tuple[int, LogLikelihood]]:
    """Yield `(position, (log-likelihood, is_greedy))` as passes that hold the last target of a request finish."""
    tree = PrefixTree([request.tokens for request in requests])
    pass_ = _Pass(runner, tree, requests, wanted_by_node(tree, requests))
    stack: list[tuple[Stem, Any]] = [(plan_stems(tree, set(tree.ends)), None)]
    while stack:
        stem, above = stack.pop()
        cache = None
        if stem.path:
            cache = runner.fresh() if above is None else branch(above, 1)
            yield from pass_.stem(stem.path, cache, budget)
        for rows in _batches(tree, stem.rows, budget):
            yield from pass_.rows(rows, runner.fresh() if cache is None else branch(cache, len(rows)))
        stack.extend((below, cache) for below in stem.stems)


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
