"""The difference of two runs on a group, from the differences of its members."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from assay.stats.closed_form import combined_estimate
from assay.stats.estimate import Estimate, Floats
from assay.stats.intervals import normal_quantile, t_quantile
from assay.stats.paired import Difference, p_value_of
from assay.stats.profile import FlipTables

Bounds = tuple[float, float] | None


def combined_difference(members: Sequence[Difference], weights: Floats, n: int, *, level: float = 0.95) -> Difference:
    """A weighted mean of the differences of independent members, weights of sum 1, of `n` docs in all.

    Docs that are right or wrong by the likeliest shares of won and lost docs (`profile`); other members by their standard
    errors, skewness and own ends, as a group's mean is (`combined_estimate`). One member is what it is.
    """
    entering = [(d, w) for d, w in zip(members, weights.tolist(), strict=True) if w > 0]
    if len(entering) == 1:
        only = entering[0][0]
        return replace(only, estimate=replace(only.estimate, n=n))
    a, b = (sum(w * getattr(d, side) for d, w in entering) for side in ("a", "b"))
    if any(d.spread is None or d.estimate.stderr is None for d, _ in entering):
        bare = Estimate.bare(b - a, n, "a member has no error bar")
        return Difference(bare, a, b, None, "none", None, math.inf, None)
    shares = np.array([w for _, w in entering])
    stderr, spread = (
        float(np.linalg.norm(shares * each))
        for each in ([d.estimate.stderr or 0.0 for d, _ in entering], [d.spread or 0.0 for d, _ in entering])
    )
    counts = [(d.gained, d.lost, d.estimate.n) for d, _ in entering if d.by_docs]
    gained, lost = (_sum([getattr(d, side) for d, _ in entering]) for side in ("gained", "lost"))
    if len(counts) == len(entering):
        won, wrong, docs = np.array(counts, dtype=np.float64).T
        tables = FlipTables(won, wrong, docs, shares)
        estimate = Estimate(b - a, stderr, *tables.interval(level), n, "combined paired score", level=level)
        return Difference(
            estimate,
            a,
            b,
            tables.p_value(),
            "paired score",
            spread,
            math.inf,
            spread**2 * n,
            gained,
            lost,
            interval=tables.interval,
        )
    at = partial(_combined_at, [d for d, _ in entering], shares, b - a, n)
    estimate = replace(at(level), stderr=stderr, method="paired t, independent members")
    interval, cautious = (partial(_ends_of, at, cautious=cautious) for cautious in (False, True))
    p = 1.0 if spread == 0 else p_value_of(b - a, interval)
    freedom = math.inf if estimate.df is None else estimate.df
    return Difference(
        estimate,
        a,
        b,
        p,
        "paired t",
        spread,
        freedom,
        spread**2 * n,
        gained,
        lost,
        interval=interval,
        cautious=cautious,
    )


def _combined_at(
    members: Sequence[Difference], shares: Floats, value: float, n: int, level: float, *, cautious: bool = False
) -> Estimate:
    made = []
    for d in members:
        low, high = (d.cautious_bounds(level) if cautious else d.bounds(level)) or (None, None)
        made.append(replace(d.estimate, stderr=d.spread, low=low, high=high, df=d.freedom, level=level, bounded=False))
    return combined_estimate(value, made, shares, n, level=level)


def _ends_of(at: Callable[..., Estimate], level: float, *, cautious: bool) -> tuple[float, float]:
    made = at(level, cautious=cautious)
    assert made.low is not None
    assert made.high is not None
    return made.low, made.high


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def shared_difference(apart: Difference, together: Difference) -> Difference:
    """Of members that share docs: the interval of independent ones (`apart`), wider by as much as the spread by shared units
    (`together`) is larger than theirs. So a small member in which nothing flipped counts here as it does where nothing is shared.
    """
    value, stderr = apart.estimate.value, apart.estimate.stderr
    if value is None or stderr is None or apart.spread is None:
        return apart
    if together.spread is None:
        bare = replace(together.estimate, n=apart.estimate.n)
        return replace(together, estimate=bare)
    unseen = max(0.0, apart.spread**2 - stderr**2)
    ratio = math.sqrt((together.spread**2 + unseen) / apart.spread**2) if apart.spread else 1.0
    interval = partial(_wider, apart, apart.bounds, ratio, together.freedom)
    cautious = partial(_wider, apart, apart.cautious_bounds, ratio, together.freedom)
    ends, method = interval(apart.estimate.level), together.test
    estimate = replace(
        apart.estimate,
        stderr=together.spread,
        low=ends[0],
        high=ends[1],
        method=method,
        caution=together.estimate.caution,
    )
    return replace(
        apart,
        estimate=estimate,
        p_value=p_value_of(value, interval),
        test=method,
        spread=apart.spread * max(1.0, ratio),
        freedom=together.freedom,
        doc_variance=(apart.spread * max(1.0, ratio)) ** 2 * apart.estimate.n,
        by_docs=False,
        interval=interval,
        cautious=cautious,
    )


def _wider(
    apart: Difference, bounds: Callable[[float], Bounds], ratio: float, freedom: float, level: float
) -> tuple[float, float]:
    ends, value = bounds(level), apart.estimate.value
    assert ends is not None
    assert value is not None
    half = (1 + level) / 2
    usual = normal_quantile(half) if math.isinf(apart.freedom) else t_quantile(half, apart.freedom)
    wider = max(1.0, ratio * t_quantile(half, freedom) / usual)
    return value - wider * (value - ends[0]), value + wider * (ends[1] - value)


# The best and the worst


def extreme_difference(
    pick: Callable[..., float],
    members: Sequence[Difference],
    of_a: Sequence[Callable[[float], Bounds]],
    of_b: Sequence[Callable[[float], Bounds]],
    n: int,
    *,
    level: float = 0.95,
) -> Difference:
    """Of the smallest (or largest) member of B and that of A, by the members' differences.

    If j is truly the smallest of B, then min B − min A ≥ Bⱼ − Aⱼ, and if k is truly the smallest of A, then it is ≤ Bₖ − Aₖ. So the
    least of the low ends holds, over all members that may be j, and the largest of the high ends over those that may be k; of the
    largest member the other way round. Who may be is told by the members' own intervals, on a tenth of the error rate.
    Replicates do not serve: the smallest of noisy numbers is too small, and the smallest of replicates more so.
    """
    a, b = (pick(getattr(d, side) for d in members) for side in ("a", "b"))
    if any(d.bounds(level) is None for d in members):
        bare = Estimate.bare(b - a, n, "a member has no error bar")
        return Difference(bare, a, b, None, "none", None, math.inf, None)
    ends = partial(_extreme_ends, pick, members, of_a, of_b, cautious=False)
    low, high = ends(level)
    # The likeliest place decides how far docs would have to move it.
    decisive = members[[d.b for d in members].index(b)]
    stderr = decisive.estimate.stderr
    estimate = Estimate(b - a, stderr, min(low, b - a), max(high, b - a), n, "member by member", level=level)
    return Difference(
        estimate,
        a,
        b,
        p_value_of(b - a, ends),
        "member by member",
        decisive.spread,
        decisive.freedom,
        decisive.doc_variance,
        interval=ends,
        cautious=partial(_extreme_ends, pick, members, of_a, of_b, cautious=True),
    )


_FOR_WHO = 0.1
"""The part of the error rate that goes to who may be the smallest."""


def _extreme_ends(
    pick: Callable[..., float],
    members: Sequence[Difference],
    of_a: Sequence[Callable[[float], Bounds]],
    of_b: Sequence[Callable[[float], Bounds]],
    level: float,
    *,
    cautious: bool,
) -> tuple[float, float]:
    inner = 1 - (1 - level) * (1 - _FOR_WHO)
    ends = [(d.cautious_bounds(inner) if cautious else d.bounds(inner)) or (-math.inf, math.inf) for d in members]
    in_a, in_b = (_may_be(pick, sides, (1 - level) / 2 * _FOR_WHO) for sides in (of_a, of_b))
    for_low, for_high = (in_b, in_a) if pick is min else (in_a, in_b)
    return min(ends[i][0] for i in for_low), max(ends[i][1] for i in for_high)


def _may_be(pick: Callable[..., float], sides: Sequence[Callable[[float], Bounds]], tail: float) -> list[int]:
    """Members that may be the smallest (largest): none of the others is below them for sure, but for this error rate."""
    alone, together = 1 - tail, 2 * (1 - tail / 2) ** (1 / len(sides)) - 1
    near, far = (0, 1) if pick is min else (1, 0)
    bounds = [(of(alone), of(together)) for of in sides]
    limits = [both[far] for _, both in bounds if both is not None]
    limit = pick(limits) if len(limits) == len(bounds) else (math.inf if pick is min else -math.inf)
    sign = 1 if pick is min else -1
    return [i for i, (one, _) in enumerate(bounds) if one is None or sign * one[near] <= sign * limit]
