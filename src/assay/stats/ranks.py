"""Which place may each of many runs have? Differences of all pairs, bounded together; and strengths from who beat whom.

All runs share the bootstrap's weights, so replicate *b* of every pair saw the same docs. The largest studentised deviation
over all pairs (max-t) bounds every difference at once; whoever is above a run in all of these is above it in rank. If all
bounds hold, all ranks hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.stats.bootstrap import bootstrap_estimate, bootstrap_replicates, weight_blocks
from assay.stats.estimate import B_DEFAULT, Estimate, Floats, Keys
from assay.stats.intervals import holm
from assay.stats.judging import FEWEST_LABELS, Judged
from assay.stats.units import cluster_index, sums_by, unit_keys

Places = NDArray[np.int64]


def pair_places(runs: int) -> tuple[Places, Places]:
    """All pairs i < j in a fixed order.

    >>> [places.tolist() for places in pair_places(3)]
    [[0, 0, 1], [1, 2, 2]]
    """
    first, second = np.triu_indices(runs, 1)
    return first.astype(np.int64), second.astype(np.int64)


@dataclass(frozen=True)
class PairDraws:
    """The differences (first − second) of all pairs of runs, with replicates.

    `floor` is what one doc more could do to a difference: two runs that agree on every doc seen are not known to be equal.
    """

    difference: Floats
    draws: Floats
    """[pairs, B]"""
    floor: Floats
    freedom: Floats
    common: Places
    """Docs that both runs of the pair have."""
    values: Floats | None = None
    """[runs], where all runs have the same docs."""
    of_runs: Floats | None = None
    """[runs, B], likewise."""

    @property
    def spread(self) -> Floats:
        """Standard error as the replicates show it, corrected for few units."""
        corrected = np.std(self.draws, axis=1) * np.sqrt((self.freedom + 1) / self.freedom)
        return np.asarray(corrected, dtype=np.float64)

    @property
    def stderr(self) -> Floats:
        return np.asarray(np.hypot(self.spread, self.floor), dtype=np.float64)


def mean_pairs(values: Floats, units: Keys, replicates: int) -> PairDraws:
    """Pairs of means. `values` is [runs, docs] with NaN where a run lacks a doc; each pair is compared on what both have."""
    first, second = pair_places(len(values))
    present = ~np.isnan(values)
    filled = np.where(present, values, 0.0)
    whole = present.all(axis=0)
    sums, drawn = _weighted(filled[:, whole], units[whole], replicates)
    difference = filled[first][:, whole].sum(axis=1) - filled[second][:, whole].sum(axis=1)
    common = np.full(len(first), int(whole.sum()), dtype=np.int64)
    draws, weight = sums[first] - sums[second], np.repeat(drawn[None], len(first), axis=0)
    if not whole.all():
        for p, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
            both = present[i] & present[j] & ~whole
            gap = (filled[i] - filled[j])[None, both]
            more, count = _weighted(gap, units[both], replicates)
            draws[p] += more[0]
            weight[p] += count
            difference[p] += gap.sum()
            common[p] += int(both.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        difference, draws = difference / common, draws / weight
        numbers = (filled.mean(axis=1), sums / drawn) if whole.all() else (None, None)
    # A replicate that drew no doc of a pair says nothing about it.
    draws = np.where(np.isfinite(draws), draws, difference[:, None])
    floor, freedom = _floor_and_freedom(filled, present, units)
    return PairDraws(difference, draws, floor, freedom, common, *numbers)


def _weighted(values: Floats, units: Keys, replicates: int) -> tuple[Floats, Floats]:
    """Weighted sums [rows, B] and the weight drawn [B]."""
    sums, drawn = np.zeros((len(values), replicates)), np.zeros(replicates)
    for docs, draws, weights in weight_blocks(units, replicates):
        sums[:, draws] += values[:, docs] @ weights.astype(np.float64)
        drawn[draws] += weights.sum(axis=0)
    return sums, drawn


def _floor_and_freedom(filled: Floats, present: NDArray[np.bool_], units: Keys) -> tuple[Floats, Floats]:
    first, second = pair_places(len(filled))
    index = cluster_index(units)
    seen = filled[present]
    # Scores in [0, 1] may differ by 1 on a doc, also where every answer so far was right.
    reach = 1.0 if len(seen) and seen.min() >= 0 and seen.max() <= 1 else float(np.ptp(seen)) if len(seen) else 0.0
    floor, freedom = np.zeros(len(first)), np.ones(len(first))
    for p, (i, j) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        both = present[i] & present[j]
        if both.any():
            sizes = sums_by(index[both], np.ones(int(both.sum())))
            sizes = sizes[sizes > 0]
            # As in a comparison of two runs: a unit that outweighs others leaves fewer degrees of freedom than units.
            shares = sizes / float(sizes.sum())
            freedom[p] = max(1.0, 1 / float(shares @ shares) - 1)
            # One unit of middling size, on which the two differ as far as scores can.
            floor[p] = reach * float(shares.mean())
    return floor, freedom


def drawn_pairs(values: Floats, draws: Floats, units: int, docs: int) -> PairDraws:
    """Pairs of numbers that are no means, from each run's replicates [runs, B] on the same docs."""
    first, second = pair_places(len(values))
    everywhere = np.ones(len(first))
    # What one unit more does is not known of such a number; of its size at most it is 1/units.
    finite = draws[np.isfinite(draws)]
    floor = (float(np.ptp(finite)) if len(finite) else 0.0) / max(1, units)
    return PairDraws(
        values[first] - values[second],
        draws[first] - draws[second],
        floor * everywhere,
        max(1, units - 1) * everywhere,
        np.full(len(first), docs, dtype=np.int64),
        values,
        draws,
    )


