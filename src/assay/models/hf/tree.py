"""Running the steps of a prefix-tree schedule: the cached path, and one forward pass per step, in which the groups of a step
stand side by side, so that one kernel call attends for many of them.
"""

from __future__ import annotations

import contextlib
import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from assay.models.hf.attention import (
    MASKED,
    Attention,
    PassThroughCache,
    UnsupportedAttention,
    attention_configs,
    fold_mask,
    innermost,
    kept_dtype,
    last_mlp,
    only_at,
    planned,
)
from assay.models.hf.linear import LinearMode, linear_mode
from assay.models.prefix_tree import Step, TokenGroup

_LIMITS = (32, 128, 512, 1 << 30)
"""Sizes tried for the largest subtree that attends as one group. Small ones pad less, large ones repeat fewer keys."""
_SPREADS = (1.2, 1.5, 2.0)
"""How much larger the largest group of a batch may be than its smallest."""
_PASS_AREA = 4096
"""What another pass over a batch of groups costs, in pairs of tokens."""
KVCache = list[tuple[Any, Any]]
"""Keys and values `[1, heads, tokens, size]` of each layer."""


class PaddedBatch:
    """Groups side by side, padded to the longest; padding points at token 0 and is hidden."""

    def __init__(self, groups: list[TokenGroup], device: Any) -> None:
        self.count = len(groups)
        self.rows, self.keys = max(map(len, groups)), max(group.keys for group in groups)
        # One path alone needs no mask: the causal kernel does it.
        self.is_chain = self.count == 1 and self.rows == self.keys and groups[0].is_path
        self.span = slice(groups[0].first, groups[0].last)
        self.queries = np.zeros((self.count, self.rows), dtype=np.int64)
        keys = np.zeros((self.count, self.keys), dtype=np.int64)
        hidden = np.ones((self.count, self.rows, self.keys), dtype=np.bool_)
        for index, group in enumerate(groups):
            size, above = len(group), len(group.above)
            self.queries[index, :size] = np.arange(group.first, group.last)
            keys[index, : group.keys] = np.concatenate([group.above, self.queries[index, :size]])
            hidden[index, :size, :above] = False
            hidden[index, :size, above : above + size] = ~group.sees()
        self.real = np.arange(self.rows) < np.array([[len(group)] for group in groups])
        self.key_places = torch.from_numpy(keys.reshape(-1)).to(device)
        self.hidden = torch.from_numpy(hidden).unsqueeze(1).to(device).float() * MASKED
        self.device = device

    def mask(self, attention: Attention, positions: Any) -> Any:
        query_positions = positions[torch.from_numpy(self.queries).to(self.device)]
        key_positions = positions[self.key_places].view(self.count, self.keys)
        windowed = attention.window_mask(query_positions, key_positions)
        if windowed is not None:
            return self.hidden + windowed.unsqueeze(1)
        return None if self.is_chain else self.hidden

    def folded_queries(self, kv_heads: int, group: int) -> Any:
        """Where the folded queries stand among the rows (token, head) of the step."""
        head = np.arange(kv_heads * group).reshape(1, kv_heads, group, 1)
        places = self.queries[:, None, None, :] * (kv_heads * group) + head
        return torch.from_numpy(places.reshape(-1)).to(self.device)

    def results(self, kv_heads: int, group: int, causal: bool) -> tuple[Any, Any]:
        """Where output and log-sum-exp of each token, `[tokens, kv_heads, group]`, stand in what `attend` gives."""
        batch, row = (place[:, None, None] for place in np.nonzero(self.real))
        kv, member = np.arange(kv_heads)[None, :, None], np.arange(group)[None, None, :]
        if causal:  # queries were not folded
            head = kv * group + member
            return row * (kv_heads * group) + head, head * self.rows + row
        output = ((batch * group + member) * self.rows + row) * kv_heads + kv
        return output, ((batch * kv_heads + kv) * group + member) * self.rows + row

    def attend(self, attention: Attention, query: Any, key: Any, value: Any, mask: Any, folded: Any) -> tuple[Any, Any]:
        """States `[tokens, heads, size]` to outputs, a row for each token and head, and their log-sum-exps."""
        size = value.shape[2]
        if mask is None:
            queries, keys, values = (part[self.span].transpose(0, 1).unsqueeze(0) for part in (query, key, value))
            output, lse = attention.chain(queries, keys, values)
        else:
            rows = query.reshape(-1, query.shape[2]).index_select(0, folded)
            queries = rows.view(self.count, key.shape[1], -1, query.shape[2])
            keys, values = self._side_by_side(key), self._side_by_side(value)
            output, lse = attention.folded_part(queries, keys, values, mask)
        return output.transpose(1, 2).reshape(-1, size), lse.reshape(-1)

    def _side_by_side(self, states: Any) -> Any:
        picked = states.index_select(0, self.key_places)
        return picked.view(self.count, self.keys, *states.shape[1:]).transpose(1, 2)


