"""What can be requested of a server, found out with tiny requests: it takes a picture, a tool, a seed, or declines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assay.instance import Context, Message
from assay.models.generation import GenerationSettings
from assay.models.identity import PROBE_TOKENS, PROBES
from assay.models.openai.probing import read_reply
from assay.models.openai.wire import count_in

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


_SHORT = GenerationSettings(max_gen_toks=PROBE_TOKENS)


@dataclass(frozen=True)
class Probe:
    """One tiny request: what is shown, how much is answered, and the fields beside it."""

    shown: Context
    settings: GenerationSettings = _SHORT
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
    alone, begun = (count_in(reply.get("usage"), "prompt_tokens") for reply in replies)
    if alone and begun and begun - alone != 2:
        return begun - alone == 1
    return read_reply(replies[1]).text.lstrip(" ,.;:\n").startswith("B")


_SAMPLED = replace(_SHORT, temperature=1.0)
_SPELL = (Message("user", "Recite the alphabet: A, B, C, D, and so on."),)
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
    "continues": Ability((Probe(_SPELL), Probe((*_SPELL, Message("assistant", "A")))), goes_on),
}
"""What only a request can tell. A server that declines one does not have the ability."""
COMPLETION_ABILITIES = {name: CHAT_ABILITIES[name] for name in ("stop_strings", "seeds")}

_CONTEXT = ("max_model_len", "context_length", "context_window", "meta.n_ctx", "meta.n_ctx_train")


def context_said(entry: Mapping[str, Any]) -> int | None:
    """The tokens that a model reads in all, as the server's list of models says.

    >>> context_said({"id": "m", "meta.n_ctx": 4096, "meta.n_ctx_train": 8192}), context_said({"id": "m"})
    (4096, None)
    """
    return next((entry[name] for name in _CONTEXT if isinstance(entry.get(name), int) and entry[name] > 0), None)
