"""Cells above the task: means of members of unequal sizes, of skewed members, and the gates on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from _coverage_cell import Cell, Found, Rng
from assay.stats import Estimate, above_threshold, combined_estimate, mean_estimate, rescaled
from assay.stats.judging import jeffreys

Floats = np.ndarray
Combine = Callable[[Sequence[Estimate], Floats, int], tuple[float, float]]


def side_by_side(members: Sequence[Estimate], weights: Floats, n: int) -> tuple[float, float]:
    """The members' own ends (Zou and Donner 2008)."""
    values, low, high = np.array([(m.value, m.low, m.high) for m in members]).T
    down, up = np.linalg.norm(weights * (values - low)), np.linalg.norm(weights * (high - values))
    return float(weights @ values - down), float(weights @ values + up)


def side_by_side_jeffreys(members: Sequence[Estimate], weights: Floats, n: int) -> tuple[float, float]:
    values = np.array([m.value for m in members])
    ends = np.array([jeffreys(round(m.value * m.n), m.n) for m in members if m.value is not None])
    down, up = np.linalg.norm(weights * (values - ends[:, 0])), np.linalg.norm(weights * (ends[:, 1] - values))
    return float(weights @ values - down), float(weights @ values + up)


CANDIDATES: dict[str, dict[str, Combine]] = {
    "means of 0/1 members": {"side by side": side_by_side, "side by side, Jeffreys": side_by_side_jeffreys},
    "means of members": {"side by side": side_by_side},
}
"""Other ways to the same interval, by what they are for."""


def ours(members: Sequence[Estimate], weights: Floats, n: int) -> tuple[float, float]:
    found = combined_estimate(float(weights @ [m.value or 0.0 for m in members]), members, weights, n)
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


Draw = Callable[[Rng, int, float], Floats]


def right(rng: Rng, n: int, p: float) -> Floats:
    return (rng.random(n) < p).astype(float)


def log_normal(rng: Rng, n: int, sigma: float) -> Floats:
    return np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)


def of_members(
    name: str,
    sizes: Sequence[int],
    of: Sequence[float],
    weights: Floats,
    draw: Draw,
    truth: float,
    kind: str,
    safe: bool,
) -> Cell:
    def by(combine: Combine) -> Callable[[Rng], Found]:
        def one(rng: Rng) -> Found:
            members = [mean_estimate(draw(rng, n, each)) for n, each in zip(sizes, of, strict=True)]
            return (*combine(members, weights, sum(sizes)), truth)

        return one

    rivals = {rival: by(combine) for rival, combine in CANDIDATES[kind].items()}
    return Cell("groups", name, by(ours), slow=True, safe=safe, rivals=rivals)


def shape_of(sizes: Sequence[int]) -> str:
    return f"{len(sizes)} of {sizes[0]}" if len(set(sizes)) == 1 else " and ".join(map(str, sizes))


def unequal(sizes: Sequence[int], chances: Sequence[float], *, by_size: bool) -> Cell:
    weights = np.array(sizes) / sum(sizes) if by_size else np.full(len(sizes), 1 / len(sizes))
    spread = f"p {chances[0]:g}" + ("" if len(set(chances)) == 1 else f" to {chances[-1]:g}")
    name = f"mean {'by size' if by_size else 'of members'}, {shape_of(sizes)}, {spread}"
    truth = float(weights @ np.array(chances))
    # A few docs that weigh much: an interval that holds at one p is on the safe side at the next.
    few = sum(sizes) < 100 or not by_size
    return of_members(name, sizes, chances, weights, right, truth, "means of 0/1 members", few)


def skewed(sizes: Sequence[int], sigma: float) -> Cell:
    weights = np.full(len(sizes), 1 / len(sizes))
    name = f"mean of members, log-normal σ {sigma:g}, {shape_of(sizes)}"
    return of_members(
        name, sizes, [sigma] * len(sizes), weights, log_normal, 1.0, "means of members", sigma > 1 or sum(sizes) < 100
    )


def gated(sizes: Sequence[int], chances: Sequence[float]) -> Cell:
    """A threshold at the true mean of members."""
    weights = np.full(len(sizes), 1 / len(sizes))
    truth = float(weights @ np.array(chances))

    def one(rng: Rng) -> bool:
        members = [mean_estimate(right(rng, n, p)) for n, p in zip(sizes, chances, strict=True)]
        found = combined_estimate(float(weights @ [m.value or 0.0 for m in members]), members, weights, sum(sizes))
        return above_threshold(rescaled(found, 0.9), truth, estimate=found).passed

    spread = f"p {chances[0]:g}" + ("" if len(set(chances)) == 1 else f" to {chances[-1]:g}")
    return Cell("false passes", f"threshold, mean of members, {shape_of(sizes)}, {spread}", one, slow=True)


LADDER = (3, 10, 30, 100, 300, 1000, 3000)
UNEQUAL: tuple[tuple[Sequence[int], Sequence[float]], ...] = (
    *(((1000, 10), (p, p)) for p in (0.02, 0.1, 0.5, 0.9, 0.98)),
    ((1000, 10), (0.5, 0.95)),
    ((3000, 3), (0.5, 0.9)),
    ((100, 5), (0.9, 0.9)),
    ((40, 4), (0.3, 0.3)),
    (LADDER, tuple(np.linspace(0.5, 0.98, 7).tolist())),
    (LADDER, (0.9,) * 7),
    ((3000, *[10] * 9), (0.5, *[0.95] * 9)),
    ((10,) * 57, (0.7,) * 57),
    ((10,) * 57, (0.98,) * 57),
    ((3,) * 60, (0.9,) * 60),
)


def group_cells() -> Iterator[Cell]:
    yield from (unequal(sizes, chances, by_size=False) for sizes, chances in UNEQUAL)
    yield from (unequal(*UNEQUAL[i], by_size=True) for i in (3, 9, 11))
    yield from (gated(sizes, chances) for sizes, chances in UNEQUAL)
    yield from (skewed((n,) * k, sigma) for sigma, n, k in ((1.0, 15, 3), (1.0, 15, 20), (2.0, 50, 2), (2.0, 50, 10)))
    yield skewed((200, 15), 1.0)
