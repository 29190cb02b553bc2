"""What a server says of itself, and what only requests can tell of it: identity, abilities, lengths."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from assay.errors import ConfigError, ModelError
from assay.instance import Context
from assay.models.base import ABILITIES, LM, Capabilities
from assay.models.generation import GenerationSettings
from assay.models.identity import PROBE_TOKENS, PROBES, Identity, ProbeReply
from assay.models.openai.abilities import COMPLETION_ABILITIES, Ability, context_said
from assay.models.openai.address import sibling_address
from assay.models.openai.probing import entry_of, only_entry, read_reply, read_tops
from assay.models.openai.tokens import Encoder
from assay.models.openai.transport import Transport
from assay.models.openai.wire import Failed, Job

_NOT_THERE = "Start the server. With --offline, stored answers are scored without checking the server."


class ServerInfo(LM):
    """The part of a `ServerLM` that asks about the model, not the model itself."""

    ENDPOINT: ClassVar[str]
    TOP_LOGPROBS: ClassVar[Mapping[str, Any]]
    """What asks for the log-probabilities of the likeliest tokens of an answer."""
    PROBED: ClassVar[Mapping[str, Ability]] = COMPLETION_ABILITIES
    """What only requests can tell, and those requests."""

    url: str
    model: str
    seed: int | None
    transport: Transport
    encoder: Encoder | None
    _given_length: int | None

    def __init__(self) -> None:
        self._able: dict[str, bool] = {}
        self._context: int | None = None
        self._counts_tokens = True

    @abstractmethod
    def write_generation(self, context: Context, settings: GenerationSettings, seed: int | None) -> dict[str, Any]:
        """The body of a request."""

    def listing(self) -> Any:
        """The server's list of models, or None where it has no such page."""
        return self.transport.get(sibling_address(self.url, self.ENDPOINT, "/models"))

    def identify(self, times: int) -> Identity:
        try:
            listing = self.listing()
        except ModelError as error:
            raise ModelError(error.message, hint=_NOT_THERE) from error
        builds: dict[str, None] = {}
        replies = self._probe(times, builds, with_tops=True) or self._probe(times, builds, with_tops=False)
        return Identity(entry_of(listing, self.model), tuple(builds), replies)

    def parameter_count(self) -> int | None:
        """What the server's list of models says, as llama.cpp does."""
        said = entry_of(self.listing(), self.model)
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
                listing = self.listing()
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
        for probe in self.PROBED[ability].probes:
            body = {**self.write_generation(probe.shown, probe.settings, self.seed), **probe.beside}
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

    def _only_model(self) -> str:
        """The name of the model when none was given and the server has just one."""
        listing = self.listing()
        try:
            names = [str(entry["id"]) for entry in (listing or {}).get("data", [])]
        except (AttributeError, LookupError, TypeError):
            names = []
        if len(names) != 1:
            found = f"it has {', '.join(names)}" if names else "it lists none"
            raise ConfigError(f"no model was given for {self.url}, and {found}", hint="Add model=NAME to --model_args.")
        return names[0]

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
