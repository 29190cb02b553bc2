"""Concurrency grows while all is well and is halved by complaints, once for each overload."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.models.openai.limiter import AdaptiveLimit


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
