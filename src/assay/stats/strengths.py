"""A scale on which several players stand by how often they beat each other (Bradley and Terry 1952).

    P(i beats j) = σ(θᵢ − θⱼ)

The strengths θ are log-odds with mean 0; a tie is half a win for both. They exist where every player has a way of wins, or
ties, to every other one (Ford 1957). One that won or lost all its games has none, and none is made up.

What the fit needs of the games is the share of wins of each pair, a ratio of sums over docs. So a replicate of the bootstrap
is the same fit to reweighted sums, and games on one doc, whoever played them, move together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.stats.bootstrap import bootstrap_estimate, bootstrap_replicates
from assay.stats.estimate import B_DEFAULT, Estimate, Floats, Keys
from assay.stats.prediction_powered import FEWEST_LABELS, Judged
from assay.stats.units import unit_keys


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
    """The strength of each player, with an interval by the bootstrap over docs."""
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
