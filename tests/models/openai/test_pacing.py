"""Concurrency grows while all is well and is halved by complaints, once for each overload."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from assay.models.openai.pacing import TRUST, AdaptiveLimit


def test_it_doubles_each_round_until_the_first_complaint() -> None:
    limit = AdaptiveLimit(ceiling=100)
    rounds = []
    for _ in range(5):
        rounds.append(limit.slots)
        for _ in range(limit.slots):
            limit.succeeded()
    assert rounds == [2, 4, 8, 16, 32]


def test_after_a_complaint_it_grows_by_one_each_round() -> None:
    limit = AdaptiveLimit(ceiling=100, limit=32)
    limit.complained(limit.epoch)
    assert limit.slots == 16
    for _ in range(17):
        limit.succeeded()
    assert limit.slots == 17


def test_echoes_of_one_overload_halve_only_once() -> None:
    limit = AdaptiveLimit(ceiling=100, limit=64)
    sent = limit.epoch
    for _ in range(20):
        limit.complained(sent)
    assert limit.slots == 32
    limit.complained(limit.epoch)
    assert limit.slots == 16


@given(st.integers(1, 50), st.lists(st.booleans(), max_size=200))
def test_it_stays_between_one_and_the_ceiling(ceiling: int, outcomes: list[bool]) -> None:
    limit = AdaptiveLimit(ceiling=ceiling)
    for good in outcomes:
        if good:
            limit.succeeded()
        else:
            limit.complained(limit.epoch)
        assert 1 <= limit.slots <= ceiling


def test_a_pause_is_never_shortened() -> None:
    limit = AdaptiveLimit(ceiling=4)
    limit.pause(10.0)
    limit.pause(5.0)
    assert limit.paused_until == 10.0


def test_512_are_reached_within_ten_round_trips() -> None:
    limit = AdaptiveLimit(ceiling=1024)
    trips = 0
    while limit.slots < 512:
        trips += 1
        for _ in range(limit.slots):
            limit.succeeded()
    assert trips <= 10


def test_faults_that_strike_one_request_in_twenty_are_no_overload() -> None:
    chance = random.Random(0)
    limit = AdaptiveLimit(ceiling=512)
    for _ in range(40):
        sent = limit.epoch
        for _ in range(limit.slots):
            if chance.random() < 0.05:
                limit.complained(sent)
            else:
                limit.succeeded()
    assert limit.slots > 0.9 * 512


def serve(limit: AdaptiveLimit, capacity: int, rounds: int) -> tuple[float, float]:
    """A server that refuses what is more than it bears: its mean load, and the share that it refused."""
    answered = refused = 0
    for _ in range(rounds):
        sent, slots = limit.epoch, limit.slots
        for at in range(slots):
            if at < capacity:
                limit.succeeded()
            else:
                limit.complained(sent)
        answered += min(slots, capacity)
        refused += max(0, slots - capacity)
    return answered / rounds / capacity, refused / (answered + refused)


def test_a_server_is_kept_busy_and_hardly_troubled_around_what_it_bears() -> None:
    for capacity in (3, 20, 100, 700):
        load, refused = serve(AdaptiveLimit(ceiling=1024), capacity, 400)
        assert load > 0.75, capacity
        assert refused < 0.15, capacity


def test_what_a_server_bears_may_grow_while_it_runs() -> None:
    limit = AdaptiveLimit(ceiling=1024)
    serve(limit, 20, 100)
    assert limit.slots < 80
    assert serve(limit, 600, 100)[0] > 0.5


def test_a_few_failures_at_the_start_do_not_keep_it_small() -> None:
    """One request in twenty fails, from the first on: 512 are under way within ten rounds, nearly always."""

    def rounds(seed: int) -> int:
        chance, limit = random.Random(seed), AdaptiveLimit(ceiling=512, answers=TRUST)
        for number in range(1, 100):
            epoch = limit.epoch
            for _ in range(limit.slots):
                if chance.random() < 0.05:
                    limit.complained(epoch)
                else:
                    limit.succeeded()
            if limit.slots >= 500:
                return number
        return 100

    assert sum(rounds(seed) <= 10 for seed in range(200)) >= 190


def test_a_server_that_refuses_everything_is_soon_asked_one_at_a_time() -> None:
    limit = AdaptiveLimit(ceiling=512, limit=64, answers=TRUST)
    for _ in range(12):
        limit.complained(limit.epoch)
    assert limit.slots == 1
