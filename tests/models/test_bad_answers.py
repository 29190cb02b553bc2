"""A model that answers with what is no answer: a failed request that names it, never a zero and never a traceback."""

from __future__ import annotations

from typing import Any

import pytest

from assay.instance import Instance
from assay.models import LM, load_model


class Odd(LM):
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def loglikelihood(self, requests: Any) -> Any:
        return [self.answer for _ in requests]

    def loglikelihood_rolling(self, requests: Any) -> Any:
        return [self.answer for _ in requests]

    def generate_until(self, requests: Any) -> Any:
        return [self.answer for _ in requests]


class Foreign:
    """The same, written for lm-evaluation-harness."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    loglikelihood = loglikelihood_rolling = generate_until = lambda self, requests: [self.answer for _ in requests]


CASES: list[tuple[str, Any]] = [
    ("generate_until", None),
    ("generate_until", 7),
    ("generate_until", ["a"]),
    ("loglikelihood", None),
    ("loglikelihood", "-1"),
    ("loglikelihood", "12"),
    ("loglikelihood", -1.0),
    ("loglikelihood", (None, True)),
    ("loglikelihood", (-1.0,)),
    ("loglikelihood_rolling", None),
    ("loglikelihood_rolling", "text"),
]


@pytest.mark.parametrize("cls", [Odd, Foreign])
@pytest.mark.parametrize(("request_type", "answer"), CASES)
def test_what_is_no_answer_is_a_failed_request(cls: Any, request_type: str, answer: Any) -> None:
    lm = load_model(cls(answer))
    arguments = {"generate_until": ("q", {}), "loglikelihood": ("q", " a"), "loglikelihood_rolling": ("q",)}
    asked = [Instance(request_type, {}, arguments[request_type], 0)]
    ((position, response),) = lm.stream(request_type, asked, [0])
    assert position == 0
    assert response.answer is None
    assert response.failure is not None
    assert cls.__name__ in response.failure
