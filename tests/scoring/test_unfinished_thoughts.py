"""A model that is cut off while it thinks has given no answer: what it thought is not scored as one."""

from __future__ import annotations

from typing import Any

from tests.models.openai.asking import ask
from tests.models.openai.faulty_server import FaultyServer

from assay.instance import Instance, Response
from assay.models import load_model
from assay.scoring.outcome import flag_docs

THOUGHT = "2 and 2 are 4, and 4"


def answer(text: str, reason: str) -> Response:
    """What is made of a server's reply where `think_end_token` is set."""

    class Thinking(FaultyServer):
        def complete(self, body: dict[str, Any]) -> dict[str, Any]:
            return {"choices": [{"text": text, "finish_reason": reason}]}

    with Thinking() as server:
        settings = {"base_url": server.url, "model": "m", "think_end_token": "</think>", "backoff": 0.01}
        lm = load_model("local-completions", settings)
        ((_, response),) = lm.stream("generate_until", [ask("generate_until", "q", {"until": []})], [0])
        lm.close()
    return response


def flags_of(response: Response) -> list[str]:
    instance = Instance("generate_until", {}, ("q", {}), 0)
    instance.resps, instance.responses = [response.answer], [response]
    flags: list[str] = []
    flag_docs({0: [instance]}, lambda doc_id, name, filter_name=None: flags.append(name))
    return flags


def test_a_thought_that_was_cut_off_is_no_answer() -> None:
    response = answer(THOUGHT, "length")
    assert (response.answer, response.reasoning) == ("", THOUGHT)
    assert "unfinished_thought" in flags_of(response)


def test_an_answer_that_was_cut_off_after_the_thought_is_one() -> None:
    response = answer(f"{THOUGHT}</think>The answer is 4 bec", "length")
    assert response.answer == "The answer is 4 bec"
    assert flags_of(response) == ["truncated"]


def test_a_model_that_did_not_think_has_answered() -> None:
    response = answer("4", "stop")
    assert response.answer == "4"
    assert flags_of(response) == []
