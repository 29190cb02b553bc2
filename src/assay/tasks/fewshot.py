"""Few-shot examples: which docs become shots, and never the doc that is evaluated.

A sampler chooses, by looking at the docs or at nothing but their number. It is consumed in the order of the docs, one
sampler per task, so that the draws of `default` and `first_n` are those of lm-evaluation-harness.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from random import Random
from typing import Any, NamedTuple, TypeAlias, cast, overload

from assay.config import FunctionRef
from assay.data import Docs
from assay.errors import DataError
from assay.instance import Doc
from assay.registry import Registry
from assay.tasks.prompt import Shot

KEPT = 20_000
"""Docs of a pool, and rendered shots, held at a time: all of an ordinary pool, and a bound for a large training split."""

Chosen: TypeAlias = int | Doc
"""A shot before it is rendered: its position in the pool, or, from a sampler of a task file, a doc."""


class FewshotPool(Sequence[Doc]):
    """The docs that shots are drawn from; one is read when it is looked at, and remembered for the next look."""

    def __init__(self, docs: Docs, indices: Sequence[int] | None = None, *, is_evaluated: bool = False) -> None:
        """`indices` are `fewshot_indices`; `is_evaluated` says that these very docs are also the ones evaluated."""
        self.docs, self.is_evaluated = docs, is_evaluated
        self._indices = indices
        self._read: OrderedDict[int, Doc] = OrderedDict()

    def __len__(self) -> int:
        return len(self.docs if self._indices is None else self._indices)

    @overload
    def __getitem__(self, position: int) -> Doc: ...

    @overload
    def __getitem__(self, position: slice) -> list[Doc]: ...

    def __getitem__(self, position: int | slice) -> Doc | list[Doc]:
        if type(position) is int and (known := self._read.get(position)) is not None:
            return known
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        if position not in self._read:
            remember(self._read, position, cast(Doc, self.docs[self.place(position)]))
        return self._read[position]

    def place(self, position: int) -> int:
        """Where in the split the doc stands."""
        return position if self._indices is None else self._indices[position]


def remember(cache: OrderedDict[int, Any], position: int, value: Any) -> None:
    cache[position] = value
    if len(cache) > KEPT:
        cache.popitem(last=False)


class EvalDoc(NamedTuple):
    """The doc that shots are drawn for."""

    doc_id: int
    doc: Doc
    pool: FewshotPool
    is_excluded: bool
    """Whether lm-evaluation-harness leaves it out of the draw."""

    def is_shot(self, shot: Chosen) -> bool:
        """Whether a shot is the doc itself: by its place, or a copy of it anywhere in the pool."""
        if isinstance(shot, dict):
            return shot == self.doc
        return (self.pool.is_evaluated and self.pool.place(shot) == self.doc_id) or self.pool[shot] == self.doc


class Draw(NamedTuple):
    shots: Sequence[Chosen]
    replaced: bool = False
    """Whether the doc was among its own shots and got another one."""


# ---------------------------------------------------------------------- samplers


class Sampler:
    """Chooses the shots for a task's docs. Your own sampler only needs `sample`.

    `docs` is the pool: `len(docs)` and `docs[position]`. What is never looked at is never read.
    """

    def __init__(self, docs: Sequence[Doc], seed: int | None) -> None:
        self.docs, self.seed = docs, seed

    def sample(self, n: int, eval_doc: Doc, candidates: Sequence[int]) -> Sequence[int]:
        """`n` of the candidates, which are positions in `docs`, in the order in which the shots are shown.

        There are at least `n`. Should `eval_doc` itself be chosen, it is no candidate when the same is drawn again.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how to choose shots")

    def draw(self, n: int, evaluated: EvalDoc) -> Draw:
        """`n` shots, none of them the doc itself."""
        candidates: Sequence[int] = range(len(self.docs))
        check_size(n, len(candidates))
        while True:
            chosen = self.sample(n, evaluated.doc, candidates)
            if len(chosen) != n or not all(position in candidates for position in chosen):
                raise DataError(f"{type(self).__name__} chose {[*chosen]}, expected {n} of the positions it was given")
            itself = {position for position in chosen if evaluated.is_shot(position)}
            if not itself:
                return Draw(chosen)
            candidates = [position for position in candidates if position not in itself]
            check_size(n, len(candidates), besides=True)


class LmEvalSampler(Sampler):
    """Draws as lm-evaluation-harness does.

    There the doc is left out only where pool and evaluated split carry one name. Elsewhere a doc that was drawn as its
    own shot gets another one in that place, chosen apart, so that no other prompt changes.
    """

    def draw(self, n: int, evaluated: EvalDoc) -> Draw:
        drawn = [*(self.draw_others(n, evaluated) if evaluated.is_excluded else self.draw_blindly(n))]
        own = [k for k, shot in enumerate(drawn) if evaluated.is_shot(shot)]
        if own:
            self.replace(drawn, own, evaluated)
        return Draw(drawn, replaced=bool(own))

    def draw_blindly(self, n: int) -> Sequence[Chosen]:
        check_size(n, len(self.docs))
        return self.sample(n, {}, range(len(self.docs)))

    def draw_others(self, n: int, evaluated: EvalDoc) -> Sequence[Chosen]:
        """One more is drawn and the doc removed; if copies of it were drawn too, all are drawn again from the rest."""
        everything = range(len(self.docs))
        check_size(n, len(everything))
        drawn = self.sample(min(n + 1, len(everything)), evaluated.doc, everything)
        others_first = [*islice((position for position in drawn if not evaluated.is_shot(position)), n)]
        if len(others_first) == n:
            return others_first
        others = [position for position in everything if not evaluated.is_shot(position)]
        check_size(n, len(others), besides=True)
        return self.sample(n, evaluated.doc, others)

    def replace(self, drawn: list[Chosen], own: Sequence[int], evaluated: EvalDoc) -> None:
        """Put other shots where `drawn` has the doc itself, each the first in `spares` that is free."""
        for k in own:
            spares = (position for position in self.spares(len(drawn), evaluated, k) if position not in drawn)
            other = next((position for position in spares if not evaluated.is_shot(position)), None)
            if other is None:
                raise too_few_others(len(drawn))
            drawn[k] = other

    def spares(self, n: int, evaluated: EvalDoc, k: int) -> Iterable[int]:
        """Positions to try in place of the `k`-th of `n` shots."""
        return range(len(self.docs))


