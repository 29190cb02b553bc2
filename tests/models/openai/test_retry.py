"""When to try again is arithmetic: bounded, jittered, and patient with servers that say when."""

from __future__ import annotations

import json
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ModelError
from assay.models.openai.http import Reply, read_refusal, retry_after_seconds
from assay.models.openai.pacing import LONGEST_BACKOFF, LONGEST_WAIT, RetryPolicy, Tries, Wait
from assay.models.openai.transport import Transport
from assay.models.openai.wire import TOO_OFTEN, Failed, Retry, Settings

ERROR, BUSY = Retry("HTTP 500"), Retry("HTTP 429", throttled=True)


def test_errors_are_tried_again_as_often_as_asked_for_and_throttling_ten_times_as_often() -> None:
    policy = RetryPolicy(max_retries=2)
    assert policy.wait_after(Tries(errors=2), ERROR, 0.5) is not None
    assert policy.wait_after(Tries(errors=3), ERROR, 0.5) is None
    assert policy.wait_after(Tries(throttled=20), BUSY, 0.5) is not None
    assert policy.wait_after(Tries(throttled=21), BUSY, 0.5) is None


def test_tries_are_counted_by_kind() -> None:
    assert Tries().plus(ERROR).plus(BUSY).plus(BUSY) == Tries(errors=1, throttled=2)
    assert Tries(1, 2).total == 3


def test_waits_double_with_errors_and_every_four_times_when_throttled() -> None:
    policy = RetryPolicy(backoff=1.0)
    assert [policy.wait_after(Tries(errors=n), ERROR, 1.0) for n in (1, 2, 3)] == [Wait(2.0), Wait(4.0), Wait(8.0)]
    assert [policy.wait_after(Tries(throttled=n), BUSY, 1.0) for n in (3, 4, 8)] == [Wait(1.0), Wait(2.0), Wait(4.0)]


@given(
    st.integers(0, 40), st.sampled_from([ERROR, BUSY, Retry("", retry_after=7.0, throttled=True)]), st.integers(1, 9)
)
def test_the_time_that_is_left_is_the_sum_of_the_waits(retries: int, last: Retry, failed: int) -> None:
    policy, tries, seconds = RetryPolicy(max_retries=retries), Tries(), 0.0
    for _ in range(failed):
        tries = tries.plus(last)
    said = policy.time_left(tries, last)
    while (wait := policy.wait_after(tries, last, 0.5)) is not None:
        seconds, tries = seconds + wait.own, tries.plus(last)
    assert said == pytest.approx(seconds)


@given(st.integers(1, 2000), st.floats(0, 1))
def test_no_wait_is_longer_than_the_longest(errors: int, chance: float) -> None:
    wait = RetryPolicy(max_retries=5000).wait_after(Tries(errors=errors), ERROR, chance)
    assert wait is not None
    assert 0.0 < wait.own <= LONGEST_BACKOFF


@pytest.mark.parametrize("named", [10.0, 1e9, float("inf")])
def test_a_named_time_holds_for_all_requests_and_is_capped_for_all(named: float) -> None:
    wait = RetryPolicy(backoff=1.0).wait_after(Tries(throttled=1), Retry("", retry_after=named, throttled=True), 0.0)
    capped = min(named, LONGEST_WAIT)
    assert wait == Wait(capped + 0.125, everyone=capped)


def test_two_clients_do_not_wait_equally_long() -> None:
    one, two = (Transport(Settings("http://localhost:1/v1", {})) for _ in range(2))
    assert [one.chance() for _ in range(4)] != [two.chance() for _ in range(4)]


# -- what a refusal means -------------------------------------------------------------------------------------------


def refusal(status: int, body: object) -> Failed | Retry:
    return read_refusal("http://host", Reply(status, json.dumps(body).encode()), lambda text: text)


def test_retry_after_may_be_a_date() -> None:
    soon = retry_after_seconds(formatdate(time.time() + 100, usegmt=True))
    assert soon is not None
    assert 90 < soon <= 100
    assert retry_after_seconds(formatdate(time.time() - 100, usegmt=True)) == 0.0


@pytest.mark.parametrize("value", ["soon", "", "Fri, 99 Foo 2024", None])
def test_a_time_that_cannot_be_read_is_none(value: str | None) -> None:
    assert retry_after_seconds(value) is None


@pytest.mark.parametrize("field", ["code", "type"])
def test_a_used_up_quota_is_hopeless_though_it_comes_as_429(field: str) -> None:
    with pytest.raises(ModelError, match="no credit"):
        refusal(429, {"error": {"message": "quota", field: "insufficient_quota"}})
    assert isinstance(refusal(429, {"error": {"message": "slow down", field: "rate_limit_exceeded"}}), Retry)


@pytest.mark.parametrize(
    ("status", "throttled"), [(408, False), (409, False), (429, True), (500, False), (503, True), (529, False)]
)
def test_what_may_pass_is_tried_again(status: int, throttled: bool) -> None:
    hint = TOO_OFTEN if status == 429 else None
    assert refusal(status, {"detail": "x"}) == Retry(f"HTTP {status}: x", throttled=throttled, hint=hint)


@pytest.mark.parametrize("status", [400, 413, 422, 501])
def test_what_concerns_one_request_fails_it(status: int) -> None:
    assert refusal(status, {"error": "too long"}) == Failed(f"HTTP {status}: too long", refused=True)


@pytest.mark.parametrize(
    ("body", "words"),
    [({"error": {"message": "a"}}, "a"), ({"error": "b"}, "b"), ({"detail": "c"}, "c"), (["d"], '["d"]'), ("e", "e")],
)
def test_the_servers_own_words_are_found(body: object, words: str) -> None:
    assert refusal(400, body) == Failed(f"HTTP 400: {words}", refused=True)
