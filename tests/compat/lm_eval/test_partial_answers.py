"""Answers of a backend of lm-evaluation-harness are kept as they come, whatever ends the call that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from assay.compat.lm_eval.partial_answers import stream_partial
from assay.errors import ModelError
from assay.instance import Instance, Response
from assay.models import Stop, never


class Backend:
    """Answers with the length of the prompt; tells its cache of each answer; may break after some."""

    cache_hook: Any = None

    def __init__(self, breaks_after: int = 100, tells: bool = True) -> None:
        self.breaks_after, self.tells = breaks_after, tells

    def set_cache_hook(self, hook: Any) -> None:
        self.cache_hook = hook

    def generate_until(self, requests: list[Instance]) -> list[int]:
        answers = []
        for at, request in enumerate(requests):
            if at == self.breaks_after:
                raise ModelError("out of memory")
            answers.append(len(request.args[0]) + at if request.args[1].get("do_sample") else len(request.args[0]))
            if self.tells:
                self.cache_hook.add_partial("generate_until", (request.args[0], {"changed": True}), answers[-1])
        return answers


def asked(*prompts: str, sampled: bool = False) -> list[Instance]:
    return [Instance("generate_until", {}, (prompt, {"do_sample": sampled}), 0) for prompt in prompts]


def stream(backend: Backend, instances: list[Instance]) -> Iterator[tuple[int, Response]]:
    def whole(stop: Stop) -> Iterator[tuple[int, Response]]:
        for at, answer in enumerate(backend.generate_until(instances)):
            yield at, Response(answer)

    return stream_partial(backend, "generate_until", instances, whole, Response, never)


@pytest.mark.parametrize("tells", [True, False])
def test_each_answer_is_given_once_whether_the_backend_tells_of_it_or_not(tells: bool) -> None:
    backend = Backend(tells=tells)
    found = list(stream(backend, asked("a", "bb", "ccc")))
    assert sorted((at, response.answer) for at, response in found) == [(0, 1), (1, 2), (2, 3)]
    assert backend.cache_hook is None  # as it was


def test_what_was_answered_before_an_error_is_given_first() -> None:
    answers = stream(Backend(breaks_after=2), asked("a", "bb", "ccc"))
    assert [next(answers)[0], next(answers)[0]] == [0, 1]
    with pytest.raises(ModelError, match="out of memory"):
        next(answers)


def test_draws_of_one_prompt_are_not_mistaken_for_each_other() -> None:
    """Which of them a partial answer belongs to cannot be told, so they come when the call ends."""
    found = dict(stream(Backend(), asked("a", "a", "a", sampled=True)))
    assert [found[at].answer for at in range(3)] == [1, 2, 3]
