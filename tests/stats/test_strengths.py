"""Strengths from games: the truth is found, intervals hold it, and what the games do not say is not made up."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from assay.stats import Games, bradley_terry
from assay.stats.ranks import fitted

TRUTH = np.array([0.8, 0.1, -0.3, -0.6])


def play(rng: np.random.Generator, docs: int, *, per_cluster: int = 1, ties: bool = True) -> list[Games]:
    """Everybody against everybody on the same docs. Docs of a cluster have the same winner."""
    keys = rng.integers(0, 2**64, docs, dtype=np.uint64)
    clusters = np.repeat(rng.integers(0, 2**64, docs // per_cluster, dtype=np.uint64), per_cluster)
    games = []
    for a, b in itertools.combinations(range(len(TRUTH)), 2):
        chance = 1 / (1 + math.exp(TRUTH[b] - TRUTH[a]))
        draws = np.repeat(rng.random((2, docs // per_cluster)) < chance, per_cluster, axis=1)
        wins = draws.mean(axis=0) if ties else draws[0].astype(float)  # two orders that disagree are a tie
        games.append(Games(a, b, keys, wins, clusters=clusters if per_cluster > 1 else None))
    return games


def test_strengths_are_those_of_the_players() -> None:
    found = bradley_terry(play(np.random.default_rng(0), 20_000), 4, replicates=0)
    assert [each.value for each in found] == pytest.approx(TRUTH, abs=0.03)


CELLS = [(60, 1), (60, 3), (300, 1), (300, 5)]
"""Docs, and docs a cluster. Every fourth is part of each test run."""


@pytest.mark.parametrize(
    ("docs", "per_cluster"),
    [pytest.param(*c, marks=() if i % 4 == 0 else pytest.mark.wide) for i, c in enumerate(CELLS)],
)
def test_intervals_hold_the_truth(docs: int, per_cluster: int) -> None:
    """300 repetitions: a share whose 99 % Monte Carlo interval lies wholly outside 92 to 98.5 % fails."""
    rng, held = np.random.default_rng([docs, per_cluster]), []
    for _ in range(300):
        found = bradley_terry(play(rng, docs, per_cluster=per_cluster), 4, replicates=200)
        held.append([(e.low or 0) <= truth <= (e.high or 0) for e, truth in zip(found, TRUTH)])
    for share in np.mean(held, axis=0):
        reach = 2.576 * math.sqrt(max(share * (1 - share), 1 / 300) / 300)
        assert share + reach >= 0.92, f"{share:.1%}"
        assert share - reach <= 0.985, f"{share:.1%}"


def test_runs_that_met_only_the_same_opponent_are_on_one_scale() -> None:
    """0.75 and 0.6 of the games against a third: the log-odds of these, whatever the number of docs of each."""
    docs = np.arange(100, dtype=np.uint64)
    games = [Games(0, 2, docs, np.repeat([1.0, 0.0], [75, 25])), Games(1, 2, docs[:20], np.repeat([1.0, 0.0], [12, 8]))]
    a, b, third = (each.value or 0.0 for each in bradley_terry(games, 3, replicates=0))
    assert (a - third, b - third) == pytest.approx((math.log(3), math.log(1.5)))


def test_a_player_that_won_every_game_has_no_strength() -> None:
    docs = np.arange(30, dtype=np.uint64)
    for estimate in bradley_terry([Games(0, 1, docs, np.ones(30))], 2):
        assert (estimate.value, estimate.undefined) == (
            None,
            "no chain of wins connects it with all others in both directions",
        )


def test_one_loss_among_many_games_gives_a_number_without_an_interval() -> None:
    """In a third of the replicates the one loss is not drawn, and there is no strength."""
    wins = np.ones(30)
    wins[0] = 0
    first, _ = bradley_terry([Games(0, 1, np.arange(30, dtype=np.uint64), wins)], 2)
    assert first.value == pytest.approx(math.log(29) / 2)
    assert first.low is None
    assert "of the replicates" in first.method


def test_two_players_stand_where_the_log_odds_of_their_games_are() -> None:
    (a, b), *_ = fitted(np.array([[0, 1]]), np.array([[0.9]]), np.array([[10.0]]), 2)
    assert a - b == pytest.approx(math.log(9))


def test_labels_correct_the_judge() -> None:
    """The judge calls every second lost game a win; people read 100 of 400."""
    rng = np.random.default_rng(3)
    people = (rng.random(400) < 0.5).astype(float)
    verdicts = np.maximum(people, rng.random(400) < 0.5)
    labels = np.where(np.arange(400) < 100, people, np.nan)
    docs = np.arange(400, dtype=np.uint64)
    raw, _ = bradley_terry([Games(0, 1, docs, verdicts)], 2)
    corrected, _ = bradley_terry([Games(0, 1, docs, verdicts, labels)], 2)
    assert (raw.low or 0) > 0.2
    assert (corrected.low or 0) < 0 < (corrected.high or 0)
    assert (corrected.stderr or 0) > (raw.stderr or 0)
