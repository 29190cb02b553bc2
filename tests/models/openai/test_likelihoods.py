"""Likelihoods are those of the model behind the server, whatever its dialect, or the reason why not is given."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.models.openai.asking import NGRAM, ask, close_to, connect, pairs, with_tokens
from tests.models.openai.faulty_server import LLAMA3_IN_VLLM, SGLANG, VLLM, Dialect, FaultyServer

from assay.errors import ModelError

DIALECTS = [Dialect(), VLLM, LLAMA3_IN_VLLM, SGLANG]


@pytest.mark.parametrize("dialect", DIALECTS, ids=["openai", "vllm", "llama3", "sglang"])
@pytest.mark.parametrize("tokenized", [False, True])
def test_every_dialect_gives_the_same_numbers(dialect: Dialect, tokenized: bool) -> None:
    requests = [*pairs(8), ask("loglikelihood", "a 😀", " é b"), ask("loglikelihood", "x", "y")]
    with FaultyServer(dialect=dialect) as server:
        model = connect(server)
        model = with_tokens(model) if tokenized else model
        assert close_to(model.loglikelihood(requests), NGRAM.loglikelihood(requests))
        model.close()


def test_a_bos_is_noticed_by_a_server_that_counts_nothing() -> None:
    with FaultyServer(dialect=Dialect("<s>", usage=False)) as server:
        model = with_tokens(connect(server))
        assert close_to(model.loglikelihood(pairs(4)), NGRAM.loglikelihood(pairs(4)))
        model.close()


def test_tokens_that_cannot_be_placed_are_one_clear_failure() -> None:
    with FaultyServer(dialect=VLLM) as server:
        model = connect(server)
        requests = [*pairs(2), ask("loglikelihood", "one 😀", "😀 more")]
        answers = dict(model.stream("loglikelihood", requests, [0] * 3))
        model.close()
        assert [answers[i].failure is None for i in range(3)] == [True, True, False]
        assert "tokenizer=NAME" in answers[2].failure
        assert sum(body["prompt"] == "one 😀😀 more" for body in server.bodies) == 1  # it would come the same again


@pytest.mark.parametrize("tokenized", [False, True])
def test_a_continuation_without_tokens_is_a_failed_request(tokenized: bool) -> None:
    """As in hf: a sum over nothing is 0, and would win against every other choice."""
    with FaultyServer() as server:
        model = connect(server)
        model = with_tokens(model) if tokenized else model
        requests = [ask("loglikelihood", "a", ""), ask("loglikelihood", "a", " b")]
        answers = dict(model.stream("loglikelihood", requests, [0, 0]))
        model.close()
    assert answers[0].failure == "the continuation has no tokens of its own, so there is nothing to score"
    assert answers[0].answer is None
    assert answers[1].failure is None


# -- the probe ------------------------------------------------------------------------------------------------------


def test_a_server_without_echo_is_found_out_with_one_question() -> None:
    with FaultyServer(echo=False) as server:
        model = connect(server)
        with pytest.raises(ModelError, match=r"no log-probabilities of the prompt.*\n.*hf"):
            model.loglikelihood(pairs(50))
        model.close()
    assert len(server.bodies) == 1


def test_a_server_that_refuses_echo_is_found_out_too() -> None:
    with FaultyServer(lambda seen, body: "400" if body.get("echo") else None) as server:
        model = connect(server)
        with pytest.raises(ModelError, match=r"log-probabilities.*fault 400"):
            model.loglikelihood(pairs(50))
        model.close()


@pytest.mark.parametrize("tokenized", [False, True])
def test_echo_without_the_best_tokens_cannot_say_what_is_greedy(tokenized: bool) -> None:
    with FaultyServer(dialect=Dialect(tops=False)) as server:
        model = connect(server)
        model = with_tokens(model) if tokenized else model
        with pytest.raises(ModelError, match="no top_logprobs"):
            model.loglikelihood(pairs(50))
        model.close()
    assert len(server.bodies) == 1


@pytest.mark.parametrize("fault", ["429", "500", "drop"])
def test_a_busy_or_broken_server_is_not_one_without_echo(fault: str) -> None:
    with FaultyServer(lambda seen, body: fault) as server:
        model = connect(server, max_retries=1, backoff=0.001)
        with pytest.raises(ModelError, match="given up after") as caught:
            model.loglikelihood(pairs(1))
        assert "no log-probabilities" not in str(caught.value)
        model.close()


def test_a_reply_to_the_probe_that_is_broken_once_is_asked_for_again() -> None:
    with FaultyServer(lambda seen, body: "empty" if not seen else None) as server:
        model = connect(server)
        assert len(model.loglikelihood(pairs(3))) == 3
        model.close()


def test_a_stop_while_the_probe_waits_is_no_error() -> None:
    with FaultyServer(lambda seen, body: "429:60") as server:
        model = connect(server)
        assert list(model.stream("loglikelihood", pairs(3), [0] * 3, stop=lambda: bool(server.bodies))) == []
        assert not model._echo_works  # it is asked again
        model.close()
    assert len(server.bodies) == 1


# -- windows --------------------------------------------------------------------------------------------------------


def test_rolling_answers_have_the_same_last_digit_whichever_window_is_first() -> None:
    text = "The river Orle begins in a field that nobody would look at twice. " * 6

    def ask_with(slow: int) -> Any:
        def fault(seen: int, body: dict[str, Any]) -> None:
            time.sleep(0.05 if sum(body["prompt"]) % 3 == slow else 0.0)

        with FaultyServer(fault) as server:
            model = with_tokens(connect(server, max_length=30))
            value = model.loglikelihood_rolling([ask("loglikelihood_rolling", text)])[0]
            model.close()
        return value

    assert len({ask_with(slow) for slow in range(3)}) == 1
