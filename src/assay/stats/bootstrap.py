"""The Poisson bootstrap: one mechanism for every number that has no closed form.

Weights belong to the doc, not to the run: the weight of a doc in replicate *b* is a Poisson(1) draw computed from a
hash of the doc's content and *b*. It is the same in every run, task, process and machine. So replicate *b* of run A and
replicate *b* of run B saw the same docs, and the paired difference of two runs is a subtraction.

One 64-bit word gives the draws of four replicates, 16 bits each. The table that turns 16 bits into a draw is Poisson(1)
rounded to multiples of 2⁻¹⁶ in such a way that mean and variance are exactly 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.stats.estimate import B_DEFAULT, Clusters, Estimate, Floats, Keys, is_a_point
from assay.stats.intervals import normal_cdf, t_quantile
from assay.stats.units import unit_keys

_UNDEFINED_SHARE = 0.05
"""A replicate may be undefined (f1 of a draw without positives). Beyond this share the error bar would be a lie."""

_BOUND_FROM = 40
"""Defined replicates from which the ends of their interval are worth naming."""

_BIAS_SHARE = 0.25
"""A bias of the replicates beyond this share of their spread: their percentiles would be off by twice as much."""

# How many of the 65,536 words map to 0, 1, 2, … Within one of 65536·e⁻¹/k! everywhere.
_COUNTS = (24109, 24110, 12055, 4017, 1005, 201, 34, 4, 1)
_DRAW = np.repeat(np.arange(len(_COUNTS), dtype=np.uint8), _COUNTS)

_LANES = 4
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def poisson_weights(keys: Keys, replicates: range | tuple[int, int] | int) -> NDArray[np.uint8]:
    """Weights [B, n] of the docs in the given replicates (a number means the first so many).

    >>> poisson_weights(np.array([1, 2, 3], dtype=np.uint64), (8, 10)).tolist()
    [[1, 2, 0], [0, 2, 0]]
    """
    start, stop = _span(replicates)
    first = start // _LANES
    words = _words(_scramble(keys), first, -(-stop // _LANES))
    return _DRAW[words][:, start - first * _LANES : stop - first * _LANES].T


def weight_blocks(
    keys: Keys, replicates: int, *, cells: int = 1 << 18
) -> Iterator[tuple[slice, slice, NDArray[np.uint8]]]:
    """All weights in pieces that fit the cache: (docs, replicates, weights [docs, replicates]).

    Docs come first here because that is how the words lie in memory.
    """
    state = _scramble(keys)
    width = min(1024, max(_LANES, cells // 64 // _LANES * _LANES))
    height = max(1, cells // width)
    for b in range(0, replicates, width):
        stop = min(b + width, replicates)
        for d in range(0, len(keys), height):
            docs = slice(d, min(d + height, len(keys)))
            words = _words(state[docs], b // _LANES, -(-stop // _LANES))
            yield docs, slice(b, stop), _DRAW.take(words)[:, : stop - b]


def _span(replicates: range | tuple[int, int] | int) -> tuple[int, int]:
    if isinstance(replicates, range):
        if replicates.step != 1:
            raise ValueError(f"replicates must follow each other, got {replicates}")
        return replicates.start, replicates.stop
    return (0, replicates) if isinstance(replicates, int) else replicates


def _scramble(keys: Keys) -> Keys:
    """Keys may be small numbers or near each other; start each stream from a mixed word."""
    return _mix(np.asarray(keys, dtype=np.uint64) + _GOLDEN)


def _words(state: Keys, first: int, last: int) -> NDArray[np.uint16]:
    """16-bit words [docs, 4·(last − first)] of splitmix64 streams, one stream per doc."""
    steps = np.arange(first + 1, last + 1, dtype=np.uint64) * _GOLDEN
    mixed = _mix(state[:, None] + steps[None, :])
    # The byte order is spelled out so that a big-endian machine draws the same weights.
    return mixed.astype("<u8", copy=False).view("<u2")


def _mix(z: Keys) -> Keys:
    """splitmix64's finaliser (Steele, Lea, Flood 2014); the argument is used as scratch."""
    z ^= z >> np.uint64(30)
    z *= _MIX_1
    z ^= z >> np.uint64(27)
    z *= _MIX_2
    z ^= z >> np.uint64(31)
    return z


