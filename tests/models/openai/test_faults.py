"""Backends against a server that misbehaves: every request is answered once, or reported with the reason."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.models.openai.asking import NGRAM, ask, close_to, connect, generations, pairs, with_tokens
from tests.models.openai.faulty_server import FaultyServer

from assay.errors import ModelError
from assay.instance import Instance
from assay.models import load_model
from assay.models.openai.transport import Transport
from assay.models.openai.wire import Job, Settings

FAULTS = ["429", "429:0", "500", "502", "503:0.01", "cut", "drop", "garbage", "gzip", "empty"]


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
    responses = [answer.answer for _, answer in sorted(answers)]
    expected = getattr(NGRAM, kind)(requests)
    assert close_to(responses, expected) if kind == "loglikelihood" else responses == expected


def test_faults_of_a_chat_server_are_survived_too() -> None:
    with FaultyServer(once_each) as server:
        model = connect(server, "local-chat-completions")
        answers = dict(model.stream("generate_until", generations(20), [0] * 20))
        model.close()
        assert set(server.answered.values()) == {1}
    with FaultyServer() as server:
        model = connect(server, "local-chat-completions")
        expected = model.generate_until(generations(20))
        model.close()
    assert [answers[i].answer for i in range(20)] == expected


@pytest.mark.parametrize("name", ["local-completions", "local-chat-completions"])
@pytest.mark.parametrize("fault", ["500", "garbage", "gzip", "400", "filtered"])
def test_one_lost_request_leaves_the_others(name: str, fault: str) -> None:
    poison = str(generations(3)[1].args[0])
    with FaultyServer(lambda seen, body: fault if poison in json.dumps(body, ensure_ascii=False) else None) as server:
        model = connect(server, name, max_retries=1)
        answers = dict(model.stream("generate_until", generations(3), [0] * 3))
        model.close()
    assert [answers[i].failure is None for i in range(3)] == [True, False, True]


def test_a_withheld_answer_is_a_failed_request_and_is_not_asked_for_again() -> None:
    with FaultyServer(lambda seen, body: "filtered") as server:
        model = connect(server)
        answer = dict(model.stream("generate_until", generations(1), [0]))[0]
        model.close()
    assert answer.failure == "the server's content filter withheld the answer"
    assert answer.answer is None
    assert len(server.bodies) == 1


@pytest.mark.parametrize("encoder", [False, True])
def test_half_a_surrogate_pair_fails_its_own_request_only(encoder: bool) -> None:
    broken = "half \ud83d pair"
    with FaultyServer() as server:
        model = connect(server, eos_string="\0")
        model = with_tokens(model) if encoder else model
        for kind, rest in (
            ("generate_until", {"max_gen_toks": 2}),
            ("loglikelihood", " b"),
            ("loglikelihood_rolling", None),
        ):
            requests = [ask(kind, text, *([] if rest is None else [rest])) for text in ("fine", broken, "good")]
            answers = dict(model.stream(kind, requests, [0] * 3))
            assert [answers[i].failure is None for i in range(3)] == [True, False, True]
            assert "U+D83D" in answers[1].failure
        model.close()


@pytest.mark.parametrize(
    ("setting", "reason"),
    [({"penalty": float("nan")}, "cannot be written as JSON"), ({"until": ["\ud83d"]}, "contains U+D83D")],
)
def test_a_setting_that_cannot_be_sent_fails_its_own_request_only(setting: dict[str, Any], reason: str) -> None:
    requests = [*generations(1), ask("generate_until", "b", {"max_gen_toks": 2, **setting})]
    with FaultyServer() as server:
        model = connect(server)
        answers = dict(model.stream("generate_until", requests, [0, 0]))
        model.close()
    assert answers[0].failure is None
    assert reason in str(answers[1].failure)


def test_half_a_character_in_an_answer_is_shown_as_such() -> None:
    with FaultyServer(lambda seen, body: r'text:"cut \ud83d"') as server:
        model = connect(server)
        assert model.generate_until(generations(1)) == ["cut �"]
        model.close()


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
    reasons = {"cut": "connection failed", "garbage": "cannot be read", "hang": "no answer within"}
    assert [i for i in range(6) if answers[i].failure] == [2]
    assert answers[2].answer is None
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


@pytest.mark.parametrize("count", [8, 40])
def test_a_server_that_answers_with_nothing_but_garbage_stops_the_run(count: int) -> None:
    """Also where it is the last request that says so."""
    with FaultyServer(lambda seen, body: "garbage") as server:
        model = connect(server, max_retries=0)
        with pytest.raises(ModelError, match=r"\b8 requests"):
            list(model.stream("generate_until", generations(count), [0] * count))
        model.close()


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
    with pytest.raises(ModelError, match=r"connection for 0\.2 s"):
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


def test_a_used_up_quota_stops_at_once() -> None:
    with FaultyServer(lambda seen, body: "quota") as server:
        model = connect(server, num_concurrent=1)
        with pytest.raises(ModelError, match=r"current quota\n.*credit"):
            model.generate_until(generations(30))
        model.close()
    assert len(server.bodies) == 1


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
