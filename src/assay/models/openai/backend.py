"""What all servers have in common: address, key, settings, counting, and generation."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from assay.errors import ConfigError, ModelError
from assay.instance import Instance, RequestType, TokenCounts
from assay.models.base import LM, Answer, Usage
from assay.models.generation import GenerationSettings, cut_at_stop, draw_seed
from assay.models.openai.address import endpoint_address, request_headers, sibling_address
from assay.models.openai.tokens import Encoder, make_encoder
from assay.models.openai.transport import Transport
from assay.models.openai.wire import Failed, Job, Settings, whole_characters, why_unsendable
from assay.models.prefix_tree import prefix_order


class ServerLM(LM):
    """A model behind an address. Subclasses say which endpoint, and how a request is written and a reply read.

    The key comes from the environment (`OPENAI_API_KEY`, or the variable named by `api_key_env`) and is written
    nowhere: not into a file, not into a message, not into the fingerprint.
    """

    ENDPOINT: ClassVar[str]
    DEFAULT_URL: ClassVar[str | None] = None
    NEEDS_KEY: ClassVar[bool] = False

    def __init__(
        self,
        model: str | None = None,
        base_url: str | None = None,
        *,
        pretrained: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        tokenizer: str | None = None,
        tokenizer_backend: str | None = None,
        tokenized_requests: bool | None = None,
        add_bos_token: bool = False,
        revision: str | None = None,
        trust_remote_code: bool = False,
        max_length: int = 2048,
        max_gen_toks: int = 256,
        num_concurrent: int = 64,
        max_retries: int = 6,
        timeout: float = 300,
        backoff: float = 0.5,
        seed: int | None = 1234,
        eos_string: str | None = None,
        think_end_token: str | None = None,
        header: Mapping[str, str] | None = None,
        verify_certificate: bool = True,
        ca_cert_path: str | None = None,
        price_in: float = 0.0,
        price_out: float = 0.0,
        api_key: str | None = None,
    ) -> None:
        """`price_in` and `price_out` are per million tokens. `num_concurrent` is the most; fewer are used at need."""
        if api_key is not None:
            raise ConfigError(
                "api_key was given as a model argument, where it would be written into the run's config",
                hint=f"Put it into the environment: export {api_key_env}=…",
            )
        self.url = endpoint_address(base_url or self.DEFAULT_URL, self.ENDPOINT)
        settings = Settings(
            url=self.url,
            headers=request_headers(header, api_key_env, key_required=self._key_required()),
            timeout=float(timeout),
            max_retries=int(max_retries),
            ceiling=max(1, int(num_concurrent)),
            backoff=float(backoff),
            verify=ca_cert_path or bool(verify_certificate),
        )
        self.transport = Transport(settings)
        self.model = model or pretrained or self._only_model()
        self.max_length, self.max_gen_toks = int(max_length), int(max_gen_toks)
        self.seed, self.eos_string, self.think_end_token = seed, eos_string, think_end_token
        self.prices = (float(price_in), float(price_out))
        self._header_hash = hashlib.sha256(json.dumps(sorted((header or {}).items())).encode()).hexdigest()[:16]
        self._usage = Usage()
        self.encoder: Encoder | None = make_encoder(
            tokenizer_backend,
            tokenizer,
            self.model,
            revision=revision,
            trust_remote_code=trust_remote_code,
            add_bos_token=add_bos_token,
        )
        self.tokenized = self.encoder is not None if tokenized_requests is None else bool(tokenized_requests)
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

    @property
    def should_stop(self) -> Callable[[], bool]:
        """The run sets it: paid requests under way are awaited when it says yes, and no others are sent."""
        return self.transport.should_stop

    @should_stop.setter
    def should_stop(self, ask: Callable[[], bool]) -> None:
        self.transport.should_stop = ask

    def fingerprint(self) -> str:
        """The address and the name are all that is known of the weights; a changed server should get a new name.

        Headers count, because a gateway may choose the model by them; the key does not.
        """
        parts = [type(self).__name__, self.url, self.model, self._header_hash, self.tokenized, self.max_length]
        parts += [self.max_gen_toks, self.seed, self.eos_string, self.think_end_token]
        parts += [self.encoder.fingerprint if self.encoder else None]
        return "server-2:" + json.dumps(parts)

    def close(self) -> None:
        self.transport.close()

    # -- for subclasses ----------------------------------------------------------------------------------------------

    @abstractmethod
    def write_generation(self, context: str, settings: GenerationSettings, seed: int | None) -> dict[str, Any]:
        """The body of a request."""

    @abstractmethod
    def read_text(self, choice: Mapping[str, Any]) -> str:
        """The text of a reply; raises `Unusable` when there is none."""

    def stream_generation(self, instances: Sequence[Instance], draws: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        jobs: list[Job[Answer]] = []
        positions: list[int] = []
        for position, (instance, draw) in enumerate(zip(instances, draws)):
            context, kwargs = str(instance.arguments[0]), instance.arguments[1]
            if unsendable := why_unsendable(context):
                yield position, Answer(None, failure=unsendable.reason)
                continue
            settings = GenerationSettings.parse(kwargs, max_gen_toks=self.max_gen_toks)
            seed = self.seed
            if seed is not None and not settings.greedy:
                seed = draw_seed(seed, context.encode(), draw) & 0x7FFFFFFF
            jobs.append(Job(self.write_generation(context, settings, seed), partial(self._read_answer, settings)))
            positions.append(position)
        for at, answer in self.send_by_prefix(jobs, [str(instances[i].arguments[0]) for i in positions]):
            yield positions[at], answer

    def send_by_prefix(self, jobs: Sequence[Job[Answer]], prompts: Sequence[Any]) -> Iterator[tuple[int, Answer]]:
        """Send in the order of prefixes, and yield answers under their own positions."""
        order = prefix_order(prompts)
        for at, outcome in self.transport.send_all([jobs[i] for i in order]):
            yield order[at], Answer(None, failure=outcome.reason) if isinstance(outcome, Failed) else outcome

    def answer_required(self, request_type: RequestType, requests: Sequence[Instance]) -> list[Any]:
        """The plain form of a stream: all responses in order, or an error."""
        answers = dict(self.stream(request_type, requests, [0] * len(requests)))
        for answer in answers.values():
            if answer.failure is not None:
                raise ModelError(f"{self.url}: {answer.failure}")
        return [answers[i].response for i in range(len(requests))]

    def count(self, reply: Mapping[str, Any]) -> TokenCounts | None:
        """Add up what a reply says it took; None where the server does not say."""
        used = reply.get("usage") or {}
        prompt, generated = int(used.get("prompt_tokens") or 0), int(used.get("completion_tokens") or 0)
        cached = int((used.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        self._usage.prompt_tokens += prompt
        self._usage.computed_tokens += prompt - cached
        self._usage.generated_tokens += generated
        self._usage.cost += (prompt * self.prices[0] + generated * self.prices[1]) / 1e6
        return (prompt, generated) if prompt else None

    def stops_to_send(self, settings: GenerationSettings) -> list[str]:
        """At most four, which is what servers take; the text is cut at all of them afterwards.

        None while the model thinks: a stop string inside its thoughts is not the end of the answer.
        """
        if self.think_end_token:
            return []
        ends = [self.eos_string] if self.eos_string else []
        return [*settings.until, *ends][:4]

    def _read_answer(self, settings: GenerationSettings, reply: Any) -> Answer:
        choice = reply["choices"][0]
        reason = choice.get("finish_reason")
        if reason == "content_filter":
            self.count(reply)
            return Answer(None, failure="the server's content filter withheld the answer")
        text = whole_characters(self.read_text(choice))
        tokens = self.count(reply)
        if self.think_end_token:
            text = text.split(self.think_end_token)[-1].lstrip()
        text, was_cut = cut_at_stop(text, [*settings.until, *([self.eos_string] if self.eos_string else [])])
        if was_cut or reason != "length":
            return Answer(text, "stop", tokens=tokens)
        return Answer(text, "length", tokens=tokens)

    # -- inside ------------------------------------------------------------------------------------------------------

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
            raise ConfigError(f"no model was named for {self.url}, and {found}", hint="Add model=NAME to --model_args.")
        return names[0]
