"""Token sequences → a tree → a schedule that computes each distinct token once.

The requests of a benchmark share most of their tokens: the choices of a question share its context, the questions of a
subject share their examples. Merged into a tree, a shared token is one node:

    [Q1 A: x]          Q1 ── A: ──┬── x          5 requests of 3 tokens, 15 tokens in all,
    [Q1 A: y]   ──►               └── y          9 in the tree
    [Q2 A: x] …        Q2 ── A: ── x …

A schedule walks the tree depth first. A subtree that fits the token budget is computed whole, and subtrees that hang from
the same path are packed into one step. A subtree that does not fit has its own tokens computed first and cached (a
*chain*), and its children hang from the longer path. Where there is room, a chain shares its step with a pack beside it
and with the first pack below it. Nothing here knows a backend: a step only says which tokens to compute, whom each of
them sees, and how much of the cached path to drop before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from operator import attrgetter
from typing import Any

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
class TokenGroup:
    """Tokens `first` to `last` of a step, a subtree or a part of one, and the places that all of them see besides.

    The chain of the step is not among those: whatever lies below it sees all of it, as it sees the cached path.
    """

    first: int
    last: int
    above: NDArray[np.int64] = field(repr=False)
    pieces: tuple[Piece, ...] = field(repr=False)

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def keys(self) -> int:
        """Tokens seen by any of them."""
        return len(self.above) + len(self)

    @property
    def is_path(self) -> bool:
        """No branch: plain causal attention."""
        return all(piece.parent == piece.at - 1 for piece in self.pieces[1:])

    def sees(self) -> NDArray[np.bool_]:
        """Row by column: does this token of the group see that one?"""
        sees = np.zeros((len(self), len(self)), dtype=np.bool_)
        for piece in self.pieces:
            start = piece.at - self.first
            stop = start + piece.length
            if piece.parent >= self.first:
                sees[start:stop] = sees[piece.parent - self.first]
            sees[start:stop, start:stop] |= np.tri(piece.length, dtype=np.bool_)
        return sees


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass: `depth` tokens of the cached path, then these.

    Each token sees the cached path, its ancestors among these tokens, and itself. The first `keep` tokens are a single
    chain, to be added to the cached path; the tokens from place `below` on hang from its end.
    """

    depth: int
    keep: int
    pieces: tuple[Piece, ...]
    tokens: Tokens = field(repr=False)
    positions: Tokens = field(repr=False)

    def __len__(self) -> int:
        return len(self.tokens)

    def behind(self, length: int) -> Step:
        """The same below a path of so many tokens."""
        return replace(self, depth=self.depth + length, positions=self.positions + np.int32(length)) if length else self

    @property
    def below(self) -> int:
        if not self.keep:
            return len(self)
        return next((piece.at for piece in self.pieces if piece.parent == self.keep - 1), len(self))

    def line(self, place: int) -> NDArray[np.int64]:
        """Places of the step that the token at `place` sees, itself the last."""
        parts = []
        while place >= 0:
            piece = self.pieces[bisect_right(self.pieces, place, key=attrgetter("at")) - 1]
            parts.append(np.arange(piece.at, place + 1))
            place = piece.parent
        return np.concatenate(parts[::-1])

    def groups(self, limit: int) -> list[TokenGroup]:
        """The step in groups: the chain, whole subtrees of at most `limit` tokens, and the single pieces above them."""
        ends = self._ends()
        groups = []
        index = 0
        while index < len(self.pieces):
            piece = self.pieces[index]
            fits = piece.at >= self.keep and self._stop(ends[index]) - piece.at <= limit
            whole = ends[index] if fits else index + 1
            above = self.line(piece.parent) if piece.parent >= self.keep else np.zeros(0, dtype=np.int64)
            above = above[above >= self.keep]
            groups.append(TokenGroup(piece.at, self._stop(whole), above, self.pieces[index:whole]))
            index = whole
        return groups

    def _stop(self, pieces: int) -> int:
        """Where the first so many pieces end."""
        last = self.pieces[pieces - 1]
        return last.at + last.length

    def _ends(self) -> list[int]:
        """For each piece, the piece after its subtree; pieces are in depth-first order."""
        ends = [len(self.pieces)] * len(self.pieces)
        open_: list[int] = []
        for index, piece in enumerate(self.pieces):
            while open_ and piece.parent < self.pieces[open_[-1]].at:
                ends[open_.pop()] = index
            open_.append(index)
        return ends


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
        self._weights = [len(node.tokens) for node in self.nodes]
        for index in reversed(self._depth_first(0)):
            if index != 0:
                self._weights[self.nodes[index].parent] += self._weights[index]

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

    def _depth_first(self, top: int) -> list[int]:
        order, stack = [], [top]
        while stack:
            node = stack.pop()
            order.append(node)
            stack.extend(reversed(self.children[node]))
        return order

    def schedule(self, budget: int, first: int | None = None) -> Iterator[Step]:
        """Steps of at most `budget` tokens that compute every token of the tree once, parents first.

        With `first`, subtrees of about so many tokens go ahead of the others: their sequences are ready that much sooner.
        """
        stack: list[tuple[int, list[int]]] = [(0, [])]
        while stack:
            node, beside = stack.pop()
            chains = self._chains(node, budget)
            for chain in chains[:-1]:
                yield self._step(self.nodes[node].start + chain.offset, chain)
            filled = self._weight_of(beside) + (chains[-1].length if chains else 0)
            below, *packs = self._packs(node, budget, filled)
            if chains:
                ahead, rest = self._split(below, first)
                yield self._step(self.nodes[node].start + chains[-1].offset, chains[-1], beside, ahead)
                packs = [rest, *packs] if rest else packs
                first = None if below else first
            elif packs and first is not None:
                packs = [pack for pack in (*self._split(packs[0], first), *packs[1:]) if pack]
                first = None
            # The tokens of a heavy child ride in a pack that hangs from the same path, the lightest if it has room.
            waiting = []
            for child in (child for child in self.children[node] if self._weights[child] > budget):
                rides = packs and self._weight_of(packs[-1]) + len(self.nodes[child].tokens) <= budget
                waiting.append((child, packs.pop() if rides else []))
            for pack in packs:
                yield self._step(self.nodes[node].stop, None, pack)
            stack.extend(reversed(waiting))

    def _chains(self, node: int, budget: int) -> list[Piece]:
        """The tokens of a node, cut where the budget wants it."""
        length = len(self.nodes[node].tokens)
        return [Piece(node, at, min(budget, length - at), 0, -1) for at in range(0, length, budget)]

    def _packs(self, node: int, budget: int, filled: int) -> list[list[int]]:
        """The children of a node that fit the budget, in packs. The first shares its step with `filled` other tokens and
        may be empty; the others are sorted, the lightest last.

        As few packs as can be, and of like size: what is left over for a small one would be computed at the speed of a
        small pass.
        """
        light = [child for child in self.children[node] if self._weights[child] <= budget]
        light.sort(key=lambda child: -self._weights[child])
        count = -(-(filled + sum(self._weights[child] for child in light)) // budget)
        while light:
            others = [(0, index, list[int]()) for index in range(1, count + (not filled))]
            packs = [*others, (filled, 0, [])] if filled else others  # in order, so it is a heap
            for child in light:
                weight, index, pack = heappop(packs)
                pack.append(child)
                heappush(packs, (weight + self._weights[child], index, pack))
            if max(packs)[0] <= budget:
                first = next((pack for _, index, pack in packs if index == 0), [])
                return [first, *(pack for _, index, pack in sorted(packs, reverse=True) if index and pack)]
            count += 1 + count // 8
        return [[]]

    def _split(self, tops: list[int], first: int | None) -> tuple[list[int], list[int]]:
        """The lightest subtrees of a pack, at least one and about `first` tokens, and the others; all if few are left."""
        if not first or self._weight_of(tops) < 2 * first:
            return tops, []
        rest = list(tops)
        ahead = [rest.pop()]
        while rest and self._weight_of(ahead) + self._weights[rest[-1]] <= first:
            ahead.append(rest.pop())
        return ahead, rest

    def _weight_of(self, tops: Sequence[int]) -> int:
        return sum(self._weights[top] for top in tops)

    def _step(self, depth: int, chain: Piece | None, beside: Sequence[int] = (), below: Sequence[int] = ()) -> Step:
        """A chain, subtrees that hang from the same path as it does, and subtrees that hang from its end."""
        pieces = [chain] if chain else []
        last_place: dict[int, int] = {}
        at = keep = chain.length if chain else 0
        for parent, tops in ((-1, beside), (keep - 1, below)):
            for top in tops:
                for index in self._depth_first(top):
                    length = len(self.nodes[index].tokens)
                    above = parent if index == top else last_place[self.nodes[index].parent]
                    pieces.append(Piece(index, 0, length, at, above))
                    at += length
                    last_place[index] = at - 1
        tokens = [self.nodes[piece.node].tokens[piece.offset : piece.offset + piece.length] for piece in pieces]
        starts = [self.nodes[piece.node].start + piece.offset for piece in pieces]
        positions = [np.arange(start, start + len(part), dtype=np.int32) for start, part in zip(starts, tokens)]
        return Step(depth, keep, tuple(pieces), np.concatenate(tokens), np.concatenate(positions))


def count_distinct(sequences: Sequence[Sequence[int]]) -> int:
    """Tokens a prefix-sharing backend computes for these sequences."""
    arrays = sorted(_key(np.asarray(sequence, dtype=np.int32)) for sequence in sequences)
    tokens = [np.frombuffer(key, dtype=">u4") for key in arrays]
    first = len(tokens[0]) if tokens else 0
    return first + sum(len(after) - common_prefix(before, after) for before, after in pairwise(tokens))


def prefix_order(prompts: Sequence[Any]) -> list[int]:
    """Positions of prompts, texts or token ids, in the order that walks the tree of their prefixes depth first.

    For servers: prompts that begin alike go out one after the other, while its cache still holds what they share.
    """
    return sorted(range(len(prompts)), key=prompts.__getitem__)


def _key(tokens: Tokens) -> bytes:
    # Big-endian bytes compare as the token lists do, at the speed of memcmp.
    return tokens.astype(">u4").tobytes()


def common_prefix(left: NDArray[np.integer], right: NDArray[np.integer]) -> int:
    """How many tokens two sequences have in common at their beginnings."""
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
        shared = 0 if before is None else common_prefix(arrays[before], array)
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
