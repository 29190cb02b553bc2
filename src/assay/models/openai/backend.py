"""What all servers have in common: address, key, settings, counting, and generation."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar

from assay.errors import ConfigError, ModelError
from assay.instance import Context, Instance, Response, TokenCounts, context_text
from assay.models.base import Capabilities, ModelInfo, Stop, Usage, never, with_arguments
from assay.models.generation import DEFAULT_TOKS, GenerationSettings, draw_seed, thinking_room
from assay.models.likelihoods import label_logprobs_of
from assay.models.openai.arguments import ServerArguments, endpoint_address, prompts_together
from assay.models.openai.batch import Batches
from assay.models.openai.echo import require_logprobs
from assay.models.openai.reading import read_response
from assay.models.openai.sending import send_by_prefix
from assay.models.openai.server_info import LISTED, ServerInfo, read_tops
from assay.models.openai.tokens import Encoder, make_encoder
from assay.models.openai.transport import Transport
from assay.models.openai.wire import (
    Job,
    Settings,
    Unusable,
    count_in,
    why_unsendable,
)
from assay.secret_texts import without_secrets

T = TypeVar("T")
logger = logging.getLogger("assay.models")
DEFAULT_LENGTH = 2048
"""Tokens of a context where neither the server nor anybody else says."""


class ServerLM(ServerInfo):
    """A model behind an address. Subclasses say which endpoint, and how a request is written and a reply read.

    The key comes from the environment (`OPENAI_API_KEY`, or the variable named by `api_key_env`) and is written
    nowhere: not into a file, not into a message, not into the fingerprint.
    """

    DEFAULT_URL: ClassVar[str | None] = None
    NEEDS_KEY: ClassVar[bool] = False
    cuts_answers: ClassVar[bool] = True

    @with_arguments(ServerArguments)
    def __init__(self, model: str | None = None, base_url: str | None = None, **arguments: Any) -> None:
        super().__init__()
        given = ServerArguments(**arguments)
        self._given_length = None if given.max_length is None else int(given.max_length)
        self._given_toks = None if given.max_gen_toks is None else int(given.max_gen_toks)
        self.url = endpoint_address(base_url or self.DEFAULT_URL, self.ENDPOINT)
        key_required = self.NEEDS_KEY and self.url.startswith("https://api.openai.com")
        self.transport = self.make_transport(given.settings(self.url, key_required=key_required))
        self.model = model or given.pretrained or self._only_model()
        self.seed, self.eos_string, self.think_end_token = given.seed, given.eos_string, given.think_end_token
        self.enable_thinking, self.reasoning_effort = given.enable_thinking, given.reasoning_effort
        self.max_image_side = None if given.max_image_side is None else int(given.max_image_side)
        self.prices = (float(given.price_in), float(given.price_out))
        headers = json.dumps(sorted((given.header or {}).items()))
        self._header_hash = hashlib.sha256(headers.encode()).hexdigest()[:16]
        self._usage = Usage()
        self.batch_size = prompts_together(given.batch_size)
        named, wait = f"{self.url}\n{self.model}", float(given.batch_wait)
        self.batches = Batches(self.transport, self.ENDPOINT, named, wait, logger.warning) if given.batch else None
        self.encoder: Encoder | None = make_encoder(
            given.tokenizer_backend,
            given.tokenizer,
            self.model,
            revision=given.revision,
            trust_remote_code=given.trust_remote_code,
            add_bos_token=given.add_bos_token,
        )
        told = given.tokenized_requests
        self.tokenized = self.encoder is not None if told is None else bool(told)
        if self.tokenized and self.encoder is None:
            raise ConfigError("tokenized_requests needs a tokenizer", hint="Add tokenizer=NAME.")

    # -- the contract ------------------------------------------------------------------------------------------------

    def generate_until(self, requests: Sequence[Instance]) -> list[str]:
        return self.answer_required("generate_until", requests)

    @property
    def tokenizer_name(self) -> str:
        return self.encoder.name if self.encoder else ""

    @property
    def usage(self) -> Usage:
        self._usage.retries = self.transport.retries
        return self._usage

    def info(self) -> ModelInfo:
        prices = self.prices if any(self.prices) else None
        # What a limit allows, or a batch holds, is reckoned for one stream of requests.
        streams = 1 if self.batches or self.cost_limit else 2
        # Two docs for each request under way (a doc counts as four), or one slow answer would leave the server idle.
        window = 8 * self.transport.settings.ceiling
        return replace(
            super().info(),
            name=self.model,
            prices=prices,
            max_gen_toks=self.max_gen_toks,
            capabilities=Capabilities(seeds=self.seed is not None),
            window_requests=window,
            streams_at_once=streams,
        )

    @property
    def thinks(self) -> bool:
        """Whether it was told that the model reasons before it answers."""
        effort = self.reasoning_effort not in (None, "none")
        return self.enable_thinking is not False and bool(self.enable_thinking or effort or self.think_end_token)

    @cached_property
    def max_gen_toks(self) -> int:
        """As given; else 256, or for a model that thinks what its context allows."""
        if self._given_toks is not None or not self.thinks:
            return DEFAULT_TOKS if self._given_toks is None else self._given_toks
        context = self.context_length()
        if self.encoder is not None:  # prompts are cut to what fits beside the answer
            context = min(context or self.max_length, self.max_length)
        return thinking_room(context)

    @cached_property
    def max_length(self) -> int:  # type: ignore[override]  # found out when it is first needed
        """As given; else, where prompts are cut by a tokenizer, what server and tokenizer say."""
        if self._given_length is not None or self.encoder is None:
            return self._given_length or DEFAULT_LENGTH
        said = [length for length in (self.context_length(), self.encoder.max_length) if length]
        return min(said, default=DEFAULT_LENGTH)

    def notes(self) -> list[str]:
        """Whether the server was away, and whether its replies name another model."""
        away = self.transport.outages
        times = f"{len(away)} times, {sum(away):.0f} s in all" if len(away) > 1 else f"for {sum(away):.0f} s"
        return [
            *self._other_names(),
            *([f"{self.url} did not answer {times}; its requests were sent again"] if away else []),
        ]

    def _other_names(self) -> list[str]:
        """Names in replies that are not the one that was asked for, or several. A more exact name is the same model."""
        asked, named = _bare_name(self.model), self.transport.named
        others = [name for name in named if asked not in _bare_name(name) and _bare_name(name) not in asked]
        if len(named) > 1:
            counts = ", ".join(f"{name} ({n:,})" for name, n in named.most_common(5))
            return [f"{len(named)} models answered in turn at one address: {counts}"]
        return [f"{self.model} was asked for, but the replies name {others[0]}"] if others else []

    def fingerprint(self) -> str:
        """The address, the name and how it is reached. Whether it is still the same model is what `identify` tells.

        Headers count, because a gateway may choose the model by them; the key does not.
        """
        # What the server says of its length is part of its identity.
        length = self._given_length or (self.encoder and self.encoder.max_length) or DEFAULT_LENGTH
        parts = [type(self).__name__, without_secrets(self.url), self.model, self._header_hash, self.tokenized, length]
        parts += [self.max_gen_toks, self.seed, self.eos_string, self.think_end_token]
        parts += [self.encoder.fingerprint if self.encoder else None]
        if self.enable_thinking is not None or self.reasoning_effort is not None:
            parts += [self.enable_thinking, self.reasoning_effort]
        if self.max_image_side is not None:
            parts += [{"max_image_side": self.max_image_side}]
        return "server-2:" + json.dumps(parts)

    def cancel(self) -> None:
        self.transport.cancel()

    def close(self) -> None:
        self.transport.close()

    def make_transport(self, settings: Settings) -> Transport:
        """What carries requests; HTTP, unless a subclass has another way."""
        return Transport(settings)

    # -- for subclasses ----------------------------------------------------------------------------------------------

    def stream_generation(
        self, instances: Sequence[Instance], draws: Sequence[int], stop: Stop
    ) -> Iterator[tuple[int, Response]]:
        positions: list[int] = []
        texts: list[str] = []
        wanted: list[GenerationSettings] = []
        said = ""
        for position, instance in enumerate(instances):
            context, kwargs = instance.arguments[:2]
            text = context_text(context)
            if unsendable := why_unsendable(text):
                yield position, Response(None, failure=unsendable.reason)
                continue
            if said != (said := repr(kwargs)):  # nearly always the same as before
                settings = GenerationSettings.parse(kwargs, max_gen_toks=self.max_gen_toks)
            wanted.append(settings)
            positions.append(position)
            texts.append(text)

        def write(at: int) -> Job[Response]:
            position, settings, seed = positions[at], wanted[at], self.seed
            if seed is not None and not settings.greedy:
                seed = draw_seed(seed, texts[at].encode(), draws[position]) & 0x7FFFFFFF
            context = self.shown(instances[position])
            body = self.write_generation(context, settings, seed)
            return Job(body, partial(self._read_response, settings, self.beginning_in_reply(context)))

        def belong(one: int, other: int) -> bool:
            return self.batch_size is not None and wanted[one].greedy and wanted[one] == wanted[other]

        most = self.batch_size or 1 if self.ENDPOINT == "/completions" else 1  # chats have one conversation a request
        for at, answer in self.send_by_prefix(write, texts, stop, belong, most):
            yield positions[at], answer

    def thinking_fields(self) -> dict[str, Any]:
        """How a request says how much to think, in the words of vLLM, SGLang and llama.cpp, and of OpenAI."""
        fields: dict[str, Any] = {}
        if self.enable_thinking is not None:
            fields["chat_template_kwargs"] = {"enable_thinking": self.enable_thinking}
        if self.reasoning_effort is not None:
            fields["reasoning_effort"] = self.reasoning_effort
        return fields

    def shown(self, instance: Instance) -> Context:
        """What the model is shown. Only chats have a place for images: `check_needs` refuses them elsewhere."""
        context: Context = instance.arguments[0]
        return context

    def beginning_in_reply(self, context: Context) -> str:
        """What was sent of an answer that stands in its reply too, before what the model wrote."""
        return ""

    def stream_label_logprobs(self, instances: Sequence[Instance], stop: Stop) -> Iterator[tuple[int, Response]]:
        """One token of an answer, with the likeliest ones at its place; the labels are found among them."""
        one_token = GenerationSettings(max_gen_toks=1)
        tops = {name: LISTED if value is not True else True for name, value in self.TOP_LOGPROBS.items()}

        def write(at: int) -> Job[Response]:
            body = self.write_generation(self.shown(instances[at]), one_token, self.seed)
            return Job({**body, **tops}, partial(self._read_label_logprobs, instances[at]))

        yield from self.send_by_prefix(write, [context_text(instance.args[0]) for instance in instances], stop)

    def _read_label_logprobs(self, instance: Instance, reply: Any) -> Response:
        places = read_tops(reply["choices"][0])
        if not places or not places[0]:
            raise Unusable("it does not list its most likely tokens (top_logprobs)", again=False)
        require_logprobs(places[0].values())
        return Response(label_logprobs_of(places[0], instance.args[1]), tokens=self.count(reply))

    def likeliest_tokens(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """One token after each prompt, with the likeliest at its place: as many as the server lists."""
        one_token = GenerationSettings(max_gen_toks=1)
        tops = {name: LISTED if value is not True else True for name, value in self.TOP_LOGPROBS.items()}

        def read(reply: Any) -> Response:
            places = read_tops(reply["choices"][0])
            if not places or not places[0]:
                raise Unusable("it does not list its most likely tokens (top_logprobs)", again=False)
            return Response(places[0], tokens=self.count(reply))

        def write(at: int) -> Job[Response]:
            return Job({**self.write_generation(prompts[at], one_token, self.seed), **tops}, read)

        answers = dict(self.send_by_prefix(write, list(prompts), never))
        failed = next((answer.failure for answer in answers.values() if answer.failure is not None), None)
        if failed is not None:
            raise ModelError(f"{self.url}: {failed}")
        return [answers[at].answer for at in range(len(prompts))]

    def send_by_prefix(
        self,
        write: Callable[[int], Job[Response]],
        prompts: Sequence[Any],
        stop: Stop,
        belong: Callable[[int, int], bool] = lambda one, other: False,
        most: int = 1,
    ) -> Iterator[tuple[int, Response]]:
        _ = self.max_length  # requested from the server here: requests are written on the thread that would wait for it
        return send_by_prefix(self.batches or self.transport, self, write, prompts, stop, belong, most)

    @property
    def cost(self) -> float:
        """Of all that was answered so far."""
        return self._usage.cost

    def answer_required(self, request_type: str, requests: Sequence[Instance]) -> list[Any]:
        """The plain form of a stream: all responses in order, or an error."""
        answers = dict(self.stream(request_type, requests, [0] * len(requests)))
        for answer in answers.values():
            if answer.failure is not None:
                raise ModelError(f"{self.url}: {answer.failure}")
        return [answers[i].answer for i in range(len(requests))]

    def count(self, reply: Mapping[str, Any]) -> TokenCounts | None:
        """Add up what a reply says it took; None where the server does not say."""
        used, usage = reply.get("usage"), self._usage
        if used is None:
            return None
        prompt, generated = count_in(used, "prompt_tokens"), count_in(used, "completion_tokens")
        cached = min(prompt, count_in(used, "prompt_tokens_details", "cached_tokens"))
        usage.prompt_tokens += prompt
        usage.computed_tokens += prompt - cached
        usage.generated_tokens += generated
        usage.cost += (prompt * self.prices[0] + generated * self.prices[1]) / 1e6
        return (prompt, generated) if prompt else None

    def stops_to_send(self, settings: GenerationSettings) -> list[str]:
        """At most four, which is what servers take; the text is cut at all of them afterwards.

        None while the model thinks: a stop string inside its thoughts is not the end of the answer. Nor where the
        server was found to decline them.
        """
        if self.think_end_token or self._able.get("stop_strings") is False:
            return []
        ends = [self.eos_string] if self.eos_string else []
        return [*settings.until, *ends][:4]

    def _read_response(self, settings: GenerationSettings, beginning: str, reply: Any) -> Response:
        until = (*settings.until, self.eos_string) if self.eos_string else settings.until
        response = read_response(reply, until, self.think_end_token, self.count, beginning)
        if response.reasoning and response.reasoning_tokens is None and self.encoder is not None:
            return response._replace(reasoning_tokens=len(self.encoder.encode(response.reasoning)))
        return response


def _bare_name(model: str) -> str:
    """A model's name without the place that it comes from: `openai/gpt-4o`, `/models/qwen.gguf`.

    >>> _bare_name("openai/GPT-4o"), _bare_name("/models/Qwen-3.gguf")
    ('gpt-4o', 'qwen-3')
    """
    return model.rstrip("/").rpartition("/")[2].casefold().removesuffix(".gguf")
