"""Cells of comparisons and judges: differences of groups, families of rows, grades near the ceiling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import numpy as np

from _coverage_cell import Cell, Found, Rng, held
from _coverage_groups import shape_of
from assay.stats import (
    Difference,
    Judged,
    above_threshold,
    combined_difference,
    corrected_difference,
    corrected_mean,
    decide,
    extreme_difference,
    holm,
    influence_difference,
    interval_beside,
    mean_estimate,
    non_inferiority,
    paired_difference,
    rescaled,
    shared_difference,
)

Floats = np.ndarray
Pair = tuple[Floats, Floats]


def two_runs(rng: Rng, n: int, p: float, worse: float = 0.0) -> Pair:
    a = (rng.random(n) < p).astype(float)
    b = np.where(rng.random(n) < 0.3, (rng.random(n) < p).astype(float), a)
    return a, np.where((b == 1) & (rng.random(n) < worse / p), 0.0, b)


# Groups of two runs


def of_mean(pairs: Sequence[Pair]) -> Difference:
    members = [paired_difference(*pair) for pair in pairs]
    return combined_difference(members, np.full(len(pairs), 1 / len(pairs)), sum(len(a) for a, _ in pairs))


def of_extreme(pick: Callable[..., float], pairs: Sequence[Pair]) -> Difference:
    members = [paired_difference(*pair) for pair in pairs]
    sides = [[partial(rescaled, mean_estimate(pair[side])) for pair in pairs] for side in (0, 1)]
    return extreme_difference(pick, members, sides[0], sides[1], sum(len(a) for a, _ in pairs))


def unpaired_extreme(pick: Callable[..., float], pairs: Sequence[Pair]) -> tuple[float, float]:
    """A rival: the Šidák intervals of both runs side by side."""
    far = 2 * 0.975 ** (1 / len(pairs)) - 1
    levels = (0.95, far) if pick is min else (far, 0.95)
    found = []
    for side in (0, 1):
        members = [mean_estimate(pair[side]) for pair in pairs]
        ends = [pick((rescaled(m, level) or (0, 1))[end] for m in members) for end, level in enumerate(levels)]
        found.append((pick(m.value for m in members), *ends))
    (a, low_a, high_a), (b, low_b, high_b) = found
    return b - a - math.hypot(b - low_b, high_a - a), b - a + math.hypot(high_b - b, a - low_a)


def group_difference(
    label: str, make: Callable[[Sequence[Pair]], Difference], sizes: Sequence[int], chances: Sequence[float]
) -> Iterator[Cell]:
    def draw(rng: Rng, worse: float = 0.0) -> list[Pair]:
        return [two_runs(rng, n, p, worse) for n, p in zip(sizes, chances, strict=True)]

    def one(rng: Rng) -> Found:
        return held(make(draw(rng)).estimate, 0.0)

    def gate(rng: Rng) -> bool:
        return non_inferiority(make(draw(rng, 0.05)), 0.05).passed

    name = f"difference of {label}, {shape_of(sizes)}, p {chances[0]:g} to {chances[-1]:g}"
    pick = {"minima": min, "maxima": max}.get(label)
    rivals = {} if pick is None else {"unpaired Šidák": lambda rng: (*unpaired_extreme(pick, draw(rng)), 0.0)}
    yield Cell("groups", name, one, slow=True, safe=True, rivals=rivals)
    yield Cell("false passes", name, gate, slow=True)


def on_shared_passages(passages: int, per: int) -> Cell:
    """Two equal runs on two tasks about the same passages: the mean of both tasks."""
    index = np.repeat(np.arange(passages), per)
    n, even = len(index), np.array([0.5, 0.5])

    def one(rng: Rng) -> bool:
        hard = rng.beta(0.7 * 2.33, 0.3 * 2.33, (2, passages))
        tasks = [[(rng.random(n) < p[index]).astype(float) for p in hard] for _ in range(2)]
        moves = [((b - a) - (b - a).mean()) / (2 * math.sqrt(n * (n - 1))) for a, b in tasks]
        apart = combined_difference([paired_difference(a, b, index) for a, b in tasks], even, 2 * n)
        units = np.concatenate([index, index]).astype(np.uint64)
        together = influence_difference(apart.a, apart.b, np.concatenate(moves), units, lost=0.5 / n)
        p = shared_difference(apart, together).p_value
        return p is not None and p < 0.05

    return Cell("type I error", f"mean of two tasks on the same {passages} passages, {per} docs each", one, slow=True)


# Families


def false_equivalence(rows: int) -> Cell:
    """Every row truly differs by the margin."""

    def one(rng: Rng) -> bool:
        return any(
            decide(paired_difference(*two_counts(rng, 500, 0.02, 0.06)), margin=0.04, p_value=1.0, tests=rows).kind
            == "equivalent"
            for _ in range(rows)
        )

    return Cell("false verdicts", f"any row 'no difference larger than', at the margin, {rows} rows", one, slow=True)


def two_counts(rng: Rng, n: int, up: float, down: float) -> Pair:
    won, lost, same = rng.multinomial(n, [up, down, 1 - up - down])
    return np.repeat([0.0, 1.0, 1.0], [won, lost, same]), np.repeat([1.0, 0.0, 1.0], [won, lost, same])


def any_false(rows: int) -> Cell:
    """Rows at zero, at the margin and far beyond it: any false word of any kind."""
    truths = [(0.0, 0.04, 0.12)[i % 3] for i in range(rows)]

    def one(rng: Rng) -> bool:
        found = [paired_difference(*two_counts(rng, 500, 0.03 + truth, 0.03)) for truth in truths]
        said = [
            decide(d, margin=0.04, p_value=p, tests=rows).kind
            for d, p in zip(found, holm([d.p_value for d in found]), strict=True)
        ]
        wrong = {0.0: ("better", "worse"), 0.04: ("equivalent", "worse"), 0.12: ("equivalent", "worse")}
        return any(kind in wrong[truth] for kind, truth in zip(said, truths, strict=True))

    return Cell("false verdicts", f"any of {rows} rows, some equal, some at the margin, some far", one, slow=True)


def together(rows: int) -> Cell:
    """All intervals of a table at once."""
    truths = [(0.0, 0.04, 0.12)[i % 3] for i in range(rows)]

    def one(rng: Rng) -> bool:
        found = [paired_difference(*two_counts(rng, 500, 0.03 + truth, 0.03)) for truth in truths]
        missed = False
        for d, p, truth in zip(found, holm([d.p_value for d in found]), truths, strict=True):
            shown = interval_beside(d, decide(d, margin=0.04, p_value=p, tests=rows), p_value=p, tests=rows)
            missed |= not (shown.low or 0.0) <= truth <= (shown.high or 0.0)
        return missed

    return Cell("false verdicts", f"any interval of {rows} rows misses", one, slow=True)


# Judges


def graded(rng: Rng, labels: int, middle: float) -> Pair:
    said = np.clip(np.round(middle + 2 * rng.standard_normal(1000)), 1, 10)
    people = np.full(1000, np.nan)
    people[:labels] = said[:labels]
    return np.clip(np.round(said + 0.7 + 1.2 * rng.standard_normal(1000)), 1, 10), people


def right_or_wrong(rng: Rng, labels: int, p: float) -> Pair:
    said = (rng.random(1000) < p).astype(float)
    people = np.full(1000, np.nan)
    people[:labels] = said[:labels]
    return np.where(said == 1, rng.random(1000) < 0.9, rng.random(1000) < 0.3).astype(float), people


@cache
def mean_grade(middle: float) -> float:
    return float(np.clip(np.round(middle + 2 * np.random.default_rng(0).standard_normal(4_000_000)), 1, 10).mean())


def grades(labels: int, middle: float) -> Iterator[Cell]:
    truth = mean_grade(middle)
    name = f"grades of 1 to 10 around {truth:.2f}, {labels} labels"

    def one(rng: Rng) -> Found:
        return held(corrected_mean(*graded(rng, labels, middle)).estimate, truth)

    def difference(rng: Rng) -> Found:
        runs = [Judged(*graded(rng, labels, middle)) for _ in range(2)]
        return held(corrected_difference(runs[0], runs[1]).estimate, 0.0)

    def labels_alone(rng: Rng) -> Found:
        people = graded(rng, labels, middle)[1]
        found = mean_estimate((people[:labels] - 1) / 9)
        return None if found.low is None or found.high is None else (1 + 9 * found.low, 1 + 9 * found.high, truth)

    yield Cell("judged", name, one, slow=True, safe=True, rivals={"labels alone": labels_alone})
    yield Cell("judged", f"difference, {name}", difference, slow=True, safe=True)


def judged_gate(labels: int, p: float) -> Cell:
    def one(rng: Rng) -> bool:
        found = corrected_mean(*right_or_wrong(rng, labels, p)).estimate
        return above_threshold(rescaled(found, 0.9), p, estimate=found).passed

    return Cell("false passes", f"judged threshold {p:g}, {labels} labels", one, slow=True)


def row_cells() -> Iterator[Cell]:
    for sizes, chances in (
        ((1000, 10), (0.5, 0.95)),
        ((300, 30, 30), (0.5, 0.9, 0.9)),
        ((10,) * 57, (0.7,) * 57),
        ((3,) * 60, (0.8,) * 60),
    ):
        yield from group_difference("means", of_mean, sizes, chances)
    for label, pick in (("minima", min), ("maxima", max)):
        for sizes, chances in (((100,) * 6, (0.7,) * 6), ((100,) * 4, (0.5, 0.6, 0.7, 0.75)), ((1000, 30), (0.6, 0.6))):
            yield from group_difference(label, partial(of_extreme, pick), sizes, chances)
    yield from (on_shared_passages(passages, per) for passages, per in ((6, 5), (8, 10), (10, 5), (40, 5)))
    yield from (make(rows) for make in (false_equivalence, any_false, together) for rows in (3, 10, 30))
    for middle in (9.0, 12.0, 14.0):
        for labels in (20, 50, 200):
            yield from grades(labels, middle)
    yield from (judged_gate(labels, p) for labels in (20, 50, 200) for p in (0.5, 0.9, 0.98))