class RandomSampler(LmEvalSampler):
    """`default`: without replacement, afresh for every doc."""

    def __init__(self, docs: Sequence[Doc], seed: int | None) -> None:
        super().__init__(docs, seed)
        self._random = Random(seed)

    def sample(self, n: int, eval_doc: Doc, candidates: Sequence[int]) -> Sequence[int]:
        return self._random.sample(candidates, n)

    def spares(self, n: int, evaluated: EvalDoc, k: int) -> Iterable[int]:
        """Drawn apart, so that the draws of later docs stay what they are."""
        everything, apart = range(len(self.docs)), Random(f"{self.seed}/{evaluated.doc_id}/{k}")
        return chain(apart.sample(everything, min(len(everything), n + 8)), everything)


class FirstSampler(LmEvalSampler):
    """`first_n`: the first ones, in order; where one is excluded, the next one moves up."""

    def sample(self, n: int, eval_doc: Doc, candidates: Sequence[int]) -> Sequence[int]:
        return candidates[:n]


class TaskFileSampler(LmEvalSampler):
    """A sampler class that a task file brings for lm-evaluation-harness: it gets all docs at once, and gives docs."""

    def __init__(self, make: Callable[..., Any], docs: Docs, seed: int | None) -> None:
        super().__init__([*docs], seed)
        self._sampler = make(self.docs, rnd=None)
        self._sampler.set_rnd(seed)

    def draw_blindly(self, n: int) -> Sequence[Chosen]:
        return cast(Sequence[Doc], self._sampler.sample(n=n, eval_doc=None))

    def draw_others(self, n: int, evaluated: EvalDoc) -> Sequence[Chosen]:
        return cast(Sequence[Doc], self._sampler.sample(n=n, eval_doc=evaluated.doc))

    def replace(self, drawn: list[Chosen], own: Sequence[int], evaluated: EvalDoc) -> None:
        others = [doc for doc in self.docs if doc != evaluated.doc and doc not in drawn]
        if len(others) < len(own):
            raise too_few_others(len(drawn))
        for k, doc in zip(own, Random(f"{self.seed}/{evaluated.doc_id}").sample(others, len(own))):
            drawn[k] = doc


def too_few_others(n: int) -> DataError:
    return DataError(
        f"{n} shots were requested, but the few-shot split has fewer docs besides the doc itself",
        hint="Ask for fewer with --num_fewshot, or name a larger fewshot_split.",
    )


def check_size(n: int, size: int, *, besides: bool = False) -> None:
    if n > size:
        other = " besides the doc itself" if besides else ""
        raise DataError(
            f"{n} shots were requested, but the few-shot split has {size} docs{other}",
            hint="Ask for fewer with --num_fewshot, or name a larger fewshot_split.",
        )


SAMPLERS: Registry[Callable[[Sequence[Doc], int | None], Sampler]] = Registry(
    "few-shot sampler", group="assay.samplers"
)
"""Name to `(docs, seed) -> Sampler`."""
SAMPLERS.add("default", RandomSampler)
SAMPLERS.add("first_n", FirstSampler)


def make_sampler(named: str | FunctionRef | Callable[..., Any], pool: FewshotPool, seed: int | None) -> Sampler:
    """The sampler that a config names, or one of a task file: a `Sampler`, or a class for lm-evaluation-harness."""
    if isinstance(named, str):
        return SAMPLERS[named](pool, seed)
    made = named.load() if isinstance(named, FunctionRef) else named
    if isinstance(made, type) and issubclass(made, Sampler):
        return made(pool, seed)
    return TaskFileSampler(made, pool.docs, seed)


# ---------------------------------------------------------------------- shots


class ShotBook:
    """The shots of one task: drawn for docs in the order it is evaluated, each rendered once, when it is first shown."""

    def __init__(self, pool: FewshotPool, sampler: Sampler, render: Callable[[Doc], Shot], *, excludes: bool) -> None:
        self._pool, self._sampler, self._render, self._excludes = pool, sampler, render, excludes
        self._shots: OrderedDict[int, Shot] = OrderedDict()

    def draw(self, doc_id: int, doc: Doc, n: int) -> Draw:
        """The `n` shots of a doc. Every call consumes the draw of one doc."""
        return self._sampler.draw(n, EvalDoc(doc_id, doc, self._pool, self._excludes))

    def render(self, draw: Draw) -> list[Shot]:
        return [self._render(shot) if isinstance(shot, dict) else self._shot(shot) for shot in draw.shots]

    def _shot(self, position: int) -> Shot:
        if position not in self._shots:
            try:
                remember(self._shots, position, self._render(self._pool[position]))
            except DataError as error:
                place = self._pool.place(position)
                raise DataError(f"few-shot doc {place}: {error.message}", hint=error.hint) from error
        return self._shots[position]
