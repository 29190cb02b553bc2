"""The contract of a backend: three methods, and a stream built on them.

A class written for lm-evaluation-harness meets it as it is; what Assay asks for beyond that has a default here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeAlias, cast

from assay.errors import ModelError
from assay.instance import Context, Instance, Message, Response
from assay.models.arguments import check_arguments, checked_arguments, split_arguments, with_arguments
from assay.models.identity import Identity, class_fingerprint, count_parameters, object_fingerprint
from assay.models.info import ABILITIES, Capabilities, ChatForm, Check, CostLimit, ModelInfo, TokenDivergences, Usage
from assay.models.likelihoods import LabelLogprobs, as_requests, label_logprobs_by_likelihood
from assay.request_types import REQUEST_TYPES

__all__ = [  # all that a backend needs, also what is defined in `info` and `arguments`
    "ABILITIES",
    "LM",
    "PIECE",
    "Capabilities",
    "ChatForm",
    "ChatRenderer",
    "Check",
    "ModelInfo",
    "NoLikelihoods",
    "Stop",
    "StreamingLM",
    "TokenDivergences",
    "Usage",
    "answers_in_order",
    "check_arguments",
    "never",
    "split_arguments",
    "to_response",
    "with_arguments",
]

Stop: TypeAlias = Callable[[], bool]
PIECE = 128
"""Requests that a model without a stream of its own is sent at once: large enough for any batch, soon answered."""


def never() -> bool:
    return False


class ChatRenderer(Protocol):
    """A chat template that can be applied by itself, and sent to another machine."""

    def select(self, name: bool | str | None) -> str | None:
        """Use the named template (True or None: the default one) from now on; its text."""

    def apply(self, messages: list[dict[str, Any]], add_generation_prompt: bool) -> str: ...


class NoLikelihoods(ModelError):
    """The model can generate, and cannot score a given text."""


class _NoCache:
    """lm-evaluation-harness hands a cache to its models; here the run keeps every answer, so a model need not."""

    def add_partial(self, *answer: Any) -> None:
        pass


class LM(ABC):
    """A language model. A backend defines the first three methods; the rest is optional.

    Each method reads `instance.args`: `(context, continuation)`, `(text,)` or `(context, generation_kwargs)`.
    """

    FILE_ARGUMENTS: ClassVar[tuple[str, ...]] = ()
    """Model arguments that name files, for a backend whose models depend on their files and arguments alone. Loading
    such a model is put off until its first request."""

    model_args: Mapping[str, Any] = {}
    """The words the model was loaded with, set by `load_model`; part of the default fingerprint."""
    max_length: int | None = None
    chat: ChatForm = "text"
    """Whether chats go to the model as messages, or through `apply_chat_template` as text."""
    chat_renderer: ChatRenderer | None = None
    """What renders chats, for backends that have a template of their own."""
    at_random: ClassVar[str] = ""
    """Of a model that reads no text: why moving a space makes another request to it, for `assay selftest`."""
    cost_limit: CostLimit | None = None
    """What may be spent, set by the run; a backend that costs something asks it before each request."""
    cuts_answers: ClassVar[bool] = False
    """Whether it cuts answers at stop strings itself where what it asks does not take them."""
    tolerance: float = 1e-3
    """Difference in log-likelihood that rounding explains, for `assay selftest`."""

    # What a class written for lm-evaluation-harness expects of its base.
    cache_hook = _NoCache()
    rank = 0
    world_size = 1

    @abstractmethod
    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        """For each (context, continuation), return the log-probability and whether greedy decoding would produce it."""

    @abstractmethod
    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        """For each text: its log-probability from an empty context, in windows where it is too long for one."""

    @abstractmethod
    def generate_until(self, requests: Sequence[Instance]) -> Sequence[str | Response]:
        """For each (context, generation_kwargs): the text up to, and without, the first stop string.

        A `Response` says more: why it ended, its tokens, the reasoning before it.
        """

    def letters(self, requests: Sequence[Instance]) -> list[LabelLogprobs]:
        """For each (context, labels): the log-probability of each label as the first token, by likelihoods."""

        def score(pairs: list[tuple[Any, str]]) -> Iterator[tuple[int, Response]]:
            return self.stream("loglikelihood", as_requests(pairs), [0] * len(pairs))

        return answers_in_order(label_logprobs_by_likelihood(score, requests), len(requests))

    def token_divergences(self, other: LM, texts: Sequence[str], most: int) -> Iterator[TokenDivergences] | None:
        """How far `other` is from this model at each token; None where whole distributions of both cannot be seen."""
        return None

    def likeliest_tokens(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """For each prompt the likeliest next tokens, as text, with their log-probabilities."""
        raise ModelError(
            f"{self.class_name} does not list its most likely tokens",
            hint="Use hf, or a server that gives top log-probabilities.",
        )

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        """Yield `(position, response)` as responses are ready, in any order, each position once.

        `draws[i]` says which repeat of `instances[i]` is requested, so that a sampled draw can be seeded and stored by
        its number. `stop` is called now and then; once it says yes, nothing new is begun, what is under way is yielded
        when it is ready, and the stream ends. The default asks piece by piece, so that what was answered before an
        interruption is stored. A backend that can answer as it goes overrides it.
        """
        for start in range(0, len(instances), PIECE):
            if stop():
                return
            piece = list(instances[start : start + PIECE])
            responses = [*self.method_for(request_type)(piece)]
            if len(responses) != len(piece):
                raise ModelError(
                    f"{self.class_name}.{request_type} gave {len(responses)} responses to {len(piece)} requests",
                    hint="A backend must answer every request, in order.",
                )
            for position, response in enumerate(responses, start):
                yield position, to_response(request_type, response, self.class_name)

    def stream_missing(
        self,
        request_type: str,
        instances: Sequence[Instance],
        draws: Sequence[int],
        missing: Sequence[int],
        stop: Stop = never,
    ) -> Iterator[tuple[int, Response]]:
        """`stream` for the requests at these positions of a window, of which the others have been answered before.

        A backend whose answers depend in their last bits on what is computed with them overrides it, and computes them in the
        company that they would have had.
        """
        chosen = [instances[position] for position in missing]
        for index, response in self.stream(request_type, chosen, [draws[position] for position in missing], stop):
            yield missing[index], response

    def method_for(self, request_type: str) -> Callable[[Sequence[Instance]], Sequence[Any]]:
        """The method that answers requests of a type; raises where this model has none."""
        method = getattr(self, request_type, None)
        if not callable(method):
            raise self.cannot_answer(request_type)
        return cast("Callable[[Sequence[Instance]], Sequence[Any]]", method)

    def cannot_answer(self, request_type: str) -> ModelError:
        arguments = ", ".join(REQUEST_TYPES[request_type].arguments)
        return ModelError(
            f"the model {self.class_name} cannot answer {request_type} requests",
            hint=f"They need a method `{request_type}(requests)`; the arguments of a request are ({arguments}).",
        )

    def to_context(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Context:
        """A conversation as this model takes it: the messages themselves, or text through its chat template.

        `tools` go with the request where the model takes messages, and into the text where its template has a place for them.
        """
        turns = [m if isinstance(m, Message) else Message.from_dict(m) for m in messages]
        if self.chat == "messages":
            return tuple(turns)
        said = [turn.to_dict() for turn in turns]
        if tools:
            return self.render_tools(said, tools)
        return self.apply_chat_template(said, add_generation_prompt)

    def render_tools(self, messages: list[dict[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
        """A conversation with tools as text, for models whose template has a place for them."""
        raise ModelError(
            f"the model {self.class_name} has no chat template that takes tools",
            hint="Write tool_protocol: text in the task file.",
        )

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        """Messages to the text of a prompt. With `add_generation_prompt` off, the last message is to be continued."""
        if self.chat_renderer is None:
            raise ModelError(
                f"the model {self.class_name} has no chat template", hint="Run without --apply_chat_template."
            )
        return self.chat_renderer.apply(messages, add_generation_prompt)

    registered_name: ClassVar[str | None] = None
    """What `--model` calls this very class, where people know it by that name; classes derived from it have their own."""

    @property
    def class_name(self) -> str:
        """What people call the class that answers: in messages, and where no checkpoint has a name of its own."""
        return vars(type(self)).get("registered_name") or type(self).__name__

    @property
    def tokenizer_name(self) -> str:
        """Names the tokenizer and template, for provenance."""
        return ""

    def chat_template(self, name: bool | str | None = None) -> str | None:
        """Select the named template (True or None: the default one) and return its text."""
        return None if self.chat_renderer is None else self.chat_renderer.select(name)

    def fingerprint(self) -> str:
        """Changes whenever answers may change; empty where nothing tells two objects of the class apart.

        The default: class, source file, and model arguments. An object that was made by hand has no arguments that anybody
        knows of, so it counts by the weights in it. Without any its answers are neither stored nor taken from the store.
        """
        if "model_args" in vars(self):
            return class_fingerprint(type(self), self.model_args)
        return object_fingerprint(self)

    def identify(self, times: int) -> Identity | None:
        """What the model says of itself and answers to fixed probes, sent so many times.

        For a model that its fingerprint does not tell from another, such as one behind an address. None, the default:
        the fingerprint says it all. Raises `ModelError` where the model is out of reach.
        """
        return None

    def info(self) -> ModelInfo:
        """What is known of the model. A backend adds to it: `replace(super().info(), computes_here=True, …)`."""
        details = self.get_model_info()
        known = details.get("model_num_parameters")
        return ModelInfo(
            name=self.class_name,
            fingerprint=self.fingerprint(),
            num_parameters=count_parameters(self) if known is None else known,
            max_length=self.max_length,
            tokenizer=self.tokenizer_name,
            chat=self.chat,
            details=details,
        )

    def parameter_count(self) -> int | None:
        """Parameters of the model, for conditions on group members. Only called where there are any: it may cost a request."""
        return self.info().num_parameters

    def capabilities(self, wanted: Collection[str] = ABILITIES, known: Collection[str] = ()) -> Capabilities:
        """What can be requested of the model, right as far as `wanted` goes.

        A server is tried once, with tiny requests, and not about what is `known` to be there; any other model knows.
        """
        return self.info().capabilities

    def context_length(self) -> int | None:
        """Tokens that the model reads in all, its answer included; None where nobody says."""
        return None

    def get_model_info(self) -> dict[str, Any]:
        """Further facts for results files. The name is lm-evaluation-harness's, whose classes may have this method."""
        return {}

    @property
    def usage(self) -> Usage | None:
        """Tokens and cost so far, or None where the backend does not count."""
        return None

    def count_tokens(self, request_type: str, instances: Sequence[Instance]) -> int | None:
        """Prompt tokens that would go through the model for these requests; None where the backend cannot say."""
        return None

    @property
    def cuts_prompts(self) -> bool:
        """Whether it leaves out the beginning of a prompt that is too long, as lm-evaluation-harness does."""
        return False

    def text_tokens(self, text: str) -> int | None:
        """Tokens of a text, for prompts that may be too long; None where the backend cannot say."""
        return None

    def status(self) -> str | None:
        """One line on what the model is doing, for the progress display."""
        return None

    def own_checks(self, tolerance: float) -> Iterable[Check]:
        """Checks of `assay selftest` that only this backend can make."""
        return ()

    @property
    def logs(self) -> Sequence[Path]:
        """Files that engines of other projects wrote while they worked for this model; kept with the run."""
        return ()

    def notes(self) -> list[str]:
        """What a reader of the scores should know of how the model answered."""
        return []

    def expect_conversations(self) -> None:  # noqa: B027  servers have caches of their own
        """Said once where requests will extend earlier ones, so that what those left may be worth its memory."""

    def cancel(self) -> None:  # noqa: B027  most backends have one stream, which is closed
        """Give up what all streams have under way."""

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
        return cls(**checked_arguments(cls, arg_dict, additional_config or {}))

    @classmethod
    def check_arguments(cls, arg_dict: Mapping[str, Any]) -> None:
        """Raise what can be known to be wrong with model arguments, and with the files they name, before a model is made."""
        checked_arguments(cls, arg_dict, {})


