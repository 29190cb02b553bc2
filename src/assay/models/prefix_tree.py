"""Token sequences → a tree → a schedule that computes each distinct token once.

The requests of a benchmark share most of their tokens: the choices of a question share its context, the questions of a
subject share their examples. Merged into a tree, a shared token is one node:

    [Q1 A: x]          Q1 ── A: ──┬── x          5 requests of 3 tokens, 15 tokens in all,
    [Q1 A: y]   ──►               └── y          9 in the tree
    [Q2 A: x] …        Q2 ── A: ── x …

A schedule walks the tree depth first. A subtree that fits the token budget is a *block*, and blocks that hang from the
same path are packed into one step. A subtree that does not fit has its own tokens computed first and kept (a *chain*),
and its children hang from the longer path. Nothing here knows a backend: a step only says which tokens to compute, whom
each of them sees, and how much of the kept path to drop before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Node:
    """A run of tokens without a branch, at depths `start` to `stop` of every sequence below it."""

    parent: int
    start: int
    tokens: Tokens

    @property
    def stop(self) -> int:
        return self.start + len(self.tokens)


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens `offset` to `offset + length` of a node, placed at `at` in a step; `parent` is a place there, or -1."""

    node: int
    offset: int
    length: int
    at: int
    parent: int


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass: `depth` tokens of the kept path, then these.

    Each token sees the kept path, its ancestors among these tokens, and itself. `blocks` are the borders of subtrees that
    do not see each other. With `keep` the tokens are a single chain, to be added to the kept path.
    """

    depth: int
    keep: bool
    pieces: tuple[Piece, ...]
    blocks: tuple[int, ...]
    tokens: Tokens = field(repr=False)
    positions: Tokens = field(repr=False)

    def __len__(self) -> int:
        return len(self.tokens)

    def ancestors(self, block: int) -> NDArray[np.bool_]:
        """Row by column: does this token of the block see that one?"""
        first, last = self.blocks[block], self.blocks[block + 1]
        sees = np.zeros((last - first, last - first), dtype=np.bool_)
        for piece in self.pieces:
            if not first <= piece.at < last:
                continue
            start = piece.at - first
            stop = start + piece.length
            if piece.parent >= 0:
                sees[start:stop] = sees[piece.parent - first]
            sees[start:stop, start:stop] |= np.tri(piece.length, dtype=np.bool_)
        return sees

    def is_path(self, block: int) -> bool:
        """A block without a branch: plain causal attention."""
        first, last = self.blocks[block], self.blocks[block + 1]
        return all(piece.parent in (piece.at - 1, -1) for piece in self.pieces if first <= piece.at < last)


class PrefixTree:
    """The sequences merged. `ends[i]` is the node at whose last token sequence `i` ends; node 0 is the empty root.

    >>> tree = PrefixTree([[1, 2, 3], [1, 2, 4], [1, 2]])
    >>> tree.size
    4
    >>> [tree.nodes[n].tokens.tolist() for n in tree.path(tree.ends[0])]
    [[1, 2], [3]]
    """

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        arrays = [np.asarray(sequence, dtype=np.int32) for sequence in sequences]
        self.nodes, self.ends = _merge(arrays)
        self.children: list[list[int]] = [[] for _ in self.nodes]
        for index, node in enumerate(self.nodes[1:], start=1):
            self.children[node.parent].append(index)
        self._weights = self._weigh()

    @property
    def size(self) -> int:
        """Distinct tokens: what has to be computed, however many sequences there are."""
        return self._weights[0]

    def weight(self, node: int) -> int:
        """Tokens of the node and of everything below it."""
        return self._weights[node]

    def path(self, node: int) -> list[int]:
        """Nodes from below the root to this one."""
        nodes = []
        while node != 0:
            nodes.append(node)
            node = self.nodes[node].parent
        return nodes[::-1]

    def _weigh(self) -> list[int]:
        weights = [len(node.tokens) for node in self.nodes]
        for node in reversed(self._depth_first(0)):
            if node != 0:
                weights[self.nodes[node].parent] += weights[node]
        return weights

    def _depth_first(self, top: int) -> list[int]:
        order, stack = [], [top]
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(reversed(self.children[node]))
        return order

    def schedule(self, budget: int) -> Iterator[Step]:
        """Steps of at most `budget` tokens that compute every token of the tree once, parents first."""
        stack = [0]
        while stack:
            node = stack.pop()
            yield from self._chain(node, budget)
            light = [child for child in self.children[node] if self._weights[child] <= budget]
            yield from self._blocks(light, self.nodes[node].stop, budget)
            stack.extend(child for child in reversed(self.children[node]) if self._weights[child] > budget)

    def _chain(self, node: int, budget: int) -> Iterator[Step]:
        tokens, start = self.nodes[node].tokens, self.nodes[node].start
        for offset in range(0, len(tokens), budget):
            part = tokens[offset : offset + budget]
            depth = start + offset
            yield Step(
                depth=depth,
                keep=True,
                pieces=(Piece(node, offset, len(part), 0, -1),),
                blocks=(0, len(part)),
                tokens=part,
                positions=np.arange(depth, depth + len(part), dtype=np.int32),
            )

    def _blocks(self, tops: list[int], depth: int, budget: int) -> Iterator[Step]:
        # Blocks of like size together: a backend that pads blocks to the longest then pads little.
        pack: list[int] = []
        filled = 0
        for top in sorted(tops, key=lambda top: -self._weights[top]):
            if pack and filled + self._weights[top] > budget:
                yield self._pack(pack, depth)
                pack, filled = [], 0
            pack.append(top)
            filled += self._weights[top]
        if pack:
            yield self._pack(pack, depth)

    def _pack(self, tops: list[int], depth: int) -> Step:
        pieces: list[Piece] = []
        blocks = [0]
        last_place: dict[int, int] = {}
        at = 0
        for top in tops:
            for index in self._depth_first(top):
                node = self.nodes[index]
                parent = -1 if index == top else last_place[node.parent]
                pieces.append(Piece(index, 0, len(node.tokens), at, parent))
                at += len(node.tokens)
                last_place[index] = at - 1
            blocks.append(at)
        nodes = [self.nodes[piece.node] for piece in pieces]
        return Step(
            depth=depth,
            keep=False,
            pieces=tuple(pieces),
            blocks=tuple(blocks),
            tokens=np.concatenate([node.tokens for node in nodes]),
            positions=np.concatenate([np.arange(node.start, node.stop, dtype=np.int32) for node in nodes]),
        )


def count_distinct(sequences: Sequence[Sequence[int]]) -> int:
    """Tokens a prefix-sharing backend computes for these sequences."""
    arrays = sorted(_key(np.asarray(sequence, dtype=np.int32)) for sequence in sequences)
    tokens = [np.frombuffer(key, dtype=">u4") for key in arrays]
    first = len(tokens[0]) if tokens else 0
    return first + sum(len(after) - _common_prefix(before, after) for before, after in pairwise(tokens))


def prefix_order(texts: Sequence[str]) -> list[int]:
    """Positions in the order that keeps shared prefixes next to each other, for servers with a prefix cache."""
    return sorted(range(len(texts)), key=texts.__getitem__)


def _key(tokens: Tokens) -> bytes:
    # Big-endian bytes compare as the token lists do, at the speed of memcmp.
    return tokens.astype(">u4").tobytes()


def _common_prefix(left: NDArray[np.integer], right: NDArray[np.integer]) -> int:
    shorter = min(len(left), len(right))
    differs = left[:shorter] != right[:shorter]
    return int(differs.argmax()) if differs.any() else shorter


def _merge(arrays: list[Tokens]) -> tuple[list[Node], list[int]]:
    """Insert sequences in sorted order; then each branches off the path to the one before it."""
    keys = [_key(array) for array in arrays]
    starts, stops, parents, sources = [0], [0], [-1], [-1]
    ends = [0] * len(arrays)
    path = [0]
    before: int | None = None
    for index in sorted(range(len(arrays)), key=keys.__getitem__):
        array = arrays[index]
        shared = 0 if before is None else _common_prefix(arrays[before], array)
        while stops[path[-1]] > shared:
            node = path.pop()
            if starts[node] < shared:
                # The branch is inside this node: its upper part becomes a node of its own, the lower keeps its name.
                starts.append(starts[node])
                stops.append(shared)
                parents.append(parents[node])
                sources.append(sources[node])
                path.append(len(starts) - 1)
                starts[node], parents[node] = shared, path[-1]
        if len(array) > shared:
            starts.append(shared)
            stops.append(len(array))
            parents.append(path[-1])
            sources.append(index)
            path.append(len(starts) - 1)
        ends[index] = path[-1]
        before = index
    empty = np.zeros(0, dtype=np.int32)
    nodes = [
        Node(parent, start, arrays[source][start:stop] if source >= 0 else empty)
        for parent, start, stop, source in zip(parents, starts, stops, sources)
    ]
    return nodes, ends