def groups_side_by_side(step: Step) -> list[list[TokenGroup]]:
    """The groups of a step, those of like size together, cut where the least is padded."""
    choices = (step.groups(limit) for limit in _LIMITS)
    return min((_by_size(groups, spread) for groups in choices for spread in _SPREADS), key=_area)


def _by_size(groups: list[TokenGroup], spread: float) -> list[list[TokenGroup]]:
    batches: list[list[TokenGroup]] = []
    for group in sorted(groups, key=lambda group: -group.keys):
        if not batches or spread * group.keys < batches[-1][0].keys:
            batches.append([])
        batches[-1].append(group)
    return batches


def _area(batches: list[list[TokenGroup]]) -> int:
    return sum(len(batch) * max(map(len, batch)) * batch[0].keys + _PASS_AREA for batch in batches)


class KeptPath:
    """Keys and values of the path that the next steps hang from, in buffers that grow and are cut in place."""

    def __init__(self) -> None:
        self.length = 0
        self._layers: dict[int, tuple[Any, Any]] = {}

    def cut(self, length: int) -> None:
        self.length = min(self.length, length)

    def layer(self, layer: int, length: int) -> tuple[Any, Any]:
        keys, values = self._layers[layer]
        return keys[:, :, :length], values[:, :, :length]

    def write(self, layer: int, key: Any, value: Any) -> None:
        """Place keys and values behind the path, where they can be read; they join it with `grow`."""
        stop = self.length + key.shape[2]
        buffers = self._layers.get(layer)
        if buffers is None or buffers[0].shape[2] < stop:
            buffers = self._layers[layer] = self._larger(buffers, key, value, stop)
        buffers[0][:, :, self.length : stop] = key
        buffers[1][:, :, self.length : stop] = value

    def grow(self, tokens: int) -> None:
        self.length += tokens

    def become(self, states: KVCache, length: int) -> None:
        """The first tokens of another path."""
        self.length = 0
        with torch.inference_mode():
            for layer, (key, value) in enumerate(states):
                self.write(layer, key[:, :, :length], value[:, :, :length])
        self.length = length

    def copy(self, length: int) -> KVCache:
        """The path down to this depth as it is now, safe from what comes after."""
        if not length:
            return []
        return [tuple(part.clone() for part in self.layer(layer, length)) for layer in sorted(self._layers)]

    def clear(self) -> None:
        self.length = 0
        self._layers.clear()

    def _larger(self, buffers: tuple[Any, Any] | None, key: Any, value: Any, needed: int) -> tuple[Any, Any]:
        capacity = max(needed, 2 * buffers[0].shape[2] if buffers else 0)
        grown = []
        for index, fresh in enumerate((key, value)):
            buffer = fresh.new_empty((1, fresh.shape[1], capacity, fresh.shape[3]), dtype=kept_dtype(fresh))
            if buffers is not None:
                buffer[:, :, : self.length] = buffers[index][:, :, : self.length]
            grown.append(buffer)
        return grown[0], grown[1]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where things stand for one shape of heads and one kind of layer, on its device: masks, queries to fold, results to pick."""

    batches: list[PaddedBatch]
    path_masks: list[Any]
    own_masks: list[Any]
    folded: list[Any]
    outputs: Any
    sums: Any


@dataclass(frozen=True, slots=True)
class _Reach:
    """The tokens of a step that see so much of the path, and of the chain behind it."""

    rows: slice
    length: int


class StepPlan:
    """Attention of one step: the cached path for all, the chain for what lies below it, its own ancestors for each."""

    def __init__(self, step: Step, path: KeptPath, *, capture: bool = False) -> None:
        self.step = step
        self.path = path
        self.captured: KVCache = []
        self._capture = capture
        self._groups = groups_side_by_side(step)
        self._devices: dict[Any, tuple[Any, list[PaddedBatch]]] = {}
        """Positions and batches, for each device that has layers."""
        spans = ((0, step.below, path.length), (step.below, len(step), path.length + step.keep))
        self._reaches = [_Reach(slice(first, last), length) for first, last, length in spans if first < last]
        self._layouts: dict[tuple[Any, ...], _Layout] = {}

    def attend(self, layer: int, attention: Attention, query: Any, key: Any, value: Any) -> Any:
        if self.step.keep:
            self.path.write(layer, key[:, :, : self.step.keep], value[:, :, : self.step.keep])
        if self._capture:
            self.captured.append((key, value))
        kv_heads, group = key.shape[1], query.shape[1] // key.shape[1]
        layout = self._layout(attention, kv_heads, group, query.device)
        own, sums = self._own(attention, layout, query, key, value)
        outputs = []
        for reach, mask in zip(self._reaches, layout.path_masks):
            parts = [(own[reach.rows], sums[reach.rows])]
            if reach.length:
                parts.append(self._over_path(attention, layer, query[:, :, reach.rows], reach.length, mask))
            outputs.append(attention.join(parts, (kv_heads, group)))
        joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        return joined.reshape(1, query.shape[2], query.shape[1], -1)

    def _own(self, attention: Attention, layout: _Layout, query: Any, key: Any, value: Any) -> tuple[Any, Any]:
        """Output `[tokens, kv_heads, group, size]` and log-sum-exp over the step's own tokens."""
        queries, keys, values = (part[0].transpose(0, 1) for part in (query, key, value))
        found = [
            batch.attend(attention, queries, keys, values, mask, folded)
            for batch, mask, folded in zip(layout.batches, layout.own_masks, layout.folded)
        ]
        outputs, sums = (parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*found))
        shape = layout.outputs.shape
        picked = outputs.index_select(0, layout.outputs.view(-1)).view(*shape, -1)
        return picked, sums.index_select(0, layout.sums.view(-1)).view(shape)

    def _over_path(self, attention: Attention, layer: int, query: Any, length: int, mask: Any) -> tuple[Any, Any]:
        """The same over the path. What comes out folded is only looked at in another order, not copied."""
        keys, values = self.path.layer(layer, length)
        kv_heads, tokens = keys.shape[1], query.shape[2]
        group = query.shape[1] // kv_heads
        folded = query.reshape(1, kv_heads, group * tokens, -1)
        output, lse = attention.folded_part(folded, keys, values, mask)
        output = output.view(kv_heads, group, tokens, -1).permute(2, 0, 1, 3)
        return output, lse.view(kv_heads, group, tokens).permute(2, 0, 1)

    def _layout(self, attention: Attention, kv_heads: int, group: int, device: Any) -> _Layout:
        kind = (attention.window, attention.chunk, kv_heads, group, device)
        if kind not in self._layouts:
            positions, batches = self._on(device)
            masks = [batch.mask(attention, positions) for batch in batches]
            folded = [batch.folded_queries(kv_heads, group) for batch in batches]
            outputs = np.empty((len(self.step), kv_heads, group), dtype=np.int64)
            sums = np.empty_like(outputs)
            before = 0
            for batch, mask in zip(batches, masks):
                output, lse = batch.results(kv_heads, group, causal=mask is None)
                outputs[batch.queries[batch.real]], sums[batch.queries[batch.real]] = before + output, before + lse
                before += batch.count * batch.rows * kv_heads * group
            self._layouts[kind] = _Layout(
                batches,
                [self._path_mask(attention, reach, group, positions) for reach in self._reaches],
                [None if mask is None else fold_mask(mask, group) for mask in masks],
                folded,
                torch.from_numpy(outputs).to(device),
                torch.from_numpy(sums).to(device),
            )
        return self._layouts[kind]

    def _on(self, device: Any) -> tuple[Any, list[PaddedBatch]]:
        if device not in self._devices:
            positions = torch.from_numpy(self.step.positions).to(device)
            self._devices[device] = positions, [PaddedBatch(groups, device) for groups in self._groups]
        return self._devices[device]

    def _path_mask(self, attention: Attention, reach: _Reach, group: int, positions: Any) -> Any:
        before = torch.arange(reach.length, device=positions.device)
        mask = attention.window_mask(positions[reach.rows], before) if reach.length else None
        return None if mask is None else fold_mask(mask.view(1, 1, *mask.shape), group)


