"""The shots of one task: its pool of solved docs, rendered once each, and the draw for every doc."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, cast

from assay.data import Docs
from assay.errors import DataError
from assay.instance import Doc
from assay.tasks.fewshot import IsAsked, Sampler
from assay.tasks.prompt import Shot

KEPT_SHOTS = 20_000
"""Rendered shots held at a time: all of an ordinary pool, and a bound where the pool is a large training split."""


class Draw(NamedTuple):
    """The shots of one doc before they are rendered: positions in the pool, or docs of it."""

    shots: Sequence[Any]
    replaced: bool
    """Whether the doc was among its own shots and got another one."""


class ShotBook:
    """Draws shots for docs in the order it is asked; renders a draw whenever it is wanted."""

    def __init__(
        self,
        pool: Docs,
        sampler: Sampler,
        render: Callable[[Doc], Shot],
        *,
        excludes: bool,
        positions: Sequence[int] | None = None,
        pool_is_asked: bool = False,
    ) -> None:
        self._pool, self._sampler, self._render = pool, sampler, render
        self._excludes = excludes
        self._positions = positions
        self._pool_is_asked = pool_is_asked
        self._shots: OrderedDict[int, Shot] = OrderedDict()

    def draw(self, doc_id: int, doc: Doc, n: int) -> Draw:
        """The `n` shots of a doc. Every call consumes the draw of one doc."""

        def is_asked(position: int) -> bool:
            return (self._pool_is_asked and self._place(position) == doc_id) or self._shot(position).doc == doc

        drawn = self._sampler.draw(n, is_asked if self._excludes else None)
        shots = [self._shot(position) for position in drawn]
        if doc in [shot.doc for shot in shots] or (self._pool_is_asked and doc_id in map(self._place, drawn)):
            return Draw(self._replace(drawn, is_asked, doc_id), replaced=True)
        return Draw(drawn, replaced=False)

    def render(self, draw: Draw) -> list[Shot]:
        return [self._shot(position) for position in draw.shots]

    def _replace(self, drawn: list[int], is_asked: IsAsked, doc_id: int) -> list[int]:
        """The same positions with another one wherever the doc itself was drawn."""
        for k, position in enumerate(drawn):
            if not is_asked(position):
                continue
            other = self._sampler.another(drawn, is_asked, f"{doc_id}/{k}")
            if other is None:
                raise DataError(
                    f"{len(drawn)} shots were asked for, but the few-shot split has fewer docs besides the doc itself",
                    hint="Ask for fewer with --num_fewshot, or name a larger fewshot_split.",
                )
            drawn[k] = other
        return drawn

    def _place(self, position: int) -> int:
        return position if self._positions is None else self._positions[position]

    def _shot(self, position: int) -> Shot:
        found = self._shots.get(position)
        if found is None:
            place = self._place(position)
            try:
                found = self._render(cast(Doc, self._pool[place]))
            except DataError as error:
                raise DataError(f"few-shot doc {place}: {error.message}", hint=error.hint) from error
            self._shots[position] = found
            if len(self._shots) > KEPT_SHOTS:
                self._shots.popitem(last=False)
        return found


class ForeignSampler:
    """A sampler class of a task file, written for lm-evaluation-harness: it draws docs, not positions."""

    def __init__(
        self, cls: Callable[..., Any], pool: Docs, seed: int | None, render: Callable[[Doc], Shot], *, excludes: bool
    ) -> None:
        self._docs: list[Doc] = [*pool]
        self._sampler = cls(self._docs, rnd=None)
        self._sampler.set_rnd(seed)
        self._seed, self._render, self._excludes = seed, render, excludes

    def draw(self, doc_id: int, doc: Doc, n: int) -> Draw:
        drawn = [*self._sampler.sample(n=n, eval_doc=doc if self._excludes else None)]
        replaced = doc in drawn
        if replaced:
            others = [other for other in self._docs if other != doc and other not in drawn]
            missing = drawn.count(doc)
            if len(others) < missing:
                raise DataError(
                    f"{n} shots were asked for, but the few-shot split has fewer docs besides the doc itself",
                    hint="Ask for fewer with --num_fewshot, or name a larger fewshot_split.",
                )
            spare = iter(Random(f"{self._seed}/{doc_id}").sample(others, missing))
            drawn = [next(spare) if shot == doc else shot for shot in drawn]
        return Draw(drawn, replaced)

    def render(self, draw: Draw) -> list[Shot]:
        return [self._render(shot) for shot in draw.shots]