class StreamingLM(LM):
    """A backend that answers one by one: it defines `stream`, and the three methods follow from it."""

    @abstractmethod
    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]: ...

    def loglikelihood(self, requests: Sequence[Instance]) -> list[tuple[float, bool]]:
        return self._all("loglikelihood", requests)

    def loglikelihood_rolling(self, requests: Sequence[Instance]) -> list[float]:
        return self._all("loglikelihood_rolling", requests)

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return self._all("generate_until", requests)

    def _all(self, request_type: str, requests: Sequence[Instance]) -> list[Any]:
        """All answers in order. A method that returns bare answers has no other way to say that one failed."""
        return answers_in_order(self.stream(request_type, requests, [0] * len(requests)), len(requests))


def answers_in_order(responses: Iterable[tuple[int, Response]], count: int) -> list[Any]:
    answers: list[Any] = [None] * count
    for position, response in responses:
        if response.failure is not None:
            raise ModelError(f"request {position} cannot be answered: {response.failure}")
        answers[position] = response.answer
    return answers


def to_response(request_type: str, given: Any, model: str = "the model") -> Response:
    """What a method of an LM returned for one request: a bare answer, or a whole response.

    What is no answer of this type is a failed request that names the model: never a wrong answer, and no reason to stop.
    """
    response = given if type(given) is Response else Response(given)
    if response.failure is not None:
        return response
    try:
        return response._replace(answer=REQUEST_TYPES[request_type].plain(response.answer))
    except (TypeError, ValueError, LookupError) as error:
        reason = f"{model}.{request_type} answered {str(response.answer)[:80]!r} ({type(response.answer).__name__})"
        return Response(None, failure=f"{reason}: {error}")
