"""What all servers have in common: address, key, settings, counting, and generation."""

from __future__ import annotations

import hashlib
import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar

from assay.errors import ConfigError, ModelError
from assay.instance import Context, Instance, Response, TokenCounts, context_text
from assay.models.base import ABILITIES, LM, Capabilities, ModelInfo, Stop, Usage, never, with_arguments
from assay.models.generation import DEFAULT_TOKS, GenerationSettings, draw_seed, thinking_room
from assay.models.identity import PROBE_TOKENS, PROBES, Identity, ProbeReply
from assay.models.letters import letters_of
from assay.models.openai.abilities import COMPLETION_ABILITIES, Ability, context_said
from assay.models.openai.address import endpoint_address, is_azure, request_headers, sibling_address
from assay.models.openai.batch import Batches
from assay.models.openai.probing import LISTED, entry_of, only_entry, read_reply, read_tops
from assay.models.openai.reading import read_response
from assay.models.openai.sending import send_by_prefix
from assay.models.openai.tokens import Encoder, make_encoder
from assay.models.openai.transport import Transport
from assay.models.openai.wire import (
    BYTES_OF_A_TOKEN,
    LARGEST_REPLY,
    MOST_AT_ONCE,
    SLOW_START,
    Failed,
    Job,
    Settings,
    Unusable,
    count_in,
    why_unsendable,
)

T = TypeVar("T")
logger = logging.getLogger("assay.models")
DEFAULT_LENGTH = 2048
"""Tokens of a context where neither the server nor anybody else says."""

_NOT_THERE = "Start the server. With --offline, kept answers are scored without checking the server."


@dataclass(frozen=True, kw_only=True)
class ServerArguments:
    """What `--model_args` may say of a server, beside its address and the model's name."""

    pretrained: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    tokenizer: str | None = None
    tokenizer_backend: str | None = None
    tokenized_requests: bool | None = None
    add_bos_token: bool = False
    revision: str | None = None
    trust_remote_code: bool = False
    max_length: int | None = None
    max_gen_toks: int | None = None
    num_concurrent: int | None = None
    """Requests under way at once, and fewer when the server complains. Without it, what the server bears is found out,
    from two on up to 1,024."""
    batch_size: int | str | None = None
    """Prompts that go into one request to a completions server. Without it (or `auto`) the choices of a question do,
    where the server is known to take them."""
    max_retries: int = 6
    timeout: float = 300
    backoff: float = 0.5
    seed: int | None = 1234
    eos_string: str | None = None
    think_end_token: str | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    header: Mapping[str, str] | None = None
    verify_certificate: bool = True
    ca_cert_path: str | None = None
    price_in: float = 0.0
    """Of a million tokens."""
    price_out: float = 0.0
    max_image_side: int | None = None
    """Pixels: larger images are scaled down before they are sent."""
    batch: bool = False
    """Hand all requests to OpenAI's batch endpoint."""
    batch_wait: float = 30.0
    """Seconds between two looks whether a batch is answered."""
    api_key: str | None = None

    def __post_init__(self) -> None:
        if self.api_key is not None:
            raise ConfigError(
                "api_key was given as a model argument, where it would be written to the run's config",
                hint=f"Put it in the environment: export {self.api_key_env}=…",
            )

    def settings(self, url: str, *, key_required: bool) -> Settings:
        """How requests are sent to that address."""
        at_once = None if self.num_concurrent is None else int(self.num_concurrent)
        return Settings(
            url=url,
            headers=request_headers(self.header, self.api_key_env, key_required=key_required, azure=is_azure(url)),
            timeout=float(self.timeout),
            max_retries=int(self.max_retries),
            ceiling=MOST_AT_ONCE if at_once is None else max(1, at_once),
            begin_with=SLOW_START if at_once is None else at_once,
            backoff=float(self.backoff),
            verify=self.ca_cert_path or bool(self.verify_certificate),
            max_reply=max(LARGEST_REPLY, BYTES_OF_A_TOKEN * int(self.max_length or 0)),
        )


