"""Whoever asks to stop is heard at once: what is under way is awaited, and nothing more is sent."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from tests.models.openai.asking import connect, generations
from tests.models.openai.faulty_server import FaultyServer


def test_a_consumer_that_stops_early_stops_the_requests() -> None:
    with FaultyServer(delay=0.02) as server:
        model = connect(server, num_concurrent=2)
        stream = model.stream("generate_until", generations(60), [0] * 60)
        next(stream)
        stream.close()
        time.sleep(0.2)
        sent = len(server.bodies)
        time.sleep(0.2)
        assert len(server.bodies) == sent < 60
        assert len(model.generate_until(generations(2))) == 2  # and it can be used again
        model.close()


def test_asked_to_stop_it_awaits_what_is_under_way_and_sends_no_more() -> None:
    with FaultyServer(delay=0.02) as server:
        model = connect(server, num_concurrent=4)
        answers = dict(model.stream("generate_until", generations(60), [0] * 60, stop=lambda: len(server.bodies) >= 10))
        model.close()
    assert len(answers) == len(server.bodies) == sum(server.answered.values())
    assert 10 <= len(answers) < 20


@pytest.mark.parametrize("fault", ["429:3600", "429", "500"])
def test_a_stop_ends_the_wait_for_a_retry_and_none_is_sent(fault: str) -> None:
    with FaultyServer(lambda seen, body: fault) as server:
        model, asked = connect(server, backoff=50), itertools.count()
        # Asked every tenth of a second by those that wait, and once by each that is about to.
        answers = list(
            model.stream(
                "generate_until",
                generations(2),
                [0, 0],
                stop=lambda: bool(server.bodies) and not server.active and next(asked) > 6,
            )
        )
        model.close()
    assert answers == []
    assert set(server.seen.values()) == {1}


def test_retries_that_wait_for_a_slot_stop_too() -> None:
    """Many wait for the one slot that is left; the stop that wakes the first of them has to reach the others."""
    stopped = False

    def fail_then_stop(seen: int, body: dict[str, Any]) -> str | None:
        nonlocal stopped
        stopped = stopped or sum(server.seen.values()) > 30
        return "500"

    with FaultyServer(fail_then_stop, delay=0.01) as server:
        model = connect(server, num_concurrent=16, max_retries=1000, backoff=0.001)
        answers = list(model.stream("generate_until", generations(40), [0] * 40, stop=lambda: stopped))
        model.close()
    assert answers == []
    assert len(server.bodies) < 60


def test_a_very_long_retry_after_does_not_hold_the_next_round_up_for_longer_than_the_cap() -> None:
    from assay.models.openai.pacing import LONGEST_WAIT

    with FaultyServer(lambda seen, body: "429:1e9") as server:
        model = connect(server)
        assert (
            list(
                model.stream("generate_until", generations(1), [0], stop=lambda: model.transport.limit.paused_until > 0)
            )
            == []
        )
        assert model.transport.limit.paused_until <= time.monotonic() + LONGEST_WAIT
        model.close()