def weighted_pairs(members: Sequence[PairDraws], weights: Sequence[float]) -> PairDraws:
    """Pairs of Σ w·member. Members that share docs share their weights, so nothing need be known of their dependence."""
    parts = [(member, weight) for member, weight in zip(members, weights, strict=True) if weight]
    variances = np.array([(weight * member.stderr) ** 2 for member, weight in parts])
    freedoms = np.array([member.freedom for member, _ in parts])
    with np.errstate(divide="ignore", invalid="ignore"):
        # Satterthwaite: the members' degrees of freedom by what each adds to the variance.
        freedom = variances.sum(axis=0) ** 2 / (variances**2 / freedoms).sum(axis=0)
    numbers = [
        (weight * member.values, weight * member.of_runs)
        for member, weight in parts
        if member.values is not None and member.of_runs is not None
    ]
    whole = len(numbers) == len(parts)
    return PairDraws(
        np.sum([weight * member.difference for member, weight in parts], axis=0),
        np.sum([weight * member.draws for member, weight in parts], axis=0),
        np.sqrt(np.sum([(weight * member.floor) ** 2 for member, weight in parts], axis=0)),
        np.where(np.isfinite(freedom), freedom, freedoms.min(axis=0)),
        np.sum([member.common for member, _ in parts], axis=0),
        np.sum([values for values, _ in numbers], axis=0) if whole else None,
        np.sum([draws for _, draws in numbers], axis=0) if whole else None,
    )


@dataclass(frozen=True)
class Ranks:
    """For each run the places it may have, its tier, and how often it came first. Matrices are [run, other]: run − other."""

    rank: Places
    low: Places
    high: Places
    tier: Places
    best: Floats
    difference: Floats
    lower: Floats
    upper: Floats
    p_adjusted: Floats
    common: Places


def rank_runs(pairs: PairDraws, *, level: float = 0.95, min_difference: float = 0.0) -> Ranks:
    """Ranks where higher is better. `min_difference`: how far another must be ahead to count as ahead."""
    runs = round((1 + (1 + 8 * len(pairs.difference)) ** 0.5) / 2)
    difference = _square(pairs.difference, runs)
    reach = _square(simultaneous_reach(pairs, level), runs, symmetric=True)
    lower, upper = difference - reach, difference + reach
    p = _square(np.array(holm(_p_values(pairs, min_difference).tolist())), runs, symmetric=True)
    behind = min_difference < difference.T
    order = np.argsort(-difference.mean(axis=1), kind="stable")
    return Ranks(
        rank=1 + behind.sum(axis=1),
        low=1 + (upper < -min_difference).sum(axis=1),
        high=1 + (lower < -min_difference).sum(axis=1),
        tier=_tiers(order, (p < 1 - level) & (difference < 0)),
        best=_share_first(pairs, runs),
        difference=difference,
        lower=lower,
        upper=upper,
        p_adjusted=p,
        common=_square(pairs.common, runs, symmetric=True).astype(np.int64),
    )


