"""Running the steps of a prefix-tree schedule: the kept path, and one forward pass per step."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import torch

from assay.models.hf.attention import (
    MASKED,
    Attention,
    PassThroughCache,
    UnsupportedAttention,
    attention_configs,
    planned,
)
from assay.models.prefix_tree import Step

KeysValues = list[tuple[Any, Any]]
"""Keys and values `[1, heads, tokens, size]` of each layer."""


class KeptPath:
    """Keys and values of the path that the next steps hang from, in buffers that grow and are cut in place."""

    def __init__(self) -> None:
        self.length = 0
        self._layers: dict[int, tuple[Any, Any]] = {}

    def cut(self, length: int) -> None:
        self.length = min(self.length, length)

    def layer(self, layer: int) -> tuple[Any, Any]:
        keys, values = self._layers[layer]
        return keys[:, :, : self.length], values[:, :, : self.length]

    def write(self, layer: int, key: Any, value: Any) -> None:
        """Place keys and values behind the path; they join it with `grow`."""
        stop = self.length + key.shape[2]
        buffers = self._layers.get(layer)
        if buffers is None or buffers[0].shape[2] < stop:
            buffers = self._layers[layer] = self._larger(buffers, key, value, stop)
        buffers[0][:, :, self.length : stop] = key
        buffers[1][:, :, self.length : stop] = value

    def grow(self, tokens: int) -> None:
        self.length += tokens

    def copy(self) -> KeysValues:
        """The path as it is now, safe from what comes after."""
        if not self.length:
            return []
        return [tuple(part.clone() for part in self.layer(layer)) for layer in sorted(self._layers)]

    def clear(self) -> None:
        self.length = 0
        self._layers.clear()

    def _larger(self, buffers: tuple[Any, Any] | None, key: Any, value: Any, needed: int) -> tuple[Any, Any]:
        capacity = max(needed, 2 * buffers[0].shape[2] if buffers else 0)
        grown = []
        for index, fresh in enumerate((key, value)):
            buffer = fresh.new_empty((1, fresh.shape[1], capacity, fresh.shape[3]))
            if buffers is not None:
                buffer[:, :, : self.length] = buffers[index][:, :, : self.length]
            grown.append(buffer)
        return grown[0], grown[1]


class StepPlan:
    """Attention of one step: the kept path for all, its own ancestors for each."""

    def __init__(self, step: Step, path: KeptPath, device: Any, *, capture: bool = False) -> None:
        self.step = step
        self.path = path
        self.captured: KeysValues = []
        self._capture = capture
        self._positions = torch.from_numpy(step.positions).to(device)
        self._path_positions = torch.arange(path.length, device=device)
        # A single chain needs no batch of blocks: the causal kernel does it.
        self._is_chain = len(step.blocks) == 2 and step.is_path(0)
        if not self._is_chain:
            self._lay_out(device)
        self._window_masks: dict[tuple[int | None, int | None], tuple[Any, Any]] = {}

    def _lay_out(self, device: Any) -> None:
        """Blocks side by side: `places[b, i]` is the token at row `i` of block `b`, padding points at token 0."""
        borders = self.step.blocks
        sizes = [stop - start for start, stop in itertools.pairwise(borders)]
        longest = max(sizes)
        places = np.zeros((len(sizes), longest), dtype=np.int64)
        hidden = np.ones((len(sizes), longest, longest), dtype=np.bool_)
        rows = np.empty(len(self.step), dtype=np.int64)
        for block, size in enumerate(sizes):
            places[block, :size] = np.arange(borders[block], borders[block + 1])
            hidden[block, :size, :size] = ~self.step.ancestors(block)
            rows[borders[block] : borders[block + 1]] = block * longest + np.arange(size)
        self._blocks, self._longest = len(sizes), longest
        self._places = torch.from_numpy(places.reshape(-1)).to(device)
        self._rows = torch.from_numpy(rows).to(device)
        self._hidden = torch.from_numpy(hidden).unsqueeze(1).to(device).float() * MASKED

    def attend(self, layer: int, attention: Attention, query: Any, key: Any, value: Any) -> Any:
        if self.step.keep:
            self.path.write(layer, key, value)
        if self._capture:
            self.captured.append((key, value))
        path_mask, own_mask = self._masks(attention)
        parts = [self._own(attention, query, key, value, own_mask)]
        if self.path.length:
            path_key, path_value = self.path.layer(layer)
            parts.append(attention.part(query, path_key, path_value, path_mask))
        return attention.join(parts)

    def _own(self, attention: Attention, query: Any, key: Any, value: Any, mask: Any) -> tuple[Any, Any]:
        if self._is_chain:
            return attention.chain(query, key, value, mask)
        output, lse = attention.part(
            self._side_by_side(query), self._side_by_side(key), self._side_by_side(value), mask
        )
        output = output.transpose(1, 2).reshape(self._blocks * self._longest, output.shape[1], -1)
        lse = lse.transpose(1, 2).reshape(self._blocks * self._longest, -1)
        return output[self._rows].transpose(0, 1).unsqueeze(0), lse[self._rows].transpose(0, 1).unsqueeze(0)

    def _side_by_side(self, states: Any) -> Any:
        heads, size = states.shape[1], states.shape[3]
        picked = states[0].transpose(0, 1)[self._places]
        return picked.view(self._blocks, self._longest, heads, size).transpose(1, 2)

    def _masks(self, attention: Attention) -> tuple[Any, Any]:
        """Masks of the path and of the step itself, worked out once for each kind of layer."""
        kind = (attention.window, attention.chunk)
        if kind not in self._window_masks:
            path = attention.window_mask(self._positions, self._path_positions) if self.path.length else None
            if self._is_chain:
                own = attention.window_mask(self._positions, self._positions)
                own = None if own is None else own.view(1, 1, len(self.step), len(self.step))
            else:
                positions = self._positions[self._places].view(self._blocks, self._longest)
                windowed = attention.window_mask(positions, positions)
                own = self._hidden if windowed is None else self._hidden + windowed.unsqueeze(1)
            self._window_masks[kind] = (None if path is None else path.view(1, 1, *path.shape), own)
        return self._window_masks[kind]


class TreeRunner:
    """One forward pass of the model per step, and the path kept between them."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.path = KeptPath()
        self.computed = 0
        """Tokens that went through the model."""
        config = getattr(model.config, "text_config", None) or model.config
        self._layers = int(config.num_hidden_layers)
        self._configs = attention_configs(model)
        self._keeps_logits = "logits_to_keep" in inspect.signature(_innermost(model).forward).parameters

    @property
    def device(self) -> Any:
        return self.model.get_input_embeddings().weight.device

    def run(self, step: Step, scored: Any, *, capture: bool = False) -> tuple[Any, KeysValues]:
        """Logits at the places `scored` (a sorted list) of the step; keys and values of the step if asked for."""
        self.path.cut(step.depth)
        plan = StepPlan(step, self.path, self.device, capture=capture)
        places = torch.as_tensor(np.asarray(scored, dtype=np.int64), device=self.device)
        logits = self.forward(plan, step.tokens, step.positions, places)
        if step.keep:
            self.path.grow(len(step))
        return logits, plan.captured

    def forward(self, plan: Any, tokens: Any, positions: Any, places: Any) -> Any:
        """Logits `[places, vocabulary]` of one planned pass. The model's own head runs, only where it is needed."""
        options = {"logits_to_keep": places} if self._keeps_logits and len(places) else {}
        with torch.inference_mode(), planned(self._configs, plan) as layers:
            output = self.model(
                input_ids=_row(tokens, self.device),
                position_ids=_row(positions, self.device),
                past_key_values=PassThroughCache(),
                use_cache=True,
                **(options or ({"logits_to_keep": 1} if self._keeps_logits else {})),
            )
        if len(layers) != self._layers:
            raise UnsupportedAttention(
                f"{len(layers)} of its {self._layers} layers attend through transformers' interface"
            )
        self.computed += len(tokens)
        return output.logits[0] if options else output.logits[0][places if not self._keeps_logits else slice(0, 0)]


def _row(values: Any, device: Any) -> Any:
    return torch.as_tensor(values, dtype=torch.long, device=device).unsqueeze(0)


def _innermost(model: Any) -> Any:
    """The model below wrappers such as an adapter's, whose `forward` takes anything."""
    base = getattr(model, "get_base_model", None)
    return base() if callable(base) else model