class ServerLM(LM):
    """A model behind an address. Subclasses say which endpoint, and how a request is written and a reply read.

    The key comes from the environment (`OPENAI_API_KEY`, or the variable named by `api_key_env`) and is written
    nowhere: not into a file, not into a message, not into the fingerprint.
    """

    ENDPOINT: ClassVar[str]
    DEFAULT_URL: ClassVar[str | None] = None
    NEEDS_KEY: ClassVar[bool] = False
    cuts_answers: ClassVar[bool] = True
    TOP_LOGPROBS: ClassVar[Mapping[str, Any]]
    """What asks for the log-probabilities of the likeliest tokens of an answer."""
    PROBED: ClassVar[Mapping[str, Ability]] = COMPLETION_ABILITIES
    """What only requests can tell, and those requests."""

    @with_arguments(ServerArguments)
    def __init__(self, model: str | None = None, base_url: str | None = None, **arguments: Any) -> None:
        given = ServerArguments(**arguments)
        self._given_length = None if given.max_length is None else int(given.max_length)
        self._given_toks = None if given.max_gen_toks is None else int(given.max_gen_toks)
        self.url = endpoint_address(base_url or self.DEFAULT_URL, self.ENDPOINT)
        self.transport = self.make_transport(given.settings(self.url, key_required=self._key_required()))
        self.model = model or given.pretrained or self._only_model()
        self.seed, self.eos_string, self.think_end_token = given.seed, given.eos_string, given.think_end_token
        self.enable_thinking, self.reasoning_effort = given.enable_thinking, given.reasoning_effort
        self.max_image_side = None if given.max_image_side is None else int(given.max_image_side)
        self._able: dict[str, bool] = {}
        self._context: int | None = None
        self._counts_tokens = True
        self.prices = (float(given.price_in), float(given.price_out))
        headers = json.dumps(sorted((given.header or {}).items()))
        self._header_hash = hashlib.sha256(headers.encode()).hexdigest()[:16]
        self._usage = Usage()
        self.batch_size = _given_size(given.batch_size)
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
        return replace(
            super().info(),
            name=self.model,
            prices=prices,
            max_gen_toks=self.max_gen_toks,
            capabilities=Capabilities(seeds=self.seed is not None),
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

    def fingerprint(self) -> str:
        """The address, the name and how it is asked. Whether it is still the same model is what `identify` tells.

        Headers count, because a gateway may choose the model by them; the key does not.
        """
        # What the server says of its length is part of its identity.
        length = self._given_length or (self.encoder and self.encoder.max_length) or DEFAULT_LENGTH
        parts = [type(self).__name__, self.url, self.model, self._header_hash, self.tokenized, length]
        parts += [self.max_gen_toks, self.seed, self.eos_string, self.think_end_token]
        parts += [self.encoder.fingerprint if self.encoder else None]
        if self.enable_thinking is not None or self.reasoning_effort is not None:
            parts += [self.enable_thinking, self.reasoning_effort]
        if self.max_image_side is not None:
            parts += [{"max_image_side": self.max_image_side}]
        return "server-2:" + json.dumps(parts)

    def identify(self, times: int) -> Identity:
        try:
            listing = self.transport.get(sibling_address(self.url, self.ENDPOINT, "/models"))
        except ModelError as error:
            raise ModelError(error.message, hint=_NOT_THERE) from error
        builds: dict[str, None] = {}
        replies = self._probe(times, builds, with_tops=True) or self._probe(times, builds, with_tops=False)
        return Identity(entry_of(listing, self.model), tuple(builds), replies)

    def parameter_count(self) -> int | None:
        """What the server's list of models says, as llama.cpp does."""
        said = entry_of(self.transport.get(sibling_address(self.url, self.ENDPOINT, "/models")), self.model)
        size = said.get("meta.n_params")
        return size if isinstance(size, int) else None

    def capabilities(self, wanted: Collection[str] = ABILITIES, known: Collection[str] = ()) -> Capabilities:
        stated = () if self.seed is not None else ("seeds",)
        for name in ("top_logprobs", *self.PROBED):
            if name in wanted and name not in self._able and name not in stated:
                self._able[name] = name in known or (
                    self._lists_tokens() if name == "top_logprobs" else self._takes(name)
                )
        return replace(self.info().capabilities, **self._able)

    def context_length(self) -> int | None:
        """What the server's list of models says, else what it was given."""
        if self._context is None:
            try:
                listing = self.transport.get(sibling_address(self.url, self.ENDPOINT, "/models"))
            except ModelError:  # whether it is there at all is for those to say who ask it something
                listing = None
            self._context = (
                context_said(entry_of(listing, self.model) or only_entry(listing)) or self._given_length or 0
            )
        return self._context or None

    def text_tokens(self, text: str) -> int | None:
        """By the tokenizer that was named, else by the page that llama.cpp and vLLM have for it."""
        if self.encoder is not None:
            return len(self.encoder.encode(text))
        if self._counts_tokens:
            try:
                address = f"{sibling_address(self.url, self.ENDPOINT, '').removesuffix('/v1')}/tokenize"
                reply = self.transport.post(address, {"model": self.model, "prompt": text, "content": text}, tries=1)
                return len(reply["tokens"])
            except (ModelError, LookupError, TypeError):
                self._counts_tokens = False
        return None

    def _takes(self, ability: str) -> bool:
        """Whether requests with such a thing in them are answered, and not declined, and the answers show it."""
        replies = []
        for asked in self.PROBED[ability].asked:
            body = {**self.write_generation(asked.shown, asked.settings, self.seed), **asked.beside}
            reply = self._reply_to(body)
            if reply is None:
                return False
            replies.append(reply)
        return self.PROBED[ability].shows(replies)

    def _reply_to(self, body: Mapping[str, Any]) -> Any:
        """What it says to a request, or None where it declines it."""
        outcome = self.transport.send(Job(body, lambda reply: reply if reply["choices"] else None))
        if isinstance(outcome, Failed) and not outcome.refused:  # busy or broken, which says nothing of what it can do
            raise ModelError(f"{self.url}: {outcome.reason}", hint=_NOT_THERE)
        return None if isinstance(outcome, Failed) else outcome

    def _lists_tokens(self) -> bool:
        """Whether the likeliest tokens come with an answer; some servers list none beside half a character."""
        body = {**self.write_generation("2 + 2 =", GenerationSettings(max_gen_toks=4), self.seed), **self.TOP_LOGPROBS}
        reply = self._reply_to(body)
        return reply is not None and bool(read_tops(reply["choices"][0]))

    def cancel(self) -> None:
        self.transport.cancel()

    def close(self) -> None:
        self.transport.close()

    def make_transport(self, settings: Settings) -> Transport:
        """What carries requests; HTTP, unless a subclass has another way."""
        return Transport(settings)

    # -- for subclasses ----------------------------------------------------------------------------------------------

    @abstractmethod
    def write_generation(self, context: Context, settings: GenerationSettings, seed: int | None) -> dict[str, Any]:
        """The body of a request."""

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
            body = self.write_generation(self.shown(instances[position]), settings, seed)
            return Job(body, partial(self._read_response, settings))

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

    def stream_letters(self, instances: Sequence[Instance], stop: Stop) -> Iterator[tuple[int, Response]]:
        """One token of an answer, with the likeliest ones at its place; the labels are found among them."""
        one_token = GenerationSettings(max_gen_toks=1)
        tops = {name: LISTED if value is not True else True for name, value in self.TOP_LOGPROBS.items()}

        def write(at: int) -> Job[Response]:
            body = self.write_generation(self.shown(instances[at]), one_token, self.seed)
            return Job({**body, **tops}, partial(self._read_letters, instances[at]))

        yield from self.send_by_prefix(write, [context_text(instance.args[0]) for instance in instances], stop)

    def _read_letters(self, instance: Instance, reply: Any) -> Response:
        places = read_tops(reply["choices"][0])
        if not places or not places[0]:
            raise Unusable("it does not list its most likely tokens (top_logprobs)", again=False)
        return Response(letters_of(places[0], instance.args[1]), tokens=self.count(reply))

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
        _ = self.max_length  # asked of the server here: requests are written on the thread that would wait for it
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

    def _read_response(self, settings: GenerationSettings, reply: Any) -> Response:
        until = (*settings.until, self.eos_string) if self.eos_string else settings.until
        response = read_response(reply, until, self.think_end_token, self.count)
        if response.reasoning and response.reasoning_tokens is None and self.encoder is not None:
            return response._replace(reasoning_tokens=len(self.encoder.encode(response.reasoning)))
        return response

    # -- inside ------------------------------------------------------------------------------------------------------

    def _probe(self, times: int, builds: dict[str, None], *, with_tops: bool) -> tuple[tuple[ProbeReply, ...], ...]:
        """The replies to each probe; nothing where the server declines them, as it may log-probabilities."""

        def read(reply: Any) -> ProbeReply:
            if build := reply.get("system_fingerprint"):
                builds[str(build)] = None
            return read_reply(reply)

        settings = GenerationSettings(max_gen_toks=PROBE_TOKENS)
        tops = self.TOP_LOGPROBS if with_tops else {}
        jobs = [Job({**self.write_generation(probe, settings, self.seed), **tops}, read) for probe in PROBES] * times
        replies: list[list[ProbeReply]] = [[] for _ in PROBES]
        for at, reply in self.transport.send_all(jobs):
            if isinstance(reply, Failed):
                return ()
            replies[at % len(PROBES)].append(reply)
        return tuple(map(tuple, replies))

    def _key_required(self) -> bool:
        return self.NEEDS_KEY and self.url.startswith("https://api.openai.com")

    def _only_model(self) -> str:
        """The name of the model when none was given and the server has just one."""
        listing = self.transport.get(sibling_address(self.url, self.ENDPOINT, "/models"))
        try:
            names = [str(entry["id"]) for entry in (listing or {}).get("data", [])]
        except (AttributeError, LookupError, TypeError):
            names = []
        if len(names) != 1:
            found = f"it has {', '.join(names)}" if names else "it lists none"
            raise ConfigError(f"no model was given for {self.url}, and {found}", hint="Add model=NAME to --model_args.")
        return names[0]


def _given_size(batch_size: int | str | None) -> int | None:
    """`auto`, also with a number behind it as lm-evaluation-harness has it, says nothing about a server."""
    if batch_size is None or str(batch_size).startswith("auto"):
        return None
    try:
        return max(1, int(batch_size))
    except ValueError as error:
        raise ConfigError(f"batch_size is {batch_size!r}", hint="Use a number, or auto.") from error
