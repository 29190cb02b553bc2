"""Cells of docs that were drawn several times: pass^k within the draws and beyond them, its forecast, and what a solved doc takes.

The forecast names a model. Where its fit is not rejected it is also simulated under spreads of chances that are not beta: these
cells fail only below 80 %, and their rates are the price of taking a model at its word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from _coverage_cell import Cell, Found, Rng, held, keys
from assay.metrics import AGGREGATIONS
from assay.scoring import estimate
from assay.stats import Estimate, beta_model, forecast, mean_estimate, over_draws, power_bounds, right_in_all

SPREADS: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "beta(0.8, 0.8)": lambda rng, n: rng.beta(0.8, 0.8, n),
    "beta(4, 1.5)": lambda rng, n: rng.beta(4, 1.5, n),
    "0.9 or 0.3": lambda rng, n: np.where(rng.random(n) < 0.5, 0.9, 0.3),
    "0, 1 or 0.6": lambda rng, n: rng.choice([0.0, 1.0, 0.6], n, p=[0.4, 0.3, 0.3]),
    "half 1, half uniform": lambda rng, n: np.where(rng.random(n) < 0.5, 1.0, rng.random(n)),
    "all 0.8": lambda rng, n: np.full(n, 0.8),
}
TRUTHS = {
    "beta(0.8, 0.8)": lambda k: np.prod([(0.8 + j) / (1.6 + j) for j in range(k)]),
    "beta(4, 1.5)": lambda k: np.prod([(4 + j) / (5.5 + j) for j in range(k)]),
    "0.9 or 0.3": lambda k: (0.9**k + 0.3**k) / 2,
    "0, 1 or 0.6": lambda k: 0.3 + 0.3 * 0.6**k,
    "half 1, half uniform": lambda k: 0.5 + 0.5 / (k + 1),
    "all 0.8": lambda k: 0.8**k,
}


def drawn(rng: Rng, spread: str, docs: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    n = np.full(docs, draws)
    return n, rng.binomial(n, SPREADS[spread](rng, docs))


def within(spread: str, docs: int, draws: int, k: int) -> Cell:
    truth = float(TRUTHS[spread](k))

    def one(rng: Rng) -> Found:
        return held(mean_estimate(right_in_all(*drawn(rng, spread, docs, draws), k)), truth)

    return Cell("pass^k", f"{spread}, {docs} docs × {draws}, k {k}", one)


def beyond(spread: str, docs: int, draws: int, k: int) -> Cell:
    truth = float(TRUTHS[spread](k))

    def one(rng: Rng) -> Found:
        return (*power_bounds(*drawn(rng, spread, docs, draws), k), truth)

    return Cell("pass^k beyond the draws", f"{spread}, {docs} docs × {draws}, k {k}", one, slow=True, safe=True)


def forecasted(spread: str, docs: int, draws: int, k: int) -> Cell:
    truth = float(TRUTHS[spread](k))
    is_beta = spread.startswith(("beta", "all"))

    def found(rng: Rng) -> tuple[float, float, float] | None:
        n, c = drawn(rng, spread, docs, draws)
        model = beta_model(n, c)
        return None if model is None or model.is_rejected else held(forecast(n, c, k, model, keys(rng, docs)), truth)

    def misses(rng: Rng) -> bool:
        made = found(rng)
        return made is not None and not made[0] <= made[2] <= made[1]

    name = f"{spread}, {docs} docs × {draws}, k {k}"
    if is_beta:
        return Cell("forecast of pass^k", name, found, slow=True)
    return Cell("forecast of pass^k, shown and wrong", name, misses, slow=True, most=0.2)


def per_solved(solved: float, slope: float, docs: int) -> Cell:
    """Log-normal costs; with a slope, hard docs cost more and are solved less."""
    grid = np.linspace(-8, 8, 4001)
    density = np.exp(-(grid**2) / 2)
    density /= density.sum()

    def chance(z: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-(np.log(solved / (1 - solved)) - slope * z)))

    truth = float(density @ np.exp(grid) / (density @ chance(grid)))

    def one(rng: Rng) -> Found:
        z = rng.normal(size=docs)
        pairs = list(zip(np.exp(z).tolist(), (rng.random(docs) < chance(z)).astype(float).tolist()))
        return held(estimate(pairs, AGGREGATIONS["per_solved"], keys(rng, docs), bootstrap_iters=10).estimate, truth)

    return Cell("per solved doc", f"{solved:g} solved, slope {slope:g}, {docs} docs", one, slow=True)


def these_docs(spread: str, docs: int, draws: int) -> Cell:
    """Docs stay as they are: the truth is the mean of their own chances."""

    def of(found: Callable[[float, Sequence[tuple[int, float]]], Estimate]) -> Callable[[Rng], Found]:
        def one(rng: Rng) -> Found:
            chances = SPREADS[spread](rng, docs)
            share = rng.binomial(draws, chances) / draws
            variances = share * (1 - share) / (draws - 1)
            return held(found(float(share.mean()), [(draws, each) for each in variances]), float(chances.mean()))

        return one

    rivals = {
        "t": of(lambda value, of_docs: over_draws(value, of_docs, bounded=False)),
        "wilson": of(
            lambda value, of_docs: over_draws(value, [(n, value * (1 - value) / n) for n, _ in of_docs], bounded=True)
        ),
    }
    name = f"{spread}, {docs} docs × {draws}"
    return Cell(
        "these docs' own mean", name, of(lambda *seen: over_draws(*seen, bounded=True)), safe=True, rivals=rivals
    )


def draw_cells() -> Iterator[Cell]:
    for spread in SPREADS:
        for docs in (10, 60, 300):
            yield these_docs(spread, docs, 2)
            yield these_docs(spread, docs, 8)
        yield within(spread, 60, 4, 2)
        yield within(spread, 60, 4, 4)
        for docs, draws, k in ((60, 4, 8), (200, 4, 8), (60, 8, 32)):
            yield beyond(spread, docs, draws, k)
        for docs, draws, k in ((60, 4, 8), (200, 4, 8), (60, 8, 16)):
            yield forecasted(spread, docs, draws, k)
    for solved in (0.1, 0.3, 0.7):
        for slope in (0.0, 1.0, -1.0):
            for docs in (60, 200):
                yield per_solved(solved, slope, docs)
