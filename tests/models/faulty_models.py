"""The n-gram model with one thing wrong, for `assay selftest` to find."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from assay.errors import ModelError
from assay.instance import Instance, Response
from assay.models import Stop, never
from assay.models.ngram import NgramLM


class Sound(NgramLM):
    """With nothing wrong."""


class LosesTheSpace(NgramLM):
    """Strips the context and forgets what it stripped."""

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        pairs = [(str(r.arguments[0]).rstrip(), r.arguments[1]) for r in requests]
        return super().loglikelihood([Instance("loglikelihood", {}, pair, 0) for pair in pairs])


class LosesATurn(NgramLM):
    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        return super().apply_chat_template([messages[0], messages[-1]], add_generation_prompt)


class ClosesTheAnswer(NgramLM):
    """Ends a message that is to be continued."""

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        return super().apply_chat_template(messages, add_generation_prompt) + ("" if add_generation_prompt else "</s>")


class RefusesTheAssistant(NgramLM):
    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        raise ModelError("the chat template raised: only users may speak")


class Faulty(NgramLM):
    """The n-gram model with something done to each generation."""

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        if request_type != "generate_until":
            yield from super().stream(request_type, instances, draws)
            return
        for position, (instance, draw) in enumerate(zip(instances, draws)):
            yield position, self.answer(instance, draw, position)

    def answer(self, instance: Instance, draw: int, position: int) -> Response:
        raise NotImplementedError


class KeepsTheStop(Faulty):
    def answer(self, instance: Instance, draw: int, position: int) -> Response:
        answer = self._generate(instance, draw)
        stops = instance.arguments[1].get("until") or [""]
        return answer._replace(answer=f"{answer.answer}{stops[0] if answer.stop_reason == 'stop' else ''}")


class IgnoresTheStop(Faulty):
    def answer(self, instance: Instance, draw: int, position: int) -> Response:
        context, kwargs = instance.arguments
        return self._generate(Instance("generate_until", {}, (context, {**kwargs, "until": []}), 0), draw)


class DrawsByPlace(Faulty):
    """Seeds a draw by where it stands among the others."""

    def answer(self, instance: Instance, draw: int, position: int) -> Response:
        return self._generate(instance, draw + 100 * position)


class FailsSome(NgramLM):
    """Every fifth request has no answer."""

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        for position, answer in super().stream(request_type, instances, draws):
            yield position, Response(None, failure="the moon is [/full]") if position % 5 == 4 else answer


class GivesNaN(NgramLM):
    """NaN for one request, the same one however it is asked."""

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        answers = super().loglikelihood(requests)
        return [(math.nan, g) if r.arguments[1].strip() == "Rome" else (v, g) for r, (v, g) in zip(requests, answers)]


class Raises(NgramLM):
    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        raise TypeError("'NoneType' object is not subscriptable")


class LeavesOneOut(NgramLM):
    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        yield from list(super().stream(request_type, instances, draws))[:5]


class Silent(Faulty):
    def answer(self, instance: Instance, draw: int, position: int) -> Response:
        return Response("", "eos")


class Thinking(Faulty):
    """All tokens went into thoughts that are not shown."""

    def answer(self, instance: Instance, draw: int, position: int) -> Response:
        return Response("", "length")


class CanDoNothing(NgramLM):
    """Says of everything that it does not have it."""

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        raise NotImplementedError

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        raise NotImplementedError
