"""What a comparison says: rows with differences and verdicts, refusals, flips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from assay.analyses.noise_file import NoiseFile
from assay.finished import Keys, Run
from assay.registry import load_object
from assay.results import MetricKey, matching
from assay.stats import B_DEFAULT, Difference, Verdict

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CompareOptions:
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
    noise: NoiseFile | None = None
    """How much servers move by themselves; it enters every difference of two runs."""

    def wants(self, key: MetricKey) -> bool:
        return not self.metrics or any(matching(asked, [key]) for asked in self.metrics)

    def margin_for(self, a: float, b: float) -> float:
        largest = max(abs(a), abs(b))
        return self.margin * largest if largest > 1 else self.margin


@dataclass(frozen=True)
class Flips:
    """Docs on which the verdict changed, as (doc id in A, doc id in B)."""

    gained: NDArray[np.int64]
    lost: NDArray[np.int64]


@dataclass(frozen=True)
class MemberDifference:
    """One task or group under one metric, ready to enter the groups above it.

    `draws` gives the replicates of A and of B; both used the same weights for the same docs.
    """

    difference: Difference
    size: int
    docs: Keys
    draws: Callable[[], tuple[Floats, Floats]]


@dataclass(frozen=True)
class ComparisonRow:
    """One metric of one task or group."""

    name: str
    alias: str
    kind: Literal["task", "group"]
    depth: int
    key: MetricKey
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
        return self.key.metric

    @property
    def filter(self) -> str:
        return self.key.filter


RefusalKind = Literal["differs", "only_a", "only_b", "undefined"]


@dataclass(frozen=True)
class Refusal:
    """Something that was not compared, and why. `undefined` means that neither run has the number."""

    name: str
    reason: str
    kind: RefusalKind = "differs"


class NotComparable(Exception):
    """Why a task or group has no difference."""

    def __init__(self, reason: str, kind: RefusalKind = "differs") -> None:
        super().__init__(reason)
        self.kind: RefusalKind = kind


@dataclass(frozen=True, repr=False)
class Comparison:
    """B against A."""

    a: Run
    b: Run
    rows: tuple[ComparisonRow, ...]
    refusals: tuple[Refusal, ...] = ()
    alpha: float = 0.05
    family: int = 0
    """Tests that the correction counts."""

    def row(self, name: str, metric: str) -> ComparisonRow | None:
        """The row of a task or group under `acc` or `acc,none`; None where it was not compared."""
        rows = [row for row in self.rows if row.name == name]
        keys = matching(metric, [row.key for row in rows])
        return next((row for row in rows if row.key in keys), None)

    # For people. What draws stands above this module, so it is found by name.

    def table(self, width: int = 150) -> str:
        """The table as text."""
        render: Any = load_object("assay.analyses.compare:comparison_text")
        return str(render(self, width))

    def plot(self, metric: str | None = None) -> Any:
        """A forest plot of the differences under one metric: a notebook draws it, `.save("plot.svg")` keeps it."""
        draw: Any = load_object("assay.analyses.compare:comparison_plot")
        return draw(self, metric)

    def _repr_html_(self) -> str:
        render: Any = load_object("assay.analyses.compare:comparison_html")
        return str(render(self))

    def __repr__(self) -> str:
        return f"Comparison(A {self.a.label}, B {self.b.label}, {len(self.rows)} rows)"