class TreeRunner:
    """One forward pass of the model per step, and the path cached between them."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.path = KeptPath()
        self.computed = 0
        """Tokens that went through the model."""
        config = getattr(model.config, "text_config", None) or model.config
        self._layers = int(config.num_hidden_layers)
        self._configs = attention_configs(model)
        self._one_device = len({part.device for part in model.parameters()}) == 1
        self._last_mlp = last_mlp(model, self._layers)
        self._keeps_logits = "logits_to_keep" in inspect.signature(innermost(model).forward).parameters

    @property
    def device(self) -> Any:
        return self.model.get_input_embeddings().weight.device

    def run(self, step: Step, scored: Any, *, capture: bool = False) -> tuple[Any, KVCache]:
        """Logits at the places `scored` (a sorted list) of the step; keys and values of the step if requested."""
        self.path.cut(step.depth)
        plan = StepPlan(step, self.path, capture=capture)
        places = torch.as_tensor(np.asarray(scored, dtype=np.int64), device=self.device)
        with linear_mode(LinearMode.SCORING):
            logits = self.forward(plan, step.tokens, step.positions, places)
        if step.keep:
            self.path.grow(step.keep)
        return logits, plan.captured

    def forward(self, plan: Any, tokens: Any, positions: Any, places: Any) -> Any:
        """Logits `[places, vocabulary]` of one planned pass. The model's own head runs, only where it is needed."""
        few = self._keeps_logits and self._last_mlp is not None and 0 < len(places) < len(tokens)
        thrift = only_at(self._last_mlp, places) if few else contextlib.nullcontext()
        # Some head has to run: where no place is scored, that of one token.
        # A list stays what it is on its way through the hooks of a model on several devices; its logits are on the last of them.
        scored_places = places if self._one_device else places.tolist()
        keep = {"logits_to_keep": scored_places if len(places) else 1} if self._keeps_logits else {}
        with torch.inference_mode(), planned(self._configs, plan) as layers, thrift:
            output = self.model(
                input_ids=_row(tokens, self.device),
                position_ids=_row(positions, self.device),
                past_key_values=PassThroughCache(positions),
                use_cache=True,
                **keep,
            )
        if len(layers) != self._layers:
            raise UnsupportedAttention(
                f"{len(layers)} of its {self._layers} layers attend through transformers' interface"
            )
        self.computed += len(tokens)
        logits = output.logits[0]
        return logits[: len(places)] if self._keeps_logits else logits[places.to(logits.device)]


def _row(values: Any, device: Any) -> Any:
    return torch.as_tensor(values, dtype=torch.long, device=device).unsqueeze(0)
