"""Judges whose sensitivity and specificity are known, and what their verdicts are worth with and without labels.

The grid holds a judge that is fair, one that errs to one side, and judges that differ by subject; 50 to 500 labels; means,
group means and paired differences. `CELLS` is all of it; the slice for every test run is each seventh cell.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from assay.stats import Estimate, Judged, corrected_difference, corrected_mean, mean_estimate, paired_difference

DOCS = 1000
JUDGES = {"fair": (0.95, 0.95), "kind": (0.99, 0.6), "harsh": (0.7, 0.95), "mixed": (0.9, 0.8)}
"""Sensitivity and specificity."""


@dataclass(frozen=True)
class Cell:
    what: str
    judge: str
    share: float
    """Of answers that are right."""
    labels: int

    def __str__(self) -> str:
        return f"{self.what}, {self.judge} judge, {self.share:g} right, {self.labels} labels"


CELLS = [
    Cell(*each)
    for each in itertools.product(("mean", "group mean", "difference"), JUDGES, (0.3, 0.6, 0.9), (50, 100, 200, 500))
]
SLICE = CELLS[::7]


@dataclass(frozen=True)
class Covered:
    corrected: float
    opinion: float
    """How often the interval of the judge's opinion holds the truth."""

    def holds(self, repetitions: int) -> bool:
        """A cell fails if its 99 % Monte Carlo interval lies wholly outside 92 to 98.5 %."""
        reach = 2.576 * math.sqrt(max(self.corrected * (1 - self.corrected), 1 / repetitions) / repetitions)
        return self.corrected + reach >= 0.92 and self.corrected - reach <= 0.985


def simulate(cell: Cell, repetitions: int) -> Covered:
    rng = np.random.default_rng([CELLS.index(cell), 26])
    one = {"mean": _mean, "group mean": _group, "difference": _difference}[cell.what]
    held = np.array([one(rng, cell) for _ in range(repetitions)], dtype=float)
    return Covered(*held.mean(axis=0))


def _world(rng: np.random.Generator, right: np.ndarray, judge: tuple[float, float], labels: np.ndarray) -> Judged:
    sensitivity, specificity = judge
    verdicts = np.where(right, rng.random(len(right)) < sensitivity, rng.random(len(right)) >= specificity)
    people = np.full(len(right), np.nan)
    people[labels] = right[labels]
    return Judged(verdicts.astype(float), people)


def _holds(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def _mean(rng: np.random.Generator, cell: Cell) -> tuple[bool, bool]:
    judged = _world(
        rng, rng.random(DOCS) < cell.share, JUDGES[cell.judge], rng.choice(DOCS, cell.labels, replace=False)
    )
    corrected = corrected_mean(judged.verdicts, judged.labels).estimate
    return _holds(corrected, cell.share), _holds(mean_estimate(judged.verdicts), cell.share)


def _group(rng: np.random.Generator, cell: Cell) -> tuple[bool, bool]:
    """Two subjects of equal weight; the judge is another one on the second."""
    from assay.groups import AGGREGATORS
    from assay.groups.lift import lift
    from assay.groups.members import Member
    from assay.results import Score

    others = {"fair": "kind", "kind": "harsh", "harsh": "mixed", "mixed": "fair"}
    shares, of_group = (cell.share, 0.5), {"corrected": [], "opinion": []}
    for share, judge in zip(shares, (cell.judge, others[cell.judge])):
        labels = rng.choice(DOCS // 2, cell.labels // 2, replace=False)
        judged = _world(rng, rng.random(DOCS // 2) < share, JUDGES[judge], labels)
        keys = rng.integers(0, 2**64, DOCS // 2, dtype=np.uint64)
        found = {"corrected": corrected_mean(judged.verdicts, judged.labels).estimate}
        found["opinion"] = mean_estimate(judged.verdicts)
        for name, estimate in found.items():
            of_group[name].append(Score(estimate, DOCS // 2, keys=lambda keys=keys: keys))
    truth = sum(shares) / 2
    held = []
    for scores in of_group.values():
        members = [Member(f"subject {i}", score, DOCS // 2) for i, score in enumerate(scores)]
        lifted = lift(AGGREGATORS["mean"], members, np.ones(2), by_size=False)
        estimate = lifted[0] if isinstance(lifted, tuple) else lifted.estimate
        held.append(_holds(estimate, truth))
    return held[0], held[1]


def _difference(rng: np.random.Generator, cell: Cell) -> tuple[bool, bool]:
    """The second run is right on a twentieth more; most docs are hard or easy for both. The judge is kinder to it."""
    hard, truth = rng.random(DOCS), 0.05
    a = hard < cell.share
    flips = rng.random(DOCS) < 0.1
    # Some docs are drawn anew, at the same rate, so that the difference stays what it is.
    b = np.where(flips, rng.random(DOCS), hard) < cell.share + truth
    labels = rng.choice(DOCS, cell.labels, replace=False)
    sensitivity, specificity = JUDGES[cell.judge]
    left = _world(rng, a, (sensitivity, specificity), labels)
    right = _world(rng, b, (min(1.0, sensitivity + 0.04), specificity - 0.1), labels)
    raw = paired_difference(left.verdicts, right.verdicts).estimate
    return _holds(corrected_difference(left, right).estimate, truth), _holds(raw, truth)
