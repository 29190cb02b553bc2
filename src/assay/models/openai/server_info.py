"""What a server says of itself, and what only requests can tell of it: which model it is, what it can do, lengths.

Abilities are found out with tiny requests: the server takes a picture, a tool, a seed, or declines.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from assay.errors import ConfigError, ModelError
from assay.instance import Context, Message
from assay.models.base import ABILITIES, LM, Capabilities
from assay.models.generation import GenerationSettings
from assay.models.identity import PROBE_TOKENS, PROBES, Identity, ProbeReply
from assay.models.openai.arguments import sibling_address
from assay.models.openai.reading import read_response
from assay.models.openai.tokens import Encoder
from assay.models.openai.transport import Transport
from assay.models.openai.wire import Failed, Job, count_in

TOPS = 5
LISTED = 20
"""Likeliest tokens that are requested where labels are looked for among them: the most that servers commonly give."""
PLACES = 4
"""Places of an answer whose log-probabilities are compared."""

_STABLE = ("id", "owned_by", "root", "parent", "max_model_len", "context_length", "context_window", "quantization")
"""Fields of a `/models` entry that stay while the model does: `created` and `permission` change at every start."""
_PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)
_TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}},
    },
}
SHORT = GenerationSettings(max_gen_toks=PROBE_TOKENS)
_SAMPLED = replace(SHORT, temperature=1.0)
_SPELL = (Message("user", "Recite the alphabet: A, B, C, D, and so on."),)
_BEGINNING = "Letter by letter: A, B,"
"""The beginning of an answer that no model would write by itself."""
BEGUN = (*_SPELL, Message("assistant", _BEGINNING))
_CONTEXT = ("max_model_len", "context_length", "context_window", "meta.n_ctx", "meta.n_ctx_train")


def entry_of(listing: Any, model: str) -> dict[str, Any]:
    """What `/models` says of one model; nothing where the server has no such page, or not this model on it.

    >>> entry_of({"data": [{"id": "m", "owned_by": "vllm", "created": 17, "root": "/weights"}]}, "m")
    {'id': 'm', 'owned_by': 'vllm', 'root': '/weights'}
    """
    entries = listing.get("data") if isinstance(listing, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("id") == model:
            said = {name: entry[name] for name in _STABLE if isinstance(entry.get(name), str | int)}
            meta = entry.get("meta")  # llama.cpp: sizes of vocabulary, context and weights
            sizes = (
                {f"meta.{k}": v for k, v in meta.items() if isinstance(v, str | int)}
                if isinstance(meta, Mapping)
                else {}
            )
            return said | sizes
    return {}


def only_entry(listing: Any) -> dict[str, Any]:
    """What `/models` says of the one model of a server, which answers by any name, as llama.cpp does."""
    entries = listing.get("data") if isinstance(listing, Mapping) else None
    if not isinstance(entries, list) or len(entries) != 1 or not isinstance(entries[0], Mapping):
        return {}
    return entry_of(listing, str(entries[0].get("id")))


def read_tops(choice: Mapping[str, Any]) -> tuple[dict[str, float], ...]:
    """The likeliest tokens at the first places, in either of the two forms that servers write; none if not given."""
    given = choice.get("logprobs")
    if not isinstance(given, Mapping):
        return ()
    if isinstance(content := given.get("content"), list):  # chat
        places = [{top["token"]: top["logprob"] for top in place.get("top_logprobs") or []} for place in content]
    else:
        places = [place or {} for place in given.get("top_logprobs") or []]
    return tuple({str(t): round(float(p), 5) for t, p in place.items()} for place in places[:PLACES])


def read_reply(reply: Any) -> ProbeReply:
    """The answer with the thoughts before it: some models get no further within a probe."""
    response = read_response(reply)
    return ProbeReply(f"{response.reasoning or ''}{response.answer or ''}", read_tops(reply["choices"][0]))


@dataclass(frozen=True)
class Probe:
    """One tiny request: what is shown, how much is answered, and the fields beside it."""

    shown: Context
    settings: GenerationSettings = SHORT
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ability:
    """Requests that only a server with the ability answers so that `shows` is true of its replies."""

    probes: tuple[Probe, ...]
    shows: Callable[[Sequence[Any]], bool] = lambda replies: True


def repeats_itself(replies: Sequence[Any]) -> bool:
    """The same seed gave the same text, twice over."""
    first, again, other, other_again = (read_reply(reply).text for reply in replies)
    return first == again and other == other_again


def goes_on(replies: Sequence[Any]) -> bool:
    """The answer that was begun is the end of the prompt: its one letter makes the prompt longer by a token, where a turn
    of its own, with the beginning of the next, takes three at least. What lies between is told by what was written."""
    alone, begun = (count_in(reply.get("usage"), "prompt_tokens") for reply in replies[:2])
    if alone and begun and begun - alone != 2:
        return begun - alone == 1
    text = read_reply(replies[1]).text
    written = text.removeprefix("A") if returns_beginning(replies[2]) else text
    return written.lstrip(" ,.;:\n").startswith("B")


def returns_beginning(reply: Any) -> bool:
    """Whether the beginning that was sent stands before what the model wrote, as llama.cpp returns it."""
    return read_reply(reply).text.startswith(_BEGINNING)


CHAT_ABILITIES: Mapping[str, Ability] = {
    "images": Ability(
        (
            Probe(
                (
                    Message(
                        "user",
                        ({"type": "image_url", "image_url": {"url": _PIXEL}}, {"type": "text", "text": PROBES[0]}),
                    ),
                )
            ),
        )
    ),
    "tools": Ability((Probe(PROBES[0], beside={"tools": [_TOOL]}),)),
    "stop_strings": Ability((Probe(PROBES[0], beside={"stop": ["\n\n\n"]}),)),
    "seeds": Ability(
        tuple(Probe("Write ten words at random:", _SAMPLED, {"seed": seed}) for seed in (1, 1, 2, 2)), repeats_itself
    ),
    "continues": Ability((Probe(_SPELL), Probe((*_SPELL, Message("assistant", "A"))), Probe(BEGUN)), goes_on),
}
"""What only a request can tell. A server that declines one does not have the ability."""
COMPLETION_ABILITIES = {name: CHAT_ABILITIES[name] for name in ("stop_strings", "seeds")}


def context_said(entry: Mapping[str, Any]) -> int | None:
    """The tokens that a model reads in all, as the server's list of models says.

    >>> context_said({"id": "m", "meta.n_ctx": 4096, "meta.n_ctx_train": 8192}), context_said({"id": "m"})
    (4096, None)
    """
    return next((entry[name] for name in _CONTEXT if isinstance(entry.get(name), int) and entry[name] > 0), None)


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

    @property
    def server_root(self) -> str:
        """The address that pages stand under which are no part of OpenAI's."""
        return sibling_address(self.url, self.ENDPOINT, "").removesuffix("/v1")

    def identify(self, times: int) -> Identity | None:
        listing = self.listing()
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
                reply = self.transport.post(
                    f"{self.server_root}/tokenize", {"model": self.model, "prompt": text, "content": text}, tries=1
                )
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
            raise ModelError(f"{self.url}: {outcome.reason}", hint=outcome.hint)
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
