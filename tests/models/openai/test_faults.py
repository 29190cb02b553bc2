"""Backends against a server that misbehaves: every request is answered once, or reported with the reason."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.models.openai.asking import NGRAM, ask, close_to, connect, generations, pairs
from tests.models.openai.faulty_server import FaultyServer

from assay.errors import ModelError
from assay.instance import Instance
from assay.models import load_model
from assay.models.openai.transport import Transport
from assay.models.openai.wire import Job, Settings

FAULTS = ["429", "429:0", "500", "502", "503:0.01", "cut", "drop", "garbage", "empty"]


def once_each(seen: int, body: dict[str, Any]) -> str | None:
    """The first try of every request fails, each in its own way; every third fails twice."""
    which = sum(map(ord, json.dumps(body)))
    return FAULTS[(which + seen) % len(FAULTS)] if seen < 1 + (which % 3 == 0) else None


@pytest.mark.parametrize("make", [pairs, generations])
def test_faults_are_survived_and_each_request_is_answered_once(make: Callable[[int], list[Instance]]) -> None:
    requests = make(40)
    kind = requests[0].request_type
    with FaultyServer(once_each) as server:
        model = connect(server)
        answers = list(model.stream(kind, requests, [0] * 40))
        retries = model.usage.retries
        model.close()
        assert set(server.answered.values()) == {1}
    assert sorted(position for position, _ in answers) == list(range(40))
    assert all(answer.failure is None for _, answer in answers)
    assert retries >= 40
    responses = [answer.response for _, answer in sorted(answers)]
    expected = getattr(NGRAM, kind)(requests)
    assert close_to(responses, expected) if kind == "loglikelihood" else responses == expected


def test_a_server_that_hangs_is_asked_again() -> None:
    with FaultyServer(lambda seen, body: "hang" if seen == 0 else None) as server:
        model = connect(server, timeout=0.3)
        assert len(model.generate_until(generations(3))) == 3
        model.close()


@pytest.mark.parametrize("fault", ["500", "429", "cut", "garbage", "400", "hang"])
def test_a_request_that_never_succeeds_is_reported_with_the_reason(fault: str) -> None:
    requests = generations(6)
    poison = requests[2].args[0]
    with FaultyServer(lambda seen, body: fault if body["prompt"] == poison else None) as server:
        model = connect(server, max_retries=1, timeout=0.2 if fault == "hang" else 5)
        answers = dict(model.stream("generate_until", requests, [0] * 6))
        model.close()
    reasons = {"cut": "connection failed", "garbage": "malformed reply", "hang": "no answer within"}
    assert [i for i in range(6) if answers[i].failure] == [2]
    assert answers[2].response is None
    assert reasons.get(fault, f"HTTP {fault}") in str(answers[2].failure)


def test_a_server_that_is_gone_stops_the_run_and_what_was_answered_is_kept() -> None:
    with FaultyServer(lambda seen, body: "drop" if int(body["prompt"].split()[-1]) >= 20 else None) as server:
        model = connect(server, max_retries=1, num_concurrent=1)
        requests = [ask("generate_until", f"Number {i:03}", {"max_gen_toks": 1}) for i in range(60)]
        kept: list[int] = []
        with pytest.raises(ModelError, match="does not answer"):
            kept.extend(
                position
                for position, answer in model.stream("generate_until", requests, [0] * 60)
                if not answer.failure
            )
        model.close()
    assert len(server.answered) == 20


def test_nobody_listens() -> None:
    with FaultyServer() as server:
        url = server.url
    model = load_model("local-completions", {"base_url": url, "model": "m", "backoff": 0.001, "max_retries": 1})
    with pytest.raises(ModelError, match="connection failed"):
        model.generate_until(generations(1))
    model.close()


def test_a_server_that_takes_no_connection_for_long_is_gone() -> None:
    with FaultyServer() as server:
        url = server.url
    settings = Settings(f"{url}/completions", {}, max_retries=1000, backoff=0.01, gone_after=0.2)
    transport = Transport(settings)
    with pytest.raises(ModelError, match=r"no connection for 0\.2 s"):
        list(transport.send_all([Job({}, dict)] * 3))
    transport.close()


@pytest.mark.parametrize(("status", "hint"), [(401, "OPENAI_API_KEY"), (404, "base_url")])
def test_what_no_retry_can_help_stops_at_once(status: int, hint: str) -> None:
    with FaultyServer(lambda seen, body: str(status)) as server:
        model = connect(server)
        with pytest.raises(ModelError, match=hint):
            list(model.stream("generate_until", generations(30), [0] * 30))
        model.close()
    assert len(server.bodies) < 30


def test_retry_after_is_honoured_by_all_requests() -> None:
    times: list[float] = []

    def throttle(seen: int, body: dict[str, Any]) -> str | None:
        times.append(time.monotonic())
        return "429:0.4" if len(times) == 1 else None

    with FaultyServer(throttle) as server:
        model = connect(server, num_concurrent=1)
        model.generate_until(generations(4))
        model.close()
    assert times[1] - times[0] >= 0.39


def test_concurrency_grows_and_shrinks() -> None:
    with FaultyServer(delay=0.05) as server:
        model = connect(server, num_concurrent=16)
        model.generate_until(generations(80))
        assert 4 <= server.most_active <= 16
        assert model.transport.limit.slots == 16
        model.close()
    with FaultyServer(lambda seen, body: "429" if server.active > 3 else None, delay=0.06) as server:
        model = connect(server, num_concurrent=64)
        assert len(model.generate_until(generations(40))) == 40
        assert model.transport.limit.slots < 16
        model.close()


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
        model.should_stop = lambda: len(server.bodies) >= 10
        answers = dict(model.stream("generate_until", generations(60), [0] * 60))
        model.close()
    assert len(answers) == len(server.bodies) == sum(server.answered.values())
    assert 10 <= len(answers) < 20
