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
    """A prefix that rows span. Compared by identity: two equal prefixes are never kept."""

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
            keys[slot, :, start:stop] = key[0][:, places]
            values[slot, :, start:stop] = value[0][:, places]

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

    def __init__(self, slots: Slots, spans: Sequence[RowSpan], device: Any) -> None:
        self.slots = slots
        self._count, self._width = len(spans), max(span.tokens for span in spans)
        self._longest = max(span.length + span.tokens for span in spans)
        counts = np.array([span.tokens for span in spans])
        rows = np.repeat(np.arange(self._count), counts)
        firsts = np.cumsum(counts) - counts
        offsets = np.arange(len(rows)) - firsts[rows]
        side_by_side = firsts[:, None] + np.minimum(np.arange(self._width), counts[:, None] - 1)
        depths = np.array([span.base.length if span.base else 0 for span in spans])
        places = np.array([span.length for span in spans])[rows] + offsets

        self._rows, self._places = (torch.from_numpy(part).to(device) for part in (rows, places))
        self.positions = torch.from_numpy(depths[rows] + places).to(device)
        self._side_by_side = torch.from_numpy(side_by_side.reshape(-1)).to(device)
        self._in_line = torch.from_numpy(rows * self._width + offsets).to(device)
        own = torch.arange(self._longest, device=device)
        self._own_positions = torch.from_numpy(depths).to(device).unsqueeze(1) + own
        self._beyond = (own > self._pad(self._places).unsqueeze(-1)).float() * MASKED
        self._groups = _group([spans[row].base for row in rows.tolist()], device)
        self._masks: dict[tuple[int | None, int | None], tuple[Any, list[Any]]] = {}

    def attend(self, layer: int, attention: Attention, query: Any, key: Any, value: Any) -> Any:
        keys, values = self.slots.layers[layer]
        keys[self._rows, :, self._places] = key[0].transpose(0, 1).to(keys.dtype)
        values[self._rows, :, self._places] = value[0].transpose(0, 1).to(values.dtype)
        own_mask, base_masks = self._window_masks(attention)
        output, lse = attention.part(
            self._pad(query[0].transpose(0, 1)).transpose(1, 2),
            keys[: self._count, :, : self._longest],
            values[: self._count, :, : self._longest],
            own_mask,
        )
        parts = [(self._unpad(output), self._unpad(lse))]
        if self._groups:
            parts.append(self._over_bases(layer, attention, query, parts[0], base_masks))
        return attention.join(parts).transpose(1, 2)

    def _pad(self, in_line: Any) -> Any:
        """`[tokens, …]` to `[rows, width, …]`."""
        if self._width == 1:
            return in_line.unsqueeze(1)
        return in_line.index_select(0, self._side_by_side).view(self._count, self._width, *in_line.shape[1:])

    def _unpad(self, padded: Any) -> Any:
        """`[rows, heads, width, …]` to `[1, heads, tokens, …]`."""
        in_line = padded.transpose(1, 2).flatten(0, 1)
        if self._width > 1:
            in_line = in_line.index_select(0, self._in_line)
        return in_line.transpose(0, 1).unsqueeze(0)

    def _over_bases(
        self, layer: int, attention: Attention, query: Any, like: tuple[Any, Any], masks: list[Any]
    ) -> tuple[Any, Any]:
        if len(self._groups) == 1 and self._groups[0][1] is None:
            return attention.part(query, *self._groups[0][0].states[layer], masks[0])
        output, lse = torch.zeros_like(like[0]), torch.full_like(like[1], MASKED)
        for (base, tokens), mask in zip(self._groups, masks):
            picked = query if tokens is None else query[:, :, tokens]
            output[:, :, tokens], lse[:, :, tokens] = attention.part(picked, *base.states[layer], mask)
        return output, lse

    def _window_masks(self, attention: Attention) -> tuple[Any, list[Any]]:
        kind = (attention.window, attention.chunk)
        if kind not in self._masks:
            own = attention.window_mask(self._pad(self.positions), self._own_positions)
            masks = []
            for base, tokens in self._groups:
                positions = self.positions if tokens is None else self.positions[tokens]
                mask = attention.window_mask(positions, torch.arange(base.length, device=positions.device))
                masks.append(None if mask is None else mask.view(1, 1, *mask.shape))
            self._masks[kind] = ((self._beyond if own is None else self._beyond + own).unsqueeze(1), masks)
        return self._masks[kind]


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