def simultaneous_reach(pairs: PairDraws, level: float) -> Floats:
    """How far each difference may be off, such that all hold together at this level."""
    from scipy.special import ndtr, stdtrit

    spread = np.std(pairs.draws, axis=1)
    moving = spread > 0
    if not moving.any():
        return np.asarray(stdtrit(pairs.freedom, (1 + level) / 2) * pairs.stderr)
    largest = np.zeros(pairs.draws.shape[1])
    for draws, middle, scale in zip(
        pairs.draws[moving], pairs.difference[moving], spread[moving], strict=True
    ):  # a pair at a time: the table of all may be large
        np.maximum(largest, np.abs(draws - middle) / scale, out=largest)
    critical = float(np.quantile(largest, level))
    # Few units: the quantile of Student's t in place of the normal one (Hesterberg 2015).
    return np.asarray(stdtrit(pairs.freedom, ndtr(critical)) * pairs.stderr)


def _p_values(pairs: PairDraws, min_difference: float) -> Floats:
    """Two-sided, that a difference is no larger than one that does not matter."""
    from scipy.special import stdtr

    stderr = pairs.stderr
    beyond = np.maximum(0.0, np.abs(pairs.difference) - min_difference)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(stderr > 0, beyond / stderr, 0.0)
    return np.asarray(np.minimum(1.0, 2 * stdtr(pairs.freedom, -t)))


def _tiers(order: Places, below: NDArray[np.bool_]) -> Places:
    """A tier begins with the first run that is told apart from the leader of the tier before.

    >>> _tiers(np.array([2, 0, 1]), np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)).tolist()
    [1, 2, 1]
    """
    tiers = np.ones(len(order), dtype=np.int64)
    leader, tier = order[0], 1
    for run in order[1:]:
        if below[run, leader]:
            leader, tier = run, tier + 1
        tiers[run] = tier
    return tiers


def _share_first(pairs: PairDraws, runs: int) -> Floats:
    """How often each run came first among the replicates; ties share. Its worst difference to any other decides: with
    docs missing here and there, no run need be ahead of all others."""
    first, second = pair_places(runs)
    worst = np.full((runs, pairs.draws.shape[1]), np.inf)
    np.minimum.at(worst, first, pairs.draws)
    np.minimum.at(worst, second, -pairs.draws)
    leads = worst >= worst.max(axis=0) - 1e-12
    return np.asarray((leads / leads.sum(axis=0)).mean(axis=1))


def _square(values: NDArray[np.generic], runs: int, *, symmetric: bool = False) -> Floats:
    first, second = pair_places(runs)
    square = np.zeros((runs, runs))
    square[first, second] = values
    square[second, first] = values if symmetric else -np.asarray(values, dtype=np.float64)
    return square


@dataclass(frozen=True)
class Games:
    """All games of one pair of players, one a doc: 1 where the first won, 0 where the second did, 0.5 for a tie."""

    first: int
    second: int
    docs: Keys
    wins: Floats
    labels: Floats | None = None
    """What people say, NaN where nobody read the answers."""
    clusters: Keys | None = None

    @property
    def judged(self) -> Judged | None:
        """Where there are labels enough to correct the judge's share of wins by."""
        judged = None if self.labels is None else Judged(self.wins, self.labels)
        return judged if judged is not None and judged.n >= FEWEST_LABELS else None


