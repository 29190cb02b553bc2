"""Judges whose errors are known, and what their verdicts are worth with and without labels.

The grid holds a judge that is fair, one that errs to one side, and judges that differ by subject; right or wrong, and grades
from 1 to 10; docs by themselves, and in clusters of five that are alike in answers and in the judge's errors; 50 to 500
labels; means, group means and paired differences. `CELLS` is all of it; the slice for every test run is each seventh cell.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from assay.stats import Estimate, Judged, corrected_difference, corrected_mean, mean_estimate, paired_difference

DOCS = 1000
JUDGES = {"fair": (0.95, 0.95), "kind": (0.99, 0.6), "harsh": (0.7, 0.95), "mixed": (0.9, 0.8)}
"""Sensitivity and specificity."""
BIAS = {"fair": 0.0, "kind": 1.2, "harsh": -1.0, "mixed": 0.4}
"""Grades that a judge gives too many."""
OTHERS = {"fair": "kind", "kind": "harsh", "harsh": "mixed", "mixed": "fair"}
"""The judge of a second subject."""
PER_CLUSTER = 5
ALIKE = 0.4
"""Correlation of two docs of a cluster."""


@dataclass(frozen=True)
class Cell:
    what: str
    judge: str
    share: float
    """Of answers that are right."""
    labels: int
    clustered: bool = False
    graded: bool = False

    def __str__(self) -> str:
        form = f"{'grades' if self.graded else f'{self.share:g} right'}{', clusters' if self.clustered else ''}"
        return f"{self.what}, {self.judge} judge, {form}, {self.labels} labels"


CELLS = [
    Cell(*each)
    for each in itertools.product(("mean", "group mean", "difference"), JUDGES, (0.3, 0.6, 0.9), (50, 100, 200, 500))
]
CELLS += [
    Cell(what, judge, 0.6, labels, clustered, graded)
    for what, judge, (clustered, graded), labels in itertools.product(
        ("mean", "group mean", "difference"),
        ("fair", "kind"),
        ((True, False), (False, True), (True, True)),
        (50, 100, 200, 500),
    )
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


@dataclass(frozen=True)
class World:
    """What people would say of every doc, what the judge says, and which docs people read."""

    judged: Judged
    clusters: np.ndarray | None

    def corrected(self) -> Estimate:
        return corrected_mean(self.judged.verdicts, self.judged.labels, self.clusters).estimate

    def opinion(self) -> Estimate:
        return mean_estimate(self.judged.verdicts, self.clusters)


def _normal(rng: np.random.Generator, docs: int, clustered: bool) -> np.ndarray:
    """Standard normal; docs of a cluster are alike."""
    alone = rng.normal(size=docs)
    if not clustered:
        return alone
    shared = np.repeat(rng.normal(size=-(-docs // PER_CLUSTER)), PER_CLUSTER)[:docs]
    return math.sqrt(ALIKE) * shared + math.sqrt(1 - ALIKE) * alone


def _people(quality: np.ndarray, cell: Cell, share: float) -> np.ndarray:
    """What people say of answers of this quality, which is standard normal."""
    if cell.graded:
        return np.clip(np.round(6 + 2 * quality), 1, 10)
    return (quality < ndtri(share)).astype(float)


def _truth(cell: Cell, share: float, shift: float = 0.0) -> float:
    """The mean of what people would say of all answers there could be."""
    if not cell.graded:
        return share
    grades = np.arange(1, 11)
    below = ndtr((grades[:-1] + 0.5 - 6) / 2 - shift)  # of the grades up to 9
    return float(10 - below.sum())


def _world(
    rng: np.random.Generator, said: np.ndarray, judge: str, cell: Cell, labels: np.ndarray, kinder: bool = False
) -> World:
    docs, error = len(said), _normal(rng, len(said), cell.clustered)
    if cell.graded:
        verdicts = np.clip(np.round(said + BIAS[judge] + 0.5 * kinder + 1.2 * error), 1, 10)
    else:
        sensitivity, specificity = JUDGES[judge]
        if kinder:
            sensitivity, specificity = min(1.0, sensitivity + 0.04), specificity - 0.1
        verdicts = (ndtr(error) < np.where(said == 1, sensitivity, 1 - specificity)).astype(float)
    people = np.full(docs, np.nan)
    people[labels] = said[labels]
    clusters = np.arange(docs) // PER_CLUSTER if cell.clustered else None
    return World(Judged(verdicts, people), clusters)


def _holds(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def _mean(rng: np.random.Generator, cell: Cell) -> tuple[bool, bool]:
    said = _people(_normal(rng, DOCS, cell.clustered), cell, cell.share)
    world = _world(rng, said, cell.judge, cell, rng.choice(DOCS, cell.labels, replace=False))
    truth = _truth(cell, cell.share)
    return _holds(world.corrected(), truth), _holds(world.opinion(), truth)


def _group(rng: np.random.Generator, cell: Cell) -> tuple[bool, bool]:
    """Two subjects of equal weight; the judge is another one on the second."""
    from assay.groups import AGGREGATORS
    from assay.groups.members import Member
    from assay.groups.score import lift
    from assay.results import Score

    shares, docs = (cell.share, 0.5), DOCS // 2
    of_group: dict[str, list[Score]] = {"corrected": [], "opinion": []}
    for share, judge in zip(shares, (cell.judge, OTHERS[cell.judge])):
        said = _people(_normal(rng, docs, cell.clustered), cell, share)
        world = _world(rng, said, judge, cell, rng.choice(docs, cell.labels // 2, replace=False))
        keys = rng.integers(0, 2**64, docs, dtype=np.uint64)
        for name, estimate in (("corrected", world.corrected()), ("opinion", world.opinion())):
            of_group[name].append(Score(estimate, docs, keys=lambda keys=keys: keys))
    truth = sum(_truth(cell, share) for share in shares) / 2
    held = []
    for scores in of_group.values():
        members = [Member(f"subject {i}", score, docs, docs) for i, score in enumerate(scores)]
        lifted = lift(AGGREGATORS["mean"], members, np.ones(2), by_size=False)
        estimate = lifted[0] if isinstance(lifted, tuple) else lifted.estimate
        held.append(_holds(estimate, truth))
    return held[0], held[1]


def _difference(rng: np.random.Generator, cell: Cell) -> tuple[bool, bool]:
    """The second run is a little better; most docs are hard or easy for both. The judge is kinder to it."""
    hard = _normal(rng, DOCS, cell.clustered)
    # Some docs are drawn anew, at the same rate, so that the difference stays what it is.
    other = np.where(rng.random(DOCS) < 0.1, rng.normal(size=DOCS), hard)
    better, shift = cell.share + 0.05, 0.15
    a = _people(hard, cell, cell.share)
    b = _people(other + shift, cell, better) if cell.graded else _people(other, cell, better)
    labels = rng.choice(DOCS, cell.labels, replace=False)
    left = _world(rng, a, cell.judge, cell, labels)
    right = _world(rng, b, cell.judge, cell, labels, kinder=True)
    raw = paired_difference(left.judged.verdicts, right.judged.verdicts, clusters=left.clusters).estimate
    truth = _truth(cell, better, shift) - _truth(cell, cell.share)
    return _holds(corrected_difference(left.judged, right.judged, left.clusters).estimate, truth), _holds(raw, truth)
