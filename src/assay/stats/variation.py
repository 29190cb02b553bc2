"""What varies beside the docs: a server that differs from itself, and the wordings and shots that one might have chosen.

The same requests, sent again, get another score. Part of it is doc by doc and averages out; the docs' own spread shows that part in every comparison. The rest moves a whole
run up or down (another batch, another kernel, another replica), and no number of docs lowers it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from assay.stats.estimate import Estimate, Floats
from assay.stats.intervals import normal_quantile, t_quantile, wilson_interval
from assay.stats.paired import Difference, p_value_of

FEWEST_REPLAYS = 3
"""From here on the variance between replays is estimated; with two it is only bounded."""
ENOUGH_REPLAYS = 5
"""From here on error rates hold for a server in one of two states, too: k replays all meet the same one in 2^(1 − k) of cases,
two further runs then differ in half of these, and nothing that was measured could have told."""


@dataclass(frozen=True)
class ServingNoise:
    """How far a score moves between runs of one model on the same docs."""

    run_variance: float
    """Of the score between replays: what is shared by a run, and what its docs add."""
    freedom: float
    doc_part: float = 0.0
    """The part of `run_variance` that docs add, each by itself."""
    most: float | None = None
    """Where replays are too few to estimate anything: the most by which two runs differ."""

    @property
    def shift_variance(self) -> float:
        """Of what a whole run shares."""
        return max(0.0, self.run_variance - self.doc_part)

    @property
    def floor(self) -> float:
        """The variance of a difference of two runs that no number of docs lowers."""
        return 2 * self.shift_variance if self.most is None else self.most**2 / 4


def replay_variance(scores: Sequence[float], servers: Sequence[int]) -> tuple[float, float]:
    """The variance of a run's score and its degrees of freedom, from replays on one server or several.

    Replays on one server may be more alike than those on two. A run lands on any of them, so both components count:
    MSB/k + (1 − 1/k)·MSW, with k replays a server (Satterthwaite for the degrees of freedom).

    >>> replay_variance([0.5, 0.6, 0.7], [0, 0, 0])
    (0.01, 2.0)
    """
    values, index = np.asarray(scores, dtype=np.float64), np.unique(np.asarray(servers), return_inverse=True)[1]
    count, groups = len(values), int(index.max()) + 1
    pooled = round(float(values.var(ddof=1)), 15), float(count - 1)
    if groups == 1 or groups == count:
        return pooled
    sizes = np.bincount(index).astype(np.float64)
    means = np.bincount(index, weights=values) / sizes
    within = float(((values - means[index]) ** 2).sum()) / (count - groups)
    between = float((sizes * (means - values.mean()) ** 2).sum()) / (groups - 1)
    if between <= within:
        return pooled
    typical = (count - float((sizes**2).sum()) / count) / (groups - 1)
    parts = between / typical, (1 - 1 / typical) * within
    below = parts[0] ** 2 / (groups - 1) + parts[1] ** 2 / (count - groups)
    return sum(parts), sum(parts) ** 2 / below


def variance_interval(variance: float, freedom: float, level: float = 0.95) -> tuple[float, float]:
    """Of a variance of normal values (χ²)."""
    from scipy.special import chdtri

    tail = (1 - level) / 2
    return variance * freedom / float(chdtri(freedom, tail)), variance * freedom / float(chdtri(freedom, 1 - tail))


def bound_of_two(a: Floats, b: Floats) -> float:
    """The most by which two runs differ, from two replays: as if every doc that moved had moved the same way.

    The upper end of a one-sided 95 % interval for the mean move; three docs more than were seen where none was.
    """
    moves = np.abs(np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64))
    n = len(moves)
    largest = float(moves.max()) or 1.0
    share = float(moves.mean()) / largest
    return largest * min(1.0, share + 1.645 * math.sqrt(share * (1 - share) / n) + 3 / n)


def with_serving(difference: Difference, noise: ServingNoise) -> Difference:
    """The difference of two runs, each of which a server may have moved."""
    value = difference.estimate.value
    if value is None or difference.spread is None:
        return difference
    freedom = difference.freedom
    interval = partial(widened, value, difference.bounds, freedom, noise, 2)
    cautious = partial(widened, value, difference.cautious_bounds, freedom, noise, 2)
    ends = interval(difference.estimate.level)
    stderr = None if difference.estimate.stderr is None else math.sqrt(difference.estimate.stderr**2 + noise.floor)
    return replace(
        difference,
        estimate=replace(difference.estimate, stderr=stderr, low=ends[0], high=ends[1]),
        p_value=None if difference.p_value is None else max(difference.p_value, p_value_of(value, interval)),
        spread=math.sqrt(difference.spread**2 + noise.floor),
        floor=noise.floor,
        interval=interval,
        cautious=cautious,
    )


def widened(
    value: float,
    bounds: Callable[[float], tuple[float, float] | None],
    freedom: float,
    noise: ServingNoise,
    runs: int,
    level: float,
) -> tuple[float, float]:
    """An interval for what `runs` runs have moved, from one for docs alone; each side by itself.

    The docs' interval holds what each doc adds already, so that part is taken away from the variance between replays. What is
    left has the reach of Student's t with the replays' degrees of freedom, and the reaches of both sources add as squares
    (the MOVER of Zou and Donner 2008). A pooled t with Satterthwaite's degrees of freedom is too narrow for three or four
    replays (simulated in `benchmarks/serving_noise.py`).
    """
    docs = bounds(level)
    assert docs is not None
    if noise.most is not None:
        reach = noise.most if runs == 2 else noise.most / math.sqrt(2)
        return docs[0] - reach, docs[1] + reach
    tail = (1 + level) / 2
    known = t_quantile(tail, freedom) ** 2 * noise.doc_part
    added = runs * max(0.0, t_quantile(tail, max(1.0, noise.freedom)) ** 2 * noise.run_variance - known)
    return value - math.sqrt((value - docs[0]) ** 2 + added), value + math.sqrt((docs[1] - value) ** 2 + added)


# Docs and draws


@dataclass(frozen=True)
class DocsOrDraws:
    """Where the error of a mean of repeated draws comes from, and what half its interval would take."""

    docs: int
    draws: float
    """Of a doc, on average."""
    stderr: float
    draw_variance: float
    """The part of the squared standard error that draws add; the rest is docs."""

    @property
    def draw_share(self) -> float:
        return min(1.0, self.draw_variance / self.stderr**2) if self.stderr else 0.0

    @property
    def docs_for_half(self) -> int:
        return 4 * self.docs

    @property
    def draws_for_half(self) -> int | None:
        """Draws of each doc; None where no number of draws halves the interval, for docs alone add more."""
        room = self.stderr**2 / 4 - (self.stderr**2 - self.draw_variance)
        return math.ceil(self.draws * self.draw_variance / room) if room > 0 else None

    def __str__(self) -> str:
        """
        >>> print(DocsOrDraws(100, 4, 0.04, 0.0004))
        75% of the variance comes from docs and 25% from draws; halving the interval takes 400 docs, and no number of draws would do
        """
        more = (
            f" or {self.draws_for_half:,} draws a doc" if self.draws_for_half else ", and no number of draws would do"
        )
        share = self.draw_share
        parts = f"{1 - share:.0%} of the variance comes from docs and {share:.0%} from draws"
        return f"{parts}; halving the interval takes {self.docs_for_half:,} docs{more}"


def docs_or_draws(of_docs: Sequence[tuple[int, float]], stderr: float | None) -> DocsOrDraws | None:
    """From the draws of each doc and the variance of their mean; None without a spread."""
    if not stderr or not of_docs:
        return None
    drawn, variances = np.asarray(of_docs, dtype=np.float64).T
    variance = float(variances.sum()) / len(drawn) ** 2
    return DocsOrDraws(len(drawn), float(drawn.mean()), stderr, min(variance, stderr**2))


def over_draws(value: float, of_docs: Sequence[tuple[int, float]], *, bounded: bool, level: float = 0.95) -> Estimate:
    """The mean of exactly these docs over all draws that they could have: docs are all there are, and only draws vary.

    Scores from 0 to 1 get Wilson's interval for as many draws as would have this variance, and one that is no wider than if
    every draw had the same chance: draws whose chances differ by doc vary less (Hoeffding 1956).
    """
    drawn, variances = np.asarray(of_docs, dtype=np.float64).T
    n, half = len(drawn), (1 + level) / 2
    stderr = math.sqrt(float(variances.sum())) / n
    df = float(variances.sum()) ** 2 / float((variances**2 / (drawn - 1)).sum()) if stderr else math.inf
    if not bounded:
        reach = t_quantile(half, df) * stderr
        made = Estimate(value, stderr, value - reach, value + reach, n, "draws", level=level, df=df)
        return made if stderr else made.without_interval("no two draws of a doc differ")
    low, high = wilson_interval(value, float(drawn.sum()), normal_quantile(half))
    if stderr and 0 < value < 1:
        ends = wilson_interval(value, value * (1 - value) / stderr**2, t_quantile(half, df))
        low, high = max(low, ends[0]), min(high, ends[1])
    return Estimate(value, stderr, low, high, n, "draws", level=level, df=df, bounded=True)


# Where scores of a crossed design (docs × wordings × shots) vary: analysis of variance with random effects.

Effect = tuple[str, ...]


@dataclass(frozen=True)
class Components:
    """Variance of one score by source. An effect is the names that make it up; all names together hold the residual."""

    variances: dict[Effect, float]
    levels: dict[str, int]
    mean: float
    low: float
    high: float
    """Lowest and highest mean over docs among the conditions."""

    @property
    def shares(self) -> dict[Effect, float]:
        """Parts of the total variance; all zero when every score is the same."""
        total = sum(self.variances.values())
        return {effect: v / total if total else 0.0 for effect, v in self.variances.items()}

    @property
    def stderr(self) -> float:
        """Of the grand mean, with wordings and shots seen as draws of those one might have chosen."""
        return math.sqrt(sum(v / math.prod(self.levels[f] for f in effect) for effect, v in self.variances.items()))


def variance_components(scores: NDArray[np.float64], names: Sequence[str]) -> Components:
    """Components of a full table of scores, one axis per name, docs first; one score a cell.

    A mean square of the effect S expects Σ over T ⊇ S of σ²_T times the cells that share a level of T; solved from the
    largest effect down. Estimates below zero are noise around zero and set to it.
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != len(names):
        raise ValueError(f"{table.ndim} axes for {len(names)} names {tuple(names)}")
    levels = dict(zip(names, table.shape, strict=True))
    axes = [i for i, size in enumerate(table.shape) if size > 1]
    raw: dict[tuple[int, ...], float] = {}
    for size in range(len(axes), 0, -1):
        for effect in combinations(axes, size):
            above = sum(_cells(table, t) * v for t, v in raw.items() if set(effect) < set(t))
            raw[effect] = (_mean_square(table, effect) - above) / _cells(table, effect)
    by_name = {
        tuple(names[i] for i in e): max(0.0, v) for e, v in sorted(raw.items(), key=lambda kv: (len(kv[0]), kv[0]))
    }
    conditions = table.mean(axis=0)
    return Components(by_name, levels, float(table.mean()), float(conditions.min()), float(conditions.max()))


def _cells(table: NDArray[np.float64], effect: tuple[int, ...]) -> int:
    """Cells that share one level of the effect."""
    return math.prod(size for i, size in enumerate(table.shape) if i not in effect)


def _mean_square(table: NDArray[np.float64], effect: tuple[int, ...]) -> float:
    """Effect of a set of axes by inclusion and exclusion of the means over the others."""
    others = tuple(i for i in range(table.ndim) if i not in effect)
    part = np.zeros([size if i in effect else 1 for i, size in enumerate(table.shape)])
    for size in range(len(effect) + 1):
        for left in combinations(effect, size):
            away = tuple(i for i in range(table.ndim) if i not in left)
            part = part + (-1) ** (len(effect) - size) * table.mean(axis=away, keepdims=True)
    freedom: int = math.prod(table.shape[i] - 1 for i in effect)
    cells: int = math.prod(table.shape[i] for i in others)
    return float((part**2).sum()) * cells / freedom
