"""What a comparison says: rows with differences and verdicts, refusals, flips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assay.comparison.views import RunView
from assay.stats import B_DEFAULT, Difference, Verdict

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Options:
    """How to compare."""

    tasks: tuple[str, ...] = ()
    """Tasks or groups; empty means all."""
    metrics: tuple[str, ...] = ()
    """`acc` or `acc,none`; empty means all."""
    margin: float = 0.01
    """A difference that does not matter; relative for numbers beyond ±1, such as perplexities."""
    alpha: float = 0.05
    unpaired: bool = False
    ignore_prompts: bool = False
    replicates: int = B_DEFAULT

    def wants(self, key: str) -> bool:
        return not self.metrics or key in self.metrics or key.rpartition(",")[0] in self.metrics

    def margin_for(self, a: float, b: float) -> float:
        largest = max(abs(a), abs(b))
        return self.margin * largest if largest > 1 else self.margin


@dataclass(frozen=True)
class Flips:
    """Docs on which the verdict changed, as (doc id in A, doc id in B)."""

    gained: NDArray[np.int64]
    lost: NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One task or group under one metric, ready to enter the groups above it.

    `draws` gives the replicates of A and of B; both used the same weights for the same docs.
    """

    difference: Difference
    size: int
    docs: NDArray[np.uint64]
    draws: Callable[[], tuple[Floats, Floats]]


@dataclass(frozen=True)
class Row:
    """One metric of one task or group."""

    name: str
    alias: str
    kind: str
    depth: int
    key: str
    difference: Difference
    higher_is_better: bool
    margin: float
    paired: bool
    only_a: int = 0
    only_b: int = 0
    notes: tuple[str, ...] = ()
    flips: Flips | None = None
    p_adjusted: float | None = None
    verdict: Verdict | None = None

    @property
    def metric(self) -> str:
        return self.key.partition(",")[0]

    @property
    def filter(self) -> str:
        return self.key.partition(",")[2]


@dataclass(frozen=True)
class Refusal:
    """Something that was not compared, and why. `undefined` is a number that neither run has."""

    name: str
    reason: str
    kind: Literal["differs", "only_a", "only_b", "undefined"] = "differs"


@dataclass(frozen=True)
class Comparison:
    """B against A."""

    a: RunView
    b: RunView
    rows: tuple[Row, ...]
    refusals: tuple[Refusal, ...] = ()
    alpha: float = 0.05
    family: int = field(default=0)
    """Tests that the correction counts."""

    def row(self, name: str, key: str) -> Row | None:
        return next((row for row in self.rows if row.name == name and row.key == key), None)
