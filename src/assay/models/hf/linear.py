"""Linear layers on a CPU: oneDNN's matrix product, on weights laid out for it, where it is the better one.

*Generation* sends a handful of tokens through the model at a time. There the product that torch calls by default reads
weights at a third of the speed of memory, and oneDNN's is two to four times as fast.

*Scores* want the rounding of lm-evaluation-harness's numbers too: a difference of 1e-6 a token adds up over a long
continuation. oneDNN is an eighth faster at the sizes of such passes, but adds up a whole row where the usual product adds
up blocks of it. For short rows the two round alike; long rows and the vocabulary projection keep to the usual product.

The copy costs the memory of the weights once more, so it is made where there is plenty. Outside of the two modes the
layers are what they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from enum import Enum
from typing import Any

import torch
from torch.nn.functional import linear

from assay.models.hf.budget import free_memory

_FEW = 64
"""Rows up to which the packed product is used for every layer while text is generated."""
_SHORT = 1024
"""Inputs of a layer up to which its rounding is good enough for scores: half as much again as the usual one's."""
_SHARE_OF_MEMORY = 0.25


class LinearMode(Enum):
    """What the running pass is for."""

    USUAL = "usual"
    SCORING = "scoring"
    GENERATING = "generating"


_mode: ContextVar[LinearMode] = ContextVar("assay_linear_mode", default=LinearMode.USUAL)


@contextlib.contextmanager
def linear_mode(mode: LinearMode) -> Iterator[None]:
    """Within this, packed layers compute for that purpose."""
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


class PackedLinear:
    """The forward of one layer."""

    def __init__(self, layer: torch.nn.Linear, *, is_head: bool) -> None:
        self.layer = layer
        self.packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight, _FEW)
        self.rounds_well = layer.in_features <= _SHORT and not is_head

    def __call__(self, states: Any) -> Any:
        layer = self.layer
        rows = states.numel() // layer.in_features
        if not self._is_better(rows):
            return linear(states, layer.weight, layer.bias)
        flat = states.reshape(rows, layer.in_features)
        output = torch.ops.mkldnn._linear_pointwise(flat, self.packed, layer.bias, "none", [], "")
        return output.view(*states.shape[:-1], layer.out_features)

    def _is_better(self, rows: int) -> bool:
        mode = _mode.get()
        if mode is LinearMode.USUAL or rows == 0 or torch.is_grad_enabled():
            return False
        return self.rounds_well or (mode is LinearMode.GENERATING and rows <= _FEW)


def pack_linear_layers(model: Any) -> int:
    """Give the model's linear layers the faster forward where it can be had; returns how many got it."""
    layers = [part for part in model.modules() if type(part) is torch.nn.Linear and _can_pack(part)]
    size = sum(layer.weight.numel() * layer.weight.element_size() for layer in layers)
    if not layers or size > _SHARE_OF_MEMORY * free_memory(model.device):
        return 0
    head = model.get_output_embeddings()
    with torch.inference_mode():
        for layer in layers:
            layer.forward = PackedLinear(layer, is_head=layer is head)
    return len(layers)


def _can_pack(layer: torch.nn.Linear) -> bool:
    return (
        torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and layer.weight.device.type == "cpu"
        and layer.weight.dtype == torch.float32
    )
