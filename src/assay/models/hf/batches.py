"""The groups of a step side by side, so that one kernel call attends for many of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from assay.models.hf.attention import MASKED, Attention
from assay.models.prefix_tree import Step, TokenGroup

_LIMITS = (32, 128, 512, 1 << 30)
"""Sizes tried for the largest subtree that attends as one group. Small ones pad less, large ones repeat fewer keys."""
_SPREADS = (1.2, 1.5, 2.0)
"""How much larger the largest group of a batch may be than its smallest."""
_PASS_AREA = 4096
"""What another pass over a batch of groups costs, in pairs of tokens."""


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