def bootstrap_replicates(
    statistics: NDArray[Any],
    finish: Callable[[Floats], Floats],
    keys: Keys,
    clusters: Clusters | None = None,
    B: int = B_DEFAULT,  # noqa: N803 - the letter the field uses
) -> Floats:
    """Replicates of a number that is a function of weighted sums: `finish(weights @ statistics)`.

    `statistics` holds a row per doc (confusion cells, n-gram matches, numerator and denominator); `finish` takes sums
    of shape [B, s] and gives [B]. No doc is scored again, so 100,000 replicates of 2,000 docs take a second.
    """
    table = np.atleast_2d(np.asarray(statistics, dtype=np.float64))
    if len(table) != len(keys):
        raise ValueError(f"{len(table)} rows of statistics for {len(keys)} docs")
    sums = np.zeros((table.shape[1], B))
    drawn = np.zeros(B)
    columns = np.ascontiguousarray(table.T)
    # OpenBLAS starts threads at about 2¹⁸ multiplications, which costs more than it saves on products as slim as these.
    cells = max(1 << 12, (1 << 18) // (table.shape[1] + 1))
    for docs, draws, weights in weight_blocks(unit_keys(keys, clusters), B, cells=cells):
        sums[:, draws] += columns[:, docs] @ weights.astype(np.float64)
        drawn[draws] += weights.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A Poisson draw has about n docs, not n. Scaled to n, a number that depends on the amount of text (the
        # smoothing of BLEU) does not take that for uncertainty; ratios are the same either way.
        sums *= len(table) / drawn
        return np.asarray(finish(sums.T), dtype=np.float64)


def bootstrap_values(
    values: Any,
    replicate: Callable[[Any, NDArray[Any]], Floats],
    keys: Keys,
    clusters: Clusters | None = None,
    B: int = B_DEFAULT,  # noqa: N803
    *,
    cells: int = 1 << 22,
) -> Floats:
    """Replicates of a number that needs all values (a median): `replicate(values, weights[b, n]) -> [b]`, in blocks."""
    shared = unit_keys(keys, clusters)
    step = max(4, cells // max(1, len(shared)) // 4 * 4)
    parts = [
        np.asarray(replicate(values, poisson_weights(shared, (b, min(b + step, B)))), dtype=np.float64)
        for b in range(0, B, step)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def replicate_spread(replicates: Floats) -> float | None:
    """Standard deviation of the replicates; None when too many of them are undefined."""
    finite = replicates[np.isfinite(replicates)]
    if len(finite) < 2 or len(finite) < (1 - _UNDEFINED_SHARE) * len(replicates):
        return None
    return float(np.std(finite, ddof=1))


def bootstrap_estimate(
    value: float,
    replicates: Floats,
    n: int,
    *,
    units: int | None = None,
    level: float = 0.95,
    selects: bool = False,
    requested: int = 0,
) -> Estimate:
    """The estimate that replicates support: their spread, and a percentile interval.

    The percentiles lie a little outside the nominal ones, by Student's t and √(n/(n−1)) (Hesterberg 2015): plain
    percentiles are too narrow on few docs. In simulation this held its level better than normal, BC and BCa intervals
    for f1, mcc, the median and ratios. `units` is the number of clusters where docs are clustered. A number that `selects`
    (the best five of its children) is pushed the same way by every replicate as it was by the docs: where their bias
    shows it, there is no interval. `requested` is how many replicates the run wanted: fewer are said.
    """
    units = n if units is None else units
    if len(replicates) == 0:
        return Estimate.bare(value, n, "no replicates")
    if units < 2:
        return Estimate.bare(value, n, "one doc" if n < 2 else "one cluster")
    stderr = replicate_spread(replicates)
    finite = replicates[np.isfinite(replicates)]
    reach = t_quantile((1 + level) / 2, units - 1) * math.sqrt(units / (units - 1))
    undefined = f"undefined in {1 - len(finite) / len(replicates):.0%} of the replicates"
    if stderr is None:
        if len(finite) < _BOUND_FROM:
            return Estimate.bare(value, n, undefined)
        low, high = np.quantile(finite, [normal_cdf(-reach), normal_cdf(reach)])
        # No interval: nobody knows where the undefined ones lie. The others' ends are what can be said.
        return Estimate.bare(value, n, f"{undefined}; in the others [{low:.4f}, {high:.4f}]")
    bias = abs(float(finite.mean()) - value)
    if selects and bias > _BIAS_SHARE * stderr + 1e-9 * abs(value):
        found = f"{bias / stderr:.1f} times its spread" if stderr else "without a spread"
        return Estimate.bare(value, n, f"no interval: choosing among children biases the bootstrap ({found})")
    low, high = np.quantile(finite, [normal_cdf(-reach), normal_cdf(reach)])
    caution = f"{undefined}, which are left out" if len(finite) < len(replicates) else None
    df = float(units - 1)
    method = "bootstrap" if len(replicates) >= requested else f"bootstrap, {len(replicates)} replicates"
    estimate = Estimate(value, stderr, float(low), float(high), n, method, level=level, df=df, caution=caution)
    # What every replicate repeats was not seen to vary, which does not mean that it cannot.
    return estimate.without_interval("no replicate differs") if is_a_point(float(low), float(high)) else estimate
