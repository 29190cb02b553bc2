"""A number and what it is worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]

B_DEFAULT = 1000
"""Bootstrap replicates, unless a run says otherwise."""


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error, interval and the method that gave them.

    `value` is None when the number is undefined, and `undefined` says why. `stderr` is None when nothing honest can be
    said about the error (one doc, error bars turned off); the interval is then absent too.
    """

    value: float | None
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    undefined: str | None = None
    level: float = 0.95

    @classmethod
    def missing(cls, reason: str, n: int = 0) -> Estimate:
        """No number, and why.

        >>> Estimate.missing("no docs").undefined
        'no docs'
        """
        return cls(None, None, None, None, n, "undefined", undefined=reason)

    @classmethod
    def bare(cls, value: float, n: int, reason: str) -> Estimate:
        """A number without an error bar; the method says why there is none."""
        return cls(value, None, None, None, n, reason)

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def with_value(self, value: float | None) -> Estimate:
        return replace(self, value=value)


@dataclass(frozen=True)
class Score:
    """What a task hands to its groups, and a group to its parents.

    `replicates` and `counts` are functions because most scores are never lifted: nothing is computed until a parent
    asks, and then once (`draws`, `draw_counts`).
    """

    estimate: Estimate
    size: int
    replicates: Callable[[], Floats]
    counts: Callable[[], NDArray[np.int64]] | None = None
    """Per problem (n draws, c right), for aggregators such as pass@k that work on problems."""
    higher_is_better: bool | None = True
    samples: Callable[[], tuple[Floats, Keys]] | None = None
    """Per doc, its value and the key of its bootstrap weights (clusters already share theirs). In the order of `counts`."""
    keys: Callable[[], Keys | None] | None = None
    """The keys of all docs behind the number, for numbers that no doc has alone: an f1, a group's mean."""
    repeats_lm_eval: bool = False
    """Whether the standard error is lm-evaluation-harness's own, so that files can be compared (BLEU, chrF, TER)."""

    @cached_property
    def draws(self) -> Floats:
        """The bootstrap replicates, computed on first use and kept."""
        return self.replicates()

    @cached_property
    def docs(self) -> tuple[Floats, Keys] | None:
        return None if self.samples is None else self.samples()

    @cached_property
    def doc_keys(self) -> Keys | None:
        """Which docs the number rests on; None where nobody knows."""
        if self.keys is not None:
            return self.keys()
        return None if self.docs is None else self.docs[1]

    @cached_property
    def draw_counts(self) -> NDArray[np.int64] | None:
        return None if self.counts is None else self.counts()
