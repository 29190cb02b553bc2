"""The contract of a backend: three methods, and a stream built on them.

A class written for lm-evaluation-harness meets it as it is; what Assay asks for beyond that has a default here.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from assay.config import without_secrets
from assay.errors import ConfigError, ModelError, did_you_mean
from assay.instance import Instance, RequestType, Response, TokenCounts

Message = dict[str, Any]
PIECE = 128
"""Requests that a model without a stream of its own is asked at once: large enough for any batch, soon answered."""


class Answer(NamedTuple):
    """What came back for one request. With `failure` set there is no response, and none is made up.

    `stop_reason` is `stop` (a stop string), `eos`, `length` (truncated) or None where the backend cannot know.
    """

    response: Response
    stop_reason: str | None = None
    failure: str | None = None
    tokens: TokenCounts | None = None
    """Where the backend counts them."""


@dataclass(slots=True)
class Usage:
    """What a backend has spent so far. Backends that know fill it; the run shows it."""

    prompt_tokens: int = 0
    """Tokens of all prompts, as if nothing were shared."""
    computed_tokens: int = 0
    """Prompt tokens that really went through the model."""
    generated_tokens: int = 0
    cost: float = 0.0
    """In the currency of the prices given to the backend."""
    retries: int = 0


class _NoCache:
    """lm-evaluation-harness hands a cache to its models; here the run keeps every answer, so a model need not."""

    def add_partial(self, *answer: Any) -> None:
        pass


class LM(ABC):
    """A language model. A backend gives the first three methods; the rest is optional.

    Each method reads `instance.args`: `(context, continuation)`, `(text,)` or `(context, generation_kwargs)`.
    """

    model_args: Mapping[str, Any] = {}
    """The words the model was loaded with, set by `load_model`; part of the default fingerprint."""

    # What a class written for lm-evaluation-harness expects of its base.
    cache_hook = _NoCache()
    rank = 0
    world_size = 1

    @abstractmethod
    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """For each (context, continuation): the log-probability, and whether greedy decoding would give it."""

    @abstractmethod
    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        """For each text: its log-probability from an empty context, in windows where it is too long for one."""

    @abstractmethod
    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        """For each (context, generation_kwargs): the text up to, and without, the first stop string."""

    def stream(
        self, request_type: RequestType, instances: Sequence[Instance], draws: Sequence[int]
    ) -> Iterator[tuple[int, Answer]]:
        """Yield `(position, answer)` as answers are ready, in any order, each position once.

        `draws[i]` says which repeat of `instances[i]` is asked for, so that a sampled draw can be seeded and kept by
        its number. The default asks piece by piece, so that what was answered before an interruption is kept, and ends
        after a piece when `should_stop`, which the run sets, says so. A backend that can answer as it goes overrides it.
        """
        should_stop = getattr(self, "should_stop", lambda: False)
        for start in range(0, len(instances), PIECE):
            if should_stop():
                return
            piece = list(instances[start : start + PIECE])
            responses = getattr(self, request_type)(piece)
            if len(responses) != len(piece):
                raise ModelError(
                    f"{type(self).__name__}.{request_type} gave {len(responses)} responses to {len(piece)} requests",
                    hint="A backend answers every request, in order.",
                )
            for position, response in enumerate(responses, start):
                yield position, Answer(plain_response(request_type, response))

    def apply_chat_template(self, messages: list[Message], add_generation_prompt: bool = True) -> str:
        """Messages to the text of a prompt. With `add_generation_prompt` off, the last message is to be continued."""
        raise ModelError(
            f"the model {type(self).__name__} has no chat template", hint="Run without --apply_chat_template."
        )

    @property
    def tokenizer_name(self) -> str:
        """Names the tokenizer and template, for provenance."""
        return ""

    def chat_template(self, name: bool | str | None = None) -> str | None:
        """Select the named template (True or None: the default one) and return its text."""
        return None

    def fingerprint(self) -> str:
        """Changes whenever answers may change. The default: class, source file, and model arguments."""
        return class_fingerprint(type(self), self.model_args)

    @property
    def usage(self) -> Usage | None:
        """Tokens and cost so far, or None where the backend does not count."""
        return None

    def close(self) -> None:  # noqa: B027  a backend that holds nothing has nothing to do
        """Give back what the model holds: threads, connections, memory."""

    @classmethod
    def create_from_arg_obj(
        cls, arg_dict: Mapping[str, Any], additional_config: Mapping[str, Any] | None = None
    ) -> Self:
        """Build from model arguments; a wrong name is an error with the nearest right one.

        `additional_config` (device, batch size, …) holds what the run offers: a class takes what it has a parameter
        for, and model arguments go first.
        """
        parameters = inspect.signature(cls.__init__).parameters
        names = [
            n for n, p in parameters.items() if n != "self" and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        ]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            check_arguments(cls.__name__, arg_dict, names)
        offered = {k: v for k, v in (additional_config or {}).items() if v is not None and k in names}
        return cls(**{**offered, **arg_dict})


class StreamingLM(LM):
    """A backend that answers piece by piece: it gives `stream`, and the three methods follow from it."""

    @abstractmethod
    def stream(
        self, request_type: RequestType, instances: Sequence[Instance], draws: Sequence[int]
    ) -> Iterator[tuple[int, Answer]]: ...

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        return self._all("loglikelihood", requests)

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        return self._all("loglikelihood_rolling", requests)

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return self._all("generate_until", requests)

    def _all(self, request_type: RequestType, requests: Sequence[Instance]) -> list[Any]:
        """All responses in order. A method that returns no `Answer` has no other way to say that one failed."""
        responses: list[Any] = [None] * len(requests)
        for position, answer in self.stream(request_type, requests, [0] * len(requests)):
            if answer.failure is not None:
                raise ModelError(f"request {position} cannot be answered: {answer.failure}")
            responses[position] = answer.response
        return responses


def check_arguments(model: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise for the first model argument that is not known."""
    for name in given:
        if name not in known:
            raise ConfigError(
                f"the model {model} takes no argument {name!r}",
                hint=did_you_mean(name, known) or f"It takes: {', '.join(known) or 'none'}.",
            )


def plain_response(request_type: RequestType, response: Any) -> Response:
    """A response as plain Python values, whatever number types the backend uses.

    >>> plain_response("loglikelihood", [-1, 1])
    (-1.0, True)
    """
    if request_type == "loglikelihood":
        return float(response[0]), bool(response[1])
    if request_type == "loglikelihood_rolling":
        # lm-evaluation-harness documents `(logprob,)` and its backends return floats; both are met in the wild.
        return float(response[0] if isinstance(response, tuple | list) else response)
    return str(response)


def class_fingerprint(cls: type, model_args: Mapping[str, Any]) -> str:
    """The class, the text of the file that defines it, and its arguments but for secrets.

    An edited model file is a new model: its old answers are not reused. A new key to the same model is not.
    """
    digest = hashlib.sha256(f"{cls.__module__}:{cls.__qualname__}\n".encode())
    try:
        source = inspect.getsourcefile(cls)
    except (TypeError, OSError):  # built in a console or by a notebook: there is no file
        source = None
    if source:
        try:
            with open(source, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
        except OSError:
            digest.update(source.encode())
    digest.update(json.dumps(without_secrets(model_args), sort_keys=True, default=str).encode())
    return f"{cls.__qualname__}:{digest.hexdigest()}"
