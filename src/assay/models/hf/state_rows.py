"""Generation behind cached states: each prompt is read without padding, then rows are decoded side by side.

Recurrent layers cannot skip padding, so none goes through them: a shared prefix is computed once, each prompt goes on from a
copy of its cache, prompts with equally many tokens left together. Decoding joins the caches: states as they are, keys and
values padded on the left, where a mask hides them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from assay.models.hf.linear import LinearMode, linear_mode
from assay.models.hf.row import Place, Prompt, choose_tokens
from assay.models.hf.state import StateRunner, Stem, branch, join, plan_stems, select, size_of
from assay.models.hf.stops import StopWatch
from assay.models.hf.tokenization import TextEncoder
from assay.models.prefix_tree import PrefixTree


@dataclass(frozen=True, slots=True)
class _StateArrival:
    """A prompt that has been read: whose it is, its cache of one row, and the logits after its last token."""

    indices: list[int]
    cache: Any
    logits: Any


@dataclass(slots=True)
class _Row:
    index: int
    prompt: Prompt
    watch: StopWatch
    ids: list[int]

    @property
    def length(self) -> int:
        """Tokens in the cache; the last one said is not."""
        return len(self.prompt.tokens) + len(self.ids) - 1


class StateGenerator:
    """Runs prompts to their ends, at most `max_rows` at a time."""

    def __init__(
        self, runner: StateRunner, encoder: TextEncoder, *, tokens_per_pass: int, max_rows: int, cache_bytes: int
    ) -> None:
        self.runner = runner
        self.encoder = encoder
        self.tokens_per_pass = tokens_per_pass
        self.max_rows = max_rows
        self.cache_bytes = cache_bytes
        self._rows: list[_Row] = []
        self._cache: Any = None

    def run(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, list[int]]]:
        """Yield `(position, generated ids)` as rows end."""
        arrivals = self._read(prompts)
        waiting: list[_StateArrival] = []
        exhausted = False
        while True:
            # Joining copies the cache, so rows wait until half of the places are free.
            if not exhausted and len(self._rows) <= self.max_rows // 2:
                while sum(len(one.indices) for one in waiting) + len(self._rows) < self.max_rows and not exhausted:
                    arrival = next(arrivals, None)
                    exhausted = arrival is None
                    if arrival is not None:
                        waiting.append(arrival)
                        self._fit_memory(arrival, prompts[arrival.indices[0]])
                yield from self._admit(waiting, prompts)
                waiting = []
            if not self._rows and exhausted:
                return
            if self._rows:
                yield from self._advance()

    def _fit_memory(self, arrival: _StateArrival, prompt: Prompt) -> None:
        """No more rows than would fit if all became as long as this one may."""
        grown = 1 + prompt.rules.max_gen_toks / len(prompt.tokens)
        self.max_rows = max(1, min(self.max_rows, int(self.cache_bytes / (grown * size_of(arrival.cache)))))

    def _read(self, prompts: Sequence[Prompt]) -> Iterator[_StateArrival]:
        readers: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, prompt in enumerate(prompts):
            readers[prompt.tokens].append(index)
        tree = PrefixTree(list(readers))
        ending = {tree.ends[i]: indices for i, indices in enumerate(readers.values())}
        stack: list[tuple[Stem, Any]] = [
            (plan_stems(tree, set(ending), inner_ends=True, shares=self.runner.shares), None)
        ]
        while stack:
            stem, above = stack.pop()
            cache = None
            if stem.path:
                cache = self.runner.fresh() if above is None else branch(above, 1)
                logits = self._extend(cache, [_tokens(tree, stem.path)])
                if stem.path[-1] in ending:
                    yield _StateArrival(ending[stem.path[-1]], branch(cache, 1), logits[0])
            yield from self._read_rows(tree, stem, cache, ending)
            stack.extend((below, cache) for below in stem.stems)

    def _read_rows(
        self, tree: PrefixTree, stem: Stem, cache: Any, ending: dict[int, list[int]]
    ) -> Iterator[_StateArrival]:
        by_length: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for path in stem.rows:
            by_length[len(_tokens(tree, path))].append(path)
        for length, paths in by_length.items():
            size = max(1, self.tokens_per_pass // length)
            for start in range(0, len(paths), size):
                some = paths[start : start + size]
                behind = self.runner.fresh() if cache is None else branch(cache, len(some))
                logits = self._extend(behind, [_tokens(tree, path) for path in some])
                for row, path in enumerate(some):
                    yield _StateArrival(ending[path[-1]], branch(behind, [row]), logits[row])

    def _extend(self, cache: Any, rows: list[list[int]]) -> Any:
        """Logits after the last token of rows of one length, in pieces that fit a pass."""
        step = max(1, self.tokens_per_pass // len(rows)) if self.runner.shares else len(rows[0])
        with linear_mode(LinearMode.SCORING):
            for start in range(0, len(rows[0]), step):
                logits = self.runner.extend(cache, [row[start : start + step] for row in rows], 1)
        return logits[:, -1]

    def _admit(self, arrivals: Sequence[_StateArrival], prompts: Sequence[Prompt]) -> Iterator[tuple[int, list[int]]]:
        fresh = [
            _Row(index, prompts[index], StopWatch(prompts[index].rules, self.encoder), [])
            for arrival in arrivals
            for index in arrival.indices
        ]
        if not fresh:
            return
        caches = [branch(arrival.cache, len(arrival.indices)) for arrival in arrivals]
        self._cache = join([*([self._cache] if self._rows else []), *caches])
        self._rows += fresh
        logits = torch.cat([arrival.logits.expand(len(arrival.indices), -1) for arrival in arrivals])
        yield from self._say(fresh, logits)

    def _advance(self) -> Iterator[tuple[int, list[int]]]:
        rows = list(self._rows)
        with linear_mode(LinearMode.GENERATING):
            logits = self.runner.decode(self._cache, [row.ids[-1] for row in rows], [row.length for row in rows])
        yield from self._say(rows, logits)

    def _say(self, rows: Sequence[_Row], logits: Any) -> Iterator[tuple[int, list[int]]]:
        """One more token for each of these rows; those that end leave."""
        for row, token in zip(rows, choose_tokens([Place(row.prompt, row.ids) for row in rows], logits)):
            row.ids.append(token)
        ended = [row for row in rows if row.watch.reason(row.ids) is not None]
        if ended:
            gone = {id(row) for row in ended}
            places = [place for place, row in enumerate(self._rows) if id(row) not in gone]
            longest = max(row.length for row in self._rows)
            self._rows = [self._rows[place] for place in places]
            spare = longest - max((row.length for row in self._rows), default=longest)
            if places:
                select(self._cache, places, spare)
        yield from ((row.index, row.ids) for row in ended)


def _tokens(tree: PrefixTree, path: tuple[int, ...]) -> list[int]:
    return [token for node in path for token in tree.nodes[node].tokens.tolist()]
