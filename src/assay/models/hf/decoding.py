"""Attention of rows that are being generated: their new tokens over a shared prefix and the row's own tokens.

    base      KV cache of a prefix, once, for all rows that continue it
    slots     KV cache of each row beyond its base, side by side, padded to the longest

A row leaves as soon as it has ended and the last row takes its slot, so active rows always fill the first slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from assay.models.hf.attention import MASKED, Attention, kept_dtype
from assay.models.hf.tree import KVCache

_GROWTH = 64
"""Tokens by which slots are made longer at a time."""


@dataclass(frozen=True, eq=False, slots=True)
class Base:
    """A prefix that rows span. Compared by identity: two equal prefixes are never cached."""

    states: KVCache = field(repr=False)
    length: int


class Slots:
    """Keys and values `[slots, heads, tokens, size]` of each layer."""

    def __init__(self) -> None:
        self.layers: KVCache = []

    def reserve(self, like: KVCache, rows: int, tokens: int) -> None:
        """Make room. `like` are keys and values of the same model, for shapes and devices."""
        if self.layers and self.layers[0][0].shape[0] >= rows and self.layers[0][0].shape[2] >= tokens:
            return
        old = self.layers
        if old:
            before_rows = old[0][0].shape[0]
            rows = before_rows if rows <= before_rows else max(rows, before_rows + before_rows // 2)
            tokens = max(tokens + _GROWTH, old[0][0].shape[2])
        self.layers = []
        for index, pair in enumerate(like):
            buffers = []
            for which, states in enumerate(pair):
                buffer = states.new_zeros((rows, states.shape[1], tokens, states.shape[3]), dtype=kept_dtype(states))
                if old:
                    before = old[index][which]
                    buffer[: before.shape[0], :, : before.shape[2]] = before
                buffers.append(buffer)
            self.layers.append((buffers[0], buffers[1]))

    def fill(self, slot: int, start: int, states: KVCache, places: Any) -> None:
        """Copy `places` of a pass into a slot, from token `start` on."""
        stop = start + len(places)
        for (keys, values), (key, value) in zip(self.layers, states, strict=True):
            here = places.to(key.device)
            keys[slot, :, start:stop] = key[0][:, here]
            values[slot, :, start:stop] = value[0][:, here]

    def move(self, source: int, target: int, tokens: int) -> None:
        for keys, values in self.layers:
            keys[target, :, :tokens] = keys[source, :, :tokens]
            values[target, :, :tokens] = values[source, :, :tokens]


@dataclass(frozen=True, slots=True)
class RowSpan:
    """What one row has in a pass: so many new tokens, behind `length` of its slot, after the prefix `base`."""

    base: Base | None
    length: int
    tokens: int


class DecodePlan:
    """Attention of the new tokens of the first rows; writes their keys and values behind the row's own.

    Tokens stand in line, row after row. Over the keys of their rows they attend side by side, `[rows, width]`: a row with
    fewer tokens than the widest repeats its last one, and what comes of that is not looked at.
    """

    def __init__(self, slots: Slots, spans: Sequence[RowSpan]) -> None:
        self.slots = slots
        self._spans = spans
        counts = np.array([span.tokens for span in spans])
        self._rows = np.repeat(np.arange(len(spans)), counts)
        self._firsts = np.cumsum(counts) - counts
        self._offsets = np.arange(len(self._rows)) - self._firsts[self._rows]
        self._depths = np.array([span.base.length if span.base else 0 for span in spans])
        self._places = np.array([span.length for span in spans])[self._rows] + self._offsets
        self.positions = self._depths[self._rows] + self._places
        self._devices: dict[Any, _Lines] = {}

    def attend(self, layer: int, attention: Attention, query: Any, key: Any, value: Any) -> Any:
        lines = self._on(query.device)
        keys, values = self.slots.layers[layer]
        keys[lines.rows, :, lines.places] = key[0].transpose(0, 1).to(keys.dtype)
        values[lines.rows, :, lines.places] = value[0].transpose(0, 1).to(values.dtype)
        own_mask, base_masks = lines.window_masks(attention)
        output, lse = attention.part(
            lines.pad(query[0].transpose(0, 1)).transpose(1, 2),
            keys[: lines.count, :, : lines.longest],
            values[: lines.count, :, : lines.longest],
            own_mask,
        )
        parts = [(lines.unpad(output), lines.unpad(lse))]
        if lines.groups:
            parts.append(lines.over_bases(layer, attention, query, parts[0], base_masks))
        return attention.join(parts).transpose(1, 2)

    def _on(self, device: Any) -> _Lines:
        if device not in self._devices:
            counts = np.array([span.tokens for span in self._spans])
            width, longest = int(counts.max()), max(span.length + span.tokens for span in self._spans)
            side_by_side = self._firsts[:, None] + np.minimum(np.arange(width), counts[:, None] - 1)
            self._devices[device] = _Lines(
                count=len(self._spans),
                width=width,
                longest=longest,
                rows=torch.from_numpy(self._rows).to(device),
                places=torch.from_numpy(self._places).to(device),
                positions=torch.from_numpy(self.positions).to(device),
                side_by_side=torch.from_numpy(side_by_side.reshape(-1)).to(device),
                in_line=torch.from_numpy(self._rows * width + self._offsets).to(device),
                own_positions=torch.from_numpy(self._depths[:, None] + np.arange(longest)).to(device),
                groups=_group([self._spans[row].base for row in self._rows.tolist()], device),
            )
        return self._devices[device]


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where the tokens of a pass stand, in line and side by side, as one device knows it."""

    count: int
    width: int
    longest: int
    rows: Any
    places: Any
    positions: Any
    side_by_side: Any
    in_line: Any
    own_positions: Any
    groups: list[tuple[Base, Any]]
    masks: dict[tuple[int | None, int | None], tuple[Any, list[Any]]] = field(default_factory=dict)

    def pad(self, in_line: Any) -> Any:
        """`[tokens, …]` to `[rows, width, …]`."""
        if self.width == 1:
            return in_line.unsqueeze(1)
        return in_line.index_select(0, self.side_by_side).view(self.count, self.width, *in_line.shape[1:])

    def unpad(self, padded: Any) -> Any:
        """`[rows, heads, width, …]` to `[1, heads, tokens, …]`."""
        in_line = padded.transpose(1, 2).flatten(0, 1)
        if self.width > 1:
            in_line = in_line.index_select(0, self.in_line)
        return in_line.transpose(0, 1).unsqueeze(0)

    def over_bases(
        self, layer: int, attention: Attention, query: Any, like: tuple[Any, Any], masks: list[Any]
    ) -> tuple[Any, Any]:
        if len(self.groups) == 1 and self.groups[0][1] is None:
            return attention.part(query, *self.groups[0][0].states[layer], masks[0])
        output, lse = torch.zeros_like(like[0]), torch.full_like(like[1], MASKED)
        for (base, tokens), mask in zip(self.groups, masks):
            picked = query if tokens is None else query[:, :, tokens]
            output[:, :, tokens], lse[:, :, tokens] = attention.part(picked, *base.states[layer], mask)
        return output, lse

    def window_masks(self, attention: Attention) -> tuple[Any, list[Any]]:
        kind = (attention.window, attention.chunk)
        if kind not in self.masks:
            steps = torch.arange(self.longest, device=self.places.device)
            beyond = (steps > self.pad(self.places).unsqueeze(-1)).float() * MASKED
            own = attention.window_mask(self.pad(self.positions), self.own_positions)
            masks = []
            for base, tokens in self.groups:
                positions = self.positions if tokens is None else self.positions[tokens]
                mask = attention.window_mask(positions, torch.arange(base.length, device=positions.device))
                masks.append(None if mask is None else mask.view(1, 1, *mask.shape))
            self.masks[kind] = ((beyond if own is None else beyond + own).unsqueeze(1), masks)
        return self.masks[kind]


def _group(bases: list[Base | None], device: Any) -> list[tuple[Base, Any]]:
    """Each base with the tokens that continue it; None for the tokens where it is that of all."""
    tokens: dict[int, list[int]] = {}
    known: dict[int, Base] = {}
    for token, base in enumerate(bases):
        if base is not None:
            known[id(base)] = base
            tokens.setdefault(id(base), []).append(token)
    return [
        (known[key], None if len(members) == len(bases) else torch.tensor(members, device=device))
        for key, members in tokens.items()
    ]
