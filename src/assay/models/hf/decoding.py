"""Attention of rows that are being generated: one token each, over a shared prefix and the row's own tokens.

    base      keys and values of a prefix, once, for all rows that continue it
    slots     what each row has beyond its base, side by side, padded to the longest

A row leaves as soon as it has ended and the last row takes its slot, so active rows always fill the first slots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from assay.models.hf.attention import MASKED, Attention
from assay.models.hf.tree import KeysValues

_GROWTH = 64
"""Tokens by which slots are made longer at a time."""


@dataclass(frozen=True, eq=False, slots=True)
class Base:
    """A prefix that rows share. Compared by identity: two equal prefixes are never kept."""

    states: KeysValues = field(repr=False)
    length: int


class Slots:
    """Keys and values `[slots, heads, tokens, size]` of each layer."""

    def __init__(self) -> None:
        self.layers: KeysValues = []

    def reserve(self, like: KeysValues, rows: int, tokens: int) -> None:
        """Make room. `like` are keys and values of the same model, for shapes and devices."""
        if self.layers and self.layers[0][0].shape[0] >= rows and self.layers[0][0].shape[2] >= tokens:
            return
        old = self.layers
        if old:
            rows = max(rows, old[0][0].shape[0])
            tokens = max(tokens + _GROWTH, old[0][0].shape[2])
        self.layers = []
        for index, pair in enumerate(like):
            buffers = []
            for which, states in enumerate(pair):
                buffer = states.new_zeros((rows, states.shape[1], tokens, states.shape[3]))
                if old:
                    before = old[index][which]
                    buffer[: before.shape[0], :, : before.shape[2]] = before
                buffers.append(buffer)
            self.layers.append((buffers[0], buffers[1]))

    def fill(self, slot: int, start: int, states: KeysValues, places: Any) -> None:
        """Copy `places` of a pass into a slot, from token `start` on."""
        stop = start + len(places)
        for (keys, values), (key, value) in zip(self.layers, states, strict=True):
            keys[slot, :, start:stop] = key[0][:, places]
            values[slot, :, start:stop] = value[0][:, places]

    def move(self, source: int, target: int, tokens: int) -> None:
        for keys, values in self.layers:
            keys[target, :, :tokens] = keys[source, :, :tokens]
            values[target, :, :tokens] = values[source, :, :tokens]


class DecodePlan:
    """Attention of one token for each of the first rows; writes its keys and values behind the row's own."""

    def __init__(self, slots: Slots, bases: list[Base | None], lengths: list[int], device: Any) -> None:
        self.slots = slots
        self._rows = torch.arange(len(lengths), device=device)
        self._lengths = torch.tensor(lengths, device=device)
        self._longest = max(lengths) + 1
        offsets = torch.tensor([base.length if base else 0 for base in bases], device=device)
        self._positions = offsets + self._lengths
        own = torch.arange(self._longest, device=device)
        self._own_positions = offsets.unsqueeze(1) + own
        self._beyond = (own > self._lengths.unsqueeze(1)).float() * MASKED
        self._groups = _group(bases, device)
        self._masks: dict[tuple[int | None, int | None], tuple[Any, list[Any]]] = {}

    @property
    def positions(self) -> Any:
        return self._positions

    def attend(self, layer: int, attention: Attention, query: Any, key: Any, value: Any) -> Any:
        keys, values = self.slots.layers[layer]
        keys[self._rows, :, self._lengths] = key[0].transpose(0, 1)
        values[self._rows, :, self._lengths] = value[0].transpose(0, 1)
        count, longest = len(self._rows), self._longest
        own_mask, base_masks = self._window_masks(attention)
        output, lse = attention.part(
            query[0].transpose(0, 1).unsqueeze(2), keys[:count, :, :longest], values[:count, :, :longest], own_mask
        )
        parts = [(output.squeeze(2).transpose(0, 1).unsqueeze(0), lse.squeeze(2).transpose(0, 1).unsqueeze(0))]
        if self._groups:
            parts.append(self._over_bases(layer, attention, query, parts[0], base_masks))
        return attention.join(parts).transpose(1, 2)

    def _over_bases(
        self, layer: int, attention: Attention, query: Any, like: tuple[Any, Any], masks: list[Any]
    ) -> tuple[Any, Any]:
        if len(self._groups) == 1 and self._groups[0][1] is None:
            return attention.part(query, *self._groups[0][0].states[layer], masks[0])
        output, lse = torch.zeros_like(like[0]), torch.full_like(like[1], MASKED)
        for (base, rows), mask in zip(self._groups, masks):
            picked = query if rows is None else query[:, :, rows]
            output[:, :, rows], lse[:, :, rows] = attention.part(picked, *base.states[layer], mask)
        return output, lse

    def _window_masks(self, attention: Attention) -> tuple[Any, list[Any]]:
        kind = (attention.window, attention.chunk)
        if kind not in self._masks:
            own = attention.window_mask(self._positions.unsqueeze(1), self._own_positions)
            beyond = self._beyond.view(len(self._rows), 1, 1, self._longest)
            masks = []
            for base, rows in self._groups:
                positions = self._positions if rows is None else self._positions[rows]
                mask = attention.window_mask(positions, torch.arange(base.length, device=positions.device))
                masks.append(None if mask is None else mask.view(1, 1, *mask.shape))
            self._masks[kind] = (beyond if own is None else beyond + own.unsqueeze(1), masks)
        return self._masks[kind]


def _group(bases: list[Base | None], device: Any) -> list[tuple[Base, Any]]:
    """Each base with its rows; None for the rows where it is that of all."""
    rows: dict[int, list[int]] = {}
    known: dict[int, Base] = {}
    for row, base in enumerate(bases):
        if base is not None:
            known[id(base)] = base
            rows.setdefault(id(base), []).append(row)
    return [
        (known[key], None if len(members) == len(bases) else torch.tensor(members, device=device))
        for key, members in rows.items()
    ]
