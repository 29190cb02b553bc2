"""Several prompts in one request: the same answers as one by one, and each on its own where that fails."""

from __future__ import annotations

from typing import Any

import pytest
from tests.models.openai.asking import NGRAM, ask, close_to, connect, generations, with_tokens
from tests.models.openai.faulty_server import LLAMA3_IN_VLLM, VLLM, Dialect, FaultyServer

from assay.instance import Instance


def questions(n: int) -> list[Instance]:
    """Questions of three choices, mixed."""
    contexts = [f"Question {i}: the river is" for i in range(n)]
    return [ask("loglikelihood", context, choice) for choice in (" wide", " not", " a é") for context in contexts]


def prompts_of(server: FaultyServer) -> list[Any]:
    return [body["prompt"] for body in server.bodies[1:]]  # the first tries what the server can do


@pytest.mark.parametrize("dialect", [Dialect(), VLLM, LLAMA3_IN_VLLM])
@pytest.mark.parametrize("tokenized", [False, True])
def test_the_choices_of_a_question_share_a_request(dialect: Dialect, tokenized: bool) -> None:
    requests = questions(5)
    with FaultyServer(lists=True, dialect=dialect) as server:
        model = with_tokens(connect(server)) if tokenized else connect(server)
        answers = model.loglikelihood(requests)
        model.close()
        assert len(server.bodies) == 1 + 5
        assert all(len(prompt) == 3 for prompt in prompts_of(server))
    with FaultyServer(dialect=dialect) as server:
        model = with_tokens(connect(server)) if tokenized else connect(server)
        assert close_to(answers, model.loglikelihood(requests))
        model.close()
        assert len(server.bodies) == 1 + 15, "a server that is not known to take lists gets none"


def test_tokens_are_counted_once_for_all_and_told_for_each() -> None:
    with FaultyServer(lists=True) as server:
        model = connect(server)
        responses = dict(model.stream("loglikelihood", questions(2), [0] * 6))
        usage = model.usage
        model.close()
    lengths = [len("".join(request.arguments).encode()) for request in questions(2)]
    assert [sum(responses[i].tokens) for i in range(6)] == lengths
    assert usage.prompt_tokens == sum(lengths)


def test_generations_share_requests_where_one_says_so() -> None:
    requests = [*generations(7), ask("generate_until", "The mill", {"max_gen_toks": 3})]
    requests.append(ask("generate_until", "The mill", {"max_gen_toks": 9, "temperature": 1.0}))
    with FaultyServer(lists=True) as server:
        model = connect(server, batch_size="4", num_concurrent=1)
        together = model.generate_until(requests)
        model.close()
        sizes = sorted(len(body["prompt"]) if isinstance(body["prompt"], list) else 1 for body in server.bodies)
        model = connect(server, batch_size="auto")
        assert model.generate_until(requests) == together
        model.close()
    assert sum(sizes) == 9
    assert max(sizes) == 4


@pytest.mark.parametrize("fault", ["400", "empty", "500"])
def test_a_shared_request_that_fails_is_asked_one_by_one(fault: str) -> None:
    requests = questions(4)
    poison = "".join(requests[1].arguments)

    def strike(seen: int, body: dict[str, Any]) -> str | None:
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        return fault if poison in prompts else None

    with FaultyServer(strike, lists=True) as server:
        model = connect(server, max_retries=1)
        answers = dict(model.stream("loglikelihood", requests, [0] * 12))
        model.close()
    assert sorted(answers) == list(range(12))
    assert [i for i in range(12) if answers[i].failure] == [1]
    right = NGRAM.loglikelihood(requests)
    assert close_to([answers[i].answer for i in range(12) if i != 1], [right[i] for i in range(12) if i != 1])


def test_a_server_that_answers_a_list_with_one_choice_is_asked_one_by_one() -> None:
    with FaultyServer(lambda seen, body: 'text:"x"' if len(body["prompt"]) == 3 else None, lists=True) as server:
        model = connect(server)
        assert close_to(model.loglikelihood(questions(4)), NGRAM.loglikelihood(questions(4)))
        model.close()
