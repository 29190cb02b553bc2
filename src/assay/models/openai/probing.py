"""What a server says of itself, and how it answers the probes that tell one model from another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay.models.identity import ProbeReply
from assay.models.openai.reading import read_response

TOPS = 5
LISTED = 20
"""Likeliest tokens that are requested where labels are looked for among them: the most that servers commonly give."""
PLACES = 4
"""Places of an answer whose log-probabilities are compared."""

_STABLE = ("id", "owned_by", "root", "parent", "max_model_len", "context_length", "context_window", "quantization")
"""Fields of a `/models` entry that stay while the model does: `created` and `permission` change at every start."""


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
