"""Few-shot samplers as task files of lm-evaluation-harness know them: classes that hold docs and give docs.

`assay.tasks` draws with samplers of its own, which give the same docs; these are for files that derive from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, TypeVar

from assay.errors import DataError, did_you_mean
from assay.instance import Doc

T = TypeVar("T")


class ContextSampler:
    """The base of sampler classes in task files: draws docs from the list `df`."""

    def __init__(
        self,
        df: Sequence[Doc] | None = None,
        *,
        rnd: int | None = None,
        fewshot_indices: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        self.rnd = Random(rnd)
        self.df: Sequence[Doc] = df or []
        self.fewshot_indices = fewshot_indices
        self._is_cut = False

    def set_rnd(self, rnd: int | None) -> ContextSampler:
        self.rnd = Random(rnd)
        return self

    def replace_df(self, df: Sequence[Doc]) -> ContextSampler:
        """Draw from other docs; `fewshot_indices` then count in those."""
        self.df, self._is_cut = df, False
        return self

    def fewshot_docs(self) -> list[Doc]:
        """The docs to draw from: those that `fewshot_indices` name, else all."""
        if self.fewshot_indices and self.df and not self._is_cut:
            self.df = [self.df[i] for i in self.fewshot_indices]
        self._is_cut = True
        return list(self.df)

    @staticmethod
    def rm_eval_doc(doc: T, docs: Iterable[T], n: int | None = None) -> list[T]:
        """The docs without `doc`, and no more than `n` of them."""
        return [each for each in docs if each != doc][:n]

    def sample(
        self, n: int, eval_doc: Doc | None = None, df: Sequence[Doc] | None = None, **kwargs: Any
    ) -> Sequence[Doc]:
        """`n` docs, none of them `eval_doc`. One more is drawn than needed, so that the same seed gives the same docs
        there and here; where copies of the doc were drawn too, all are drawn again from the rest."""
        if n < 0:
            raise DataError(f"{n} shots were requested", hint="Ask for 0 or more.")
        if n == 0:
            return []
        if df:
            self.df = df
        pool = self.fewshot_docs()
        _require(n, len(pool))
        if not eval_doc:
            return self.rnd.sample(pool, n)
        _require(n + 1, len(pool))
        drawn = self.rm_eval_doc(eval_doc, self.rnd.sample(pool, n + 1), n)
        if len(drawn) == n:
            return drawn
        others = self.rm_eval_doc(eval_doc, pool)
        _require(n, len(others))
        return self.rnd.sample(others, n)


class FirstNSampler(ContextSampler):
    """The first docs, in order."""

    def sample(
        self, n: int, eval_doc: Doc | None = None, df: Sequence[Doc] | None = None, **kwargs: Any
    ) -> Sequence[Doc]:
        pool = self.df if eval_doc is None else self.rm_eval_doc(eval_doc, self.df)
        _require(n, len(pool))
        return pool[:n]


class BalancedSampler(ContextSampler):
    """Named there, and never written; so here."""

    def sample(self, n: int, eval_doc: Any = None, df: Any = None, **kwargs: Any) -> Sequence[Doc]:
        raise NotImplementedError(f"{type(self).__name__} does not say which docs it draws")


class ManualSampler(BalancedSampler):
    """The same."""


SAMPLER_REGISTRY: dict[str, type[ContextSampler]] = {"default": ContextSampler, "first_n": FirstNSampler}


def get_sampler(name: str) -> type[ContextSampler]:
    if name not in SAMPLER_REGISTRY:
        known = did_you_mean(name, SAMPLER_REGISTRY) or f"Known: {', '.join(SAMPLER_REGISTRY)}."
        raise KeyError(f"there is no few-shot sampler {name!r}. {known}")
    return SAMPLER_REGISTRY[name]


def _require(n: int, size: int) -> None:
    if n > size:
        raise DataError(f"{n} docs were requested from {size}", hint="Ask for fewer shots, or name a larger split.")