def bradley_terry(games: Sequence[Games], players: int, *, replicates: int = B_DEFAULT) -> list[Estimate]:
    """The strength of each player (Bradley and Terry 1952), with an interval by the bootstrap over docs.

        P(i beats j) = σ(θᵢ − θⱼ)

    The strengths θ are log-odds with mean 0; a tie is half a win for both. They exist where every player has a way of
    wins, or ties, to every other one (Ford 1957). One that won or lost all its games has none, and none is made up.

    What the fit needs of the games is the share of wins of each pair, a ratio of sums over docs. So a replicate of the
    bootstrap is the same fit to reweighted sums, and games on one doc, whoever played them, move together.
    """
    pairs = np.array([(each.first, each.second) for each in games], dtype=np.int64).reshape(-1, 2)
    table = np.concatenate([_sums_of(each, at, len(games)) for at, each in enumerate(games)])
    keys = np.concatenate([unit_keys(each.docs, each.clusters) for each in games])
    weights = np.array([1.0 if each.judged is None else each.judged.weight for each in games])

    def strengths(sums: Floats) -> Floats:
        wins, counts, rest, labelled = sums.reshape(len(sums), len(games), 4).transpose(2, 0, 1)
        share = weights * wins / counts + np.where(labelled > 0, rest / np.maximum(labelled, 1e-9), 0.0)
        return fitted(pairs, np.clip(share, 0, 1), counts, players)

    values = strengths(table.sum(axis=0)[None, :])[0]
    draws = bootstrap_replicates(table, strengths, keys, None, replicates) if replicates else np.empty((0, players))
    n, units = len(np.unique(np.concatenate([each.docs for each in games]))), len(np.unique(keys))
    return [
        Estimate.missing("no chain of wins connects it with all others in both directions", n)
        if np.isnan(value)
        else bootstrap_estimate(float(value), draws[:, i], n, units=units)
        for i, value in enumerate(values)
    ]


def _sums_of(games: Games, at: int, pairs: int) -> Floats:
    """A row a doc: wins, games, and, where labels correct the judge, what people say beyond it and how many they read."""
    table = np.zeros((len(games.wins), pairs, 4))
    table[:, at, 0], table[:, at, 1] = games.wins, 1.0
    if (judged := games.judged) is not None:
        rest = np.nan_to_num(judged.labels) - judged.weight * judged.verdicts
        table[:, at, 2], table[:, at, 3] = np.where(judged.labelled, rest, 0.0), judged.labelled
    return table.reshape(len(table), -1)


def fitted(pairs: NDArray[np.int64], share: Floats, counts: Floats, players: int) -> Floats:
    """θ [B, players] of the greatest likelihood for shares of wins and numbers of games [B, pairs]; NaN where none exists.

    Newton's method, all rows at once. The likelihood is concave, so steps of at most one unit of log-odds lead there.

    >>> fitted(np.array([[0, 1]]), np.array([[0.75]]), np.array([[100.0]]), 2).round(3).tolist()
    [[0.549, -0.549]]
    """
    exists = _are_joined(pairs, share, counts, players)
    share, counts = share[exists], counts[exists]
    joins = np.zeros((len(pairs), players))
    joins[np.arange(len(pairs)), pairs[:, 0]], joins[np.arange(len(pairs)), pairs[:, 1]] = 1.0, -1.0
    theta = np.zeros((len(share), players))
    for _ in range(100):
        p = 1 / (1 + np.exp(-theta @ joins.T))
        gradient = (counts * (share - p)) @ joins
        curvature = np.einsum("bp,pi,pj->bij", counts * p * (1 - p), joins, joins)
        # θ + c fits as well as θ: 1·1ᵀ keeps the mean at 0 and leaves the rest as it is.
        step = np.linalg.solve(curvature + 1.0, gradient[:, :, None])[:, :, 0].clip(-1, 1)
        theta = theta + step
        if np.abs(step).max(initial=0.0) < 1e-10:
            break
    result: Floats = np.full((len(exists), players), np.nan)
    result[exists] = theta - theta.mean(axis=1, keepdims=True)
    return result


def _are_joined(pairs: NDArray[np.int64], share: Floats, counts: Floats, players: int) -> NDArray[np.bool_]:
    """For each row whether wins lead from every player to every other. Squaring a matrix doubles the length of the ways."""
    beats = np.broadcast_to(np.eye(players), (len(share), players, players)).copy()
    beats[:, pairs[:, 0], pairs[:, 1]] += (counts > 0) & (share > 0)
    beats[:, pairs[:, 1], pairs[:, 0]] += (counts > 0) & (share < 1)
    for _ in range(max(1, players.bit_length())):
        beats = np.minimum(beats @ beats, 1.0)
    return np.asarray((beats > 0).all(axis=(1, 2)), dtype=np.bool_)
