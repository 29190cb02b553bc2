"""Intervals of an explanation's shares: do they hold what the share is worth on all docs of the kind?"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from assay.analyses.explain.intervals import Alone, docs_estimate, share_estimate

Drawn = tuple[np.ndarray, np.ndarray | None]
Draw = Callable[[np.random.Generator], Drawn]


def flips(n: int, lost: float, gained: float) -> Draw:
    """One cause: an answer is lost, won, or neither."""
    return lambda g: (g.choice([-1.0, 0.0, 1.0], p=[lost, 1 - lost - gained, gained], size=n), None)


def halves(n: int, whole: float, half: float) -> Draw:
    """Two causes: a flip is one's, or half of it is."""
    return lambda g: (g.choice([-1.0, -0.5, 0.0], p=[whole, half, 1 - whole - half], size=n), None)


def asked_again(n: int, asked: int, lost: float) -> Draw:
    """A sample of the docs stands for all."""

    def draw(g: np.random.Generator) -> Drawn:
        part = np.zeros(n)
        part[np.linspace(0, n - 1, asked).astype(np.int64)] = n / asked * halves(asked, lost, lost)(g)[0]
        return part, None

    return draw


def in_clusters(clusters: int, size: int, lost: float) -> Draw:
    """Docs of a passage fall together."""

    def draw(g: np.random.Generator) -> Drawn:
        labels = np.repeat(np.arange(clusters), size)
        chances = g.beta(lost / 0.3 - lost, (1 - lost) / 0.3 - (1 - lost), clusters)[labels]
        return -(g.random(len(labels)) < chances).astype(float), labels

    return draw


SHARES: dict[str, tuple[Draw, float]] = {
    "flips": (flips(200, 0.1, 0.02), -0.08),
    "rare flips": (flips(200, 0.01, 0.0), -0.01),
    "flips of few docs": (flips(60, 0.1, 0.02), -0.08),
    "halves": (halves(200, 0.1, 0.1), -0.15),
    "rare halves": (halves(200, 0.01, 0.01), -0.015),
    "asked again": (asked_again(400, 100, 0.1), -0.15),
    "asked again, rare": (asked_again(400, 100, 0.02), -0.03),
    "clusters": (in_clusters(60, 4, 0.3), -0.3),
    "clusters, rare": (in_clusters(30, 8, 0.05), -0.05),
}


@pytest.mark.parametrize("tries", [200, pytest.param(2000, marks=pytest.mark.wide)])
@pytest.mark.parametrize("cell", list(SHARES))
def test_the_interval_of_a_share_covers(cell: str, tries: int) -> None:
    draw, truth = SHARES[cell]
    generator, held = np.random.default_rng(29), 0
    for _ in range(tries):
        estimate = share_estimate(*draw(generator), bounded=True)
        assert estimate.low is not None
        assert estimate.high is not None
        held += estimate.low <= truth <= estimate.high
    assert held / tries > 0.95 - 2.6 * math.sqrt(0.95 * 0.05 / tries) - 0.02  # flips are whole numbers


def scores(g: np.random.Generator, count: int, size: int, chance: float) -> tuple[np.ndarray, np.ndarray | None]:
    if size == 1:
        return (g.random(count) < chance).astype(float), None
    labels = np.repeat(np.arange(count // size), size)
    chances = g.beta(chance / 0.3 - chance, (1 - chance) / 0.3 - (1 - chance), count // size)[labels]
    return (g.random(count) < chances).astype(float), labels


@pytest.mark.parametrize("tries", [200, pytest.param(2000, marks=pytest.mark.wide)])
@pytest.mark.parametrize(
    ("common", "rest", "size", "chances"),
    [(100, 40, 1, (0.7, 0.7)), (100, 40, 1, (0.95, 0.5)), (160, 80, 8, (0.7, 0.6)), (40, 10, 1, (0.9, 0.9))],
)
def test_the_interval_of_docs_that_one_run_lacks_covers(
    common: int, rest: int, size: int, chances: tuple[float, float], tries: int
) -> None:
    generator, held = np.random.default_rng(3), 0
    truth = -rest / (common + rest) * (chances[1] - chances[0])  # only A has them
    for _ in range(tries):
        shared, shared_labels = scores(generator, common, size, chances[0])
        alone, labels = scores(generator, rest, size, chances[1])
        estimate = docs_estimate(
            [Alone(shared, alone, shared_labels, labels), Alone(shared, alone[:0], shared_labels, None)]
        )
        assert estimate.low is not None
        assert estimate.high is not None
        held += estimate.low <= truth <= estimate.high
    assert held / tries > 0.95 - 2.6 * math.sqrt(0.95 * 0.05 / tries) - 0.01


def test_no_flip_at_all_is_not_zero_for_certain() -> None:
    estimate = share_estimate(np.zeros(100), None, bounded=True)
    assert estimate.value == 0
    assert estimate.low is not None
    assert estimate.high is not None
    assert -0.05 < estimate.low < -0.02
    assert 0.02 < estimate.high < 0.05


def test_scores_without_limits_that_did_not_move_have_no_interval() -> None:
    assert share_estimate(np.zeros(100), None, bounded=False).low is None


def test_one_doc_more_says_nothing_of_its_kind() -> None:
    sides = [Alone(np.ones(5), np.zeros(1), None, None), Alone(np.ones(5), np.zeros(0), None, None)]
    estimate = docs_estimate(sides)
    assert estimate.value == pytest.approx(1 / 6)
    assert estimate.low is None


def test_a_doc_that_flips_but_for_rounding_has_an_interval_within_the_scores() -> None:
    exact, rounded = (share_estimate(np.full(3, value), None, bounded=True) for value in (1.0, 1.0 - 1e-16))
    assert (rounded.low, rounded.high) == (exact.low, exact.high)
    assert exact.high == 1.0
