"""What a comparison says: rows with differences and verdicts, refusals, flips."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator

from assay.analyses.noise_file import NoiseFile
from assay.config import CommandFlag, Names, Options, Texts, option
from assay.finished import Keys, Run
from assay.registry import load_object
from assay.results import MetricKey, matching
from assay.show import Findings, ForestPlot
from assay.stats import B_DEFAULT, Difference, Estimate, GoldChecked, Verdict, gold_difference, unit_index

Floats = NDArray[np.float64]


def _noise(value: Any) -> Any:
    return NoiseFile.load(value) if isinstance(value, str | Path) else value


Noise = Annotated[NoiseFile | None, BeforeValidator(_noise)]
TASKS, METRICS = CommandFlag("-t", "NAMES"), CommandFlag("-m", "NAME")


class CompareOptions(Options):
    """How to compare."""

    tasks: Names = option((), "Only these tasks or groups, with their members.", flag=TASKS)
    metric: Texts = option((), "Only this metric: acc, or acc,none; can be repeated.", flag=METRICS)
    margin: float = option(0.01, "A difference that does not matter; relative for numbers beyond ±1.", gt=0)
    alpha: float = option(0.05, "Error rate of the verdicts.", gt=0, le=0.5)
    unpaired: bool = option(False, "If prompts or docs differ, compare scores as if on different docs.")
    ignore_prompts: bool = option(False, "Pair docs by content even if their prompts differ.")
    bootstrap_iters: int = option(B_DEFAULT, "Replicates of the paired bootstrap.", ge=100)
    noise: Noise = option(
        None, "noise.json from `assay noise`; adds serving noise to every difference.", flag=CommandFlag(metavar="FILE")
    )
    flips: int = option(
        0,
        "List up to N docs per task whose verdict changed.",
        ge=0,
        flag=CommandFlag(metavar="[N]", bare=5, default="5"),
    )

    def wants(self, key: MetricKey) -> bool:
        return not self.metric or any(matching(name, [key]) for name in self.metric)

    def margin_for(self, a: float, b: float) -> float:
        largest = max(abs(a), abs(b))
        return self.margin * largest if largest > 1 else self.margin


@dataclass(frozen=True)
class Flips:
    """Docs on which the verdict changed, as (doc id in A, doc id in B)."""

    gained: NDArray[np.int64]
    lost: NDArray[np.int64]

    def to_dict(self) -> dict[str, Any]:
        return {"gained": self.gained.tolist(), "lost": self.lost.tolist()}


@dataclass(frozen=True)
class GoldPair:
    """The docs that both runs have, with what people say of their gold answers."""

    a: GoldChecked
    b: GoldChecked
    units: Keys

    @property
    def difference(self) -> Estimate | None:
        """B − A under the right gold answers; None where nobody checked any."""
        if self.a.n and self.b.n:
            return gold_difference(self.a, self.b, unit_index(self.units))
        have = "A" if self.a.n else "B"
        why = f"only {have} was scored with labels of gold answers"
        return Estimate.missing(why, len(self.units)) if self.a.n or self.b.n else None


@dataclass(frozen=True)
class MemberDifference:
    """One task or group under one metric, ready to enter the groups above it.

    `draws` gives the replicates of A and of B; both used the same weights for the same docs.
    """

    difference: Difference
    size: int
    docs: Keys
    """The units: docs of a cluster share a key."""
    draws: Callable[[], tuple[Floats, Floats]]
    documents: Keys = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    """The docs themselves."""
    gold: GoldPair | None = None
    moves: Callable[[], tuple[Floats, Keys] | None] = lambda: None
    """Each doc's part in the difference, and its unit, where the number is a mean."""


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
    is_quality: bool = True
    """Whether it says how good the answers are, and not what a solved doc took: each kind is a family of tests of its own."""
    only_a: int = 0
    only_b: int = 0
    notes: tuple[str, ...] = ()
    flips: Flips | None = None
    gold: Estimate | None = None
    """The difference under the right gold answers, as far as people checked them; beside the other, and with no verdict."""
    p_adjusted: float | None = None
    verdict: Verdict | None = None
    shown: Estimate | None = None
    """The difference with the interval beside its verdict, which holds together with those of all rows."""

    @property
    def interval(self) -> Estimate:
        return self.difference.estimate if self.shown is None else self.shown

    @property
    def metric(self) -> str:
        return self.key.metric

    @property
    def filter(self) -> str:
        return self.key.filter

    def to_dict(self) -> dict[str, Any]:
        d, e, alone = self.difference, self.interval, self.difference.estimate
        return {
            "name": self.name,
            "kind": self.kind,
            "depth": self.depth,
            "metric": self.metric,
            "filter": self.filter,
            "a": d.a if d.a == d.a else None,
            "b": d.b if d.b == d.b else None,
            "difference": e.value,
            "stderr": e.stderr,
            "low": e.low,
            "high": e.high,
            "level": e.level,
            "alone": {"low": alone.low, "high": alone.high, "level": alone.level},
            "n": e.n,
            "paired": self.paired,
            "method": e.method,
            "undefined": e.undefined,
            "caution": e.caution,
            "test": d.test,
            "p_value": d.p_value,
            "p_adjusted": self.p_adjusted,
            "higher_is_better": self.higher_is_better,
            "margin": self.margin,
            "verdict": None if self.verdict is None else self.verdict.kind,
            "verdict_text": None if self.verdict is None else str(self.verdict),
            "docs_needed": None if self.verdict is None else self.verdict.docs_needed,
            "detectable": None if self.verdict is None else self.verdict.detectable,
            "gained": d.gained,
            "lost": d.lost,
            "flips": None if self.flips is None else self.flips.to_dict(),
            **({} if self.gold is None else {"gold": self.gold.to_dict()}),
            "only_a": self.only_a,
            "only_b": self.only_b,
            "notes": list(self.notes),
        }


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
    efforts: int = 0
    """Tests of what a solved doc took, which are corrected among themselves."""

    def row(self, name: str, metric: str) -> ComparisonRow | None:
        """The row of a task or group under `acc` or `acc,none`; None where it was not compared."""
        rows = [row for row in self.rows if row.name == name]
        keys = matching(metric, [row.key for row in rows])
        return next((row for row in rows if row.key in keys), None)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "a": _run_dict(self.a),
            "b": _run_dict(self.b),
            "alpha": self.alpha,
            "tests_corrected_for": self.family,
            "rows": [row.to_dict() for row in self.rows],
            "not_compared": [{"name": r.name, "reason": r.reason} for r in self.refusals],
        }

    # What draws stands above this module, so it is found by name.

    def findings(self) -> Findings:
        """To be shown in any format: `.findings().to_markdown()`, `.findings().save("page.html")`."""
        make: Any = load_object("assay.analyses.compare.showing:findings")
        made: Findings = make(Comparisons((self,)))
        return made

    def table(self, width: int = 150) -> str:
        """The table as text."""
        return self.findings().to_text(width)

    def plot(self, metric: str | None = None) -> ForestPlot:
        """A forest plot of the differences under one metric: a notebook draws it, `.save("plot.svg")` keeps it."""
        draw: Any = load_object("assay.analyses.compare.showing:difference_plot")
        made: ForestPlot = draw(self, metric)
        return made

    def _repr_html_(self) -> str:
        return self.findings().to("notebook")

    def __repr__(self) -> str:
        said = [
            f"{row.name} {row.key}: B − A {row.interval!s}, {str(row.verdict).partition(':')[0]}"
            for row in self.rows[:3]
        ]
        more = [f"{len(self.rows) - 3} more"] if len(self.rows) > 3 else []
        return f"Comparison(A {self.a.label}, B {self.b.label}; {'; '.join([*said, *more])})"


def _run_dict(run: Run) -> dict[str, str]:
    return {"path": str(run.path), "model": run.result.model_name, "format": run.format}


class Comparisons(tuple[Comparison, ...]):
    """Every further run against the first."""

    def to_dict(self) -> dict[str, Any]:
        """One comparison as an object, several under `comparisons`."""
        made = [comparison.to_dict() for comparison in self]
        return made[0] if len(made) == 1 else {"comparisons": made}

    def to_report(self, title: str, link: str | None) -> dict[str, Any]:
        """What `assay show --schema compare` describes."""
        return {"format": 1, "link": link, "comparisons": [comparison.to_dict() for comparison in self]}
