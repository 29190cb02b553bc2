"""Branching the model's own cache: what a prefix leaves behind is computed once and copied for everyone who continues it.

For models that the prefix tree does not fit. A recurrent layer keeps a small state and no keys that a mask could hide, and
some families attend in a way of their own; but all of them go on from the cache that transformers keeps for generation:

    prefix ──► cache ──┬─ copy ──► row 1      rows side by side, padded on the right: padding comes
                       ├─ copy ──► row 2      after everything that is read, so it changes nothing
                       └─ copy ──► row 3
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from assay.models.hf.attention import innermost


class UnsupportedState(Exception):
    """The model's cache cannot be continued, copied or joined."""


class StateRunner:
    """One forward pass after another, each behind a cache."""

    def __init__(self, model: Any, *, shares: bool = True) -> None:
        self.model = model
        self.shares = shares
        """Whether a cache can be continued by more than one token, so that prefixes may be cached."""
        self.computed = 0
        """Tokens that went through the model."""
        takes = inspect.signature(innermost(model).forward).parameters
        self._cache_name = next((name for name in ("past_key_values", "cache_params") if name in takes), None)
        if self._cache_name is None:
            raise UnsupportedState("its forward method takes no cache")
        self._takes = {name for name in ("attention_mask", "position_ids", "logits_to_keep") if name in takes}

    @property
    def device(self) -> Any:
        return self.model.get_input_embeddings().weight.device

    def fresh(self) -> Cache:
        """An empty cache whose attention layers keep every key: rows are joined token by token."""
        cache = DynamicCache(config=self.model.config)
        cache.layers = [DynamicLayer() if type(one) is DynamicSlidingWindowLayer else one for one in cache.layers]
        return cache

    def extend(self, cache: Cache, rows: Sequence[Sequence[int]], keep: int) -> Any:
        """Logits `[rows, keep, vocabulary]` of the last places, padding among them; the cache grows by the rows."""
        width = max(map(len, rows))
        tokens = torch.zeros((len(rows), width), dtype=torch.long)
        for row, ids in enumerate(rows):
            tokens[row, : len(ids)] = torch.as_tensor(ids)
        self.computed += sum(map(len, rows))
        return self._forward(cache, tokens, {}, keep)

    def decode(self, cache: Cache, tokens: Sequence[int], lengths: Sequence[int]) -> Any:
        """Logits `[rows, vocabulary]` after one more token of each row, behind `lengths` tokens that it has read."""
        reach = torch.as_tensor(lengths)
        longest = int(reach.max())
        mask = torch.arange(longest + 1) >= (longest - reach).unsqueeze(1)
        given = {"attention_mask": mask.long(), "position_ids": reach.unsqueeze(1)}
        return self._forward(cache, torch.as_tensor(tokens).unsqueeze(1), given, 1)[:, -1]

    def _forward(self, cache: Cache, tokens: Any, given: dict[str, Any], keep: int) -> Any:
        options = {name: value.to(self.device) for name, value in given.items() if name in self._takes}
        if "logits_to_keep" in self._takes:
            options["logits_to_keep"] = keep
        options[str(self._cache_name)] = cache
        with torch.inference_mode():
            return self.model(input_ids=tokens.to(self.device), use_cache=True, **options).logits[:, -keep:]


def branch(cache: Cache, rows: Sequence[int] | int) -> Cache:
    """A copy with these rows of the cache, or its only row so many times."""
    with torch.inference_mode():
        copied = copy.deepcopy(cache)
        places = torch.as_tensor(list(rows) if not isinstance(rows, int) else [0] * rows)
        copied.reorder_cache(places)
    return copied


def select(cache: Cache, rows: Sequence[int], spare: int = 0) -> None:
    """Only these rows stay, without the first `spare` places, which are padding for all of them."""
    with torch.inference_mode():
        cache.reorder_cache(torch.as_tensor(list(rows)))
        for layer in cache.layers if spare else ():
            if getattr(layer, "keys", None) is not None and layer.keys.numel():
                layer.keys, layer.values = layer.keys[:, :, spare:], layer.values[:, :, spare:]


def size_of(cache: Cache) -> int:
    """Bytes of its keys, values and states."""
    size = 1
    for layer in cache.layers:
        states = [*getattr(layer, "conv_states", {}).values(), *getattr(layer, "recurrent_states", {}).values()]
        parts = [getattr(layer, "keys", None), getattr(layer, "values", None), *states]
        size += sum(part.numel() * part.element_size() for part in parts if part is not None)
    return size


def join(caches: Sequence[Cache]) -> Cache:
    """Rows of several caches in one: keys and values padded on the left to the longest, states as they are."""
    joined = copy.copy(caches[0])
    joined.layers = [_join_layers([cache.layers[index] for cache in caches]) for index in range(len(caches[0].layers))]
    return joined


def _join_layers(layers: Sequence[Any]) -> Any:
    joined = copy.copy(layers[0])
    with torch.inference_mode():
        if getattr(layers[0], "keys", None) is not None and layers[0].keys.numel():
            longest = max(layer.keys.shape[2] for layer in layers)
            joined.keys = torch.cat([_left_padded(layer.keys, longest) for layer in layers])
            joined.values = torch.cat([_left_padded(layer.values, longest) for layer in layers])
        for name in ("conv_states", "recurrent_states"):
            if states := getattr(layers[0], name, None):
                found = {index: [getattr(layer, name)[index] for layer in layers] for index in states}
                setattr(joined, name, {i: None if part[0] is None else torch.cat(part) for i, part in found.items()})
    return joined


def _left_padded(states: Any, length: int) -> Any:
    return torch.nn.functional.pad(states, (0, 0, length - states.shape[2], 0))
