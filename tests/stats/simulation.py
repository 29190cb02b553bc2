"""Shared by the simulation tests: how many of 400 simulated data sets may go which way."""

from collections.abc import Callable, Iterable

import numpy as np

from assay.stats import Estimate

REPETITIONS = 400


def fresh_keys(rng: np.random.Generator, n: int) -> np.ndarray:
    """Keys of docs nobody has seen: each simulated data set has its own."""
    return rng.integers(0, 2**64, n, dtype=np.uint64)


def coverage(truth: float, estimates: Iterable[Estimate]) -> float:
    inside = [e.low <= truth <= e.high for e in estimates if e.low is not None and e.high is not None]
    assert len(inside) >= 0.99 * REPETITIONS
    return float(np.mean(inside))


def simulate(one: Callable[[np.random.Generator], Estimate], seed: int = 0) -> list[Estimate]:
    rng = np.random.default_rng(seed)
    return [one(rng) for _ in range(REPETITIONS)]
