"""Linear layers on a CPU, while text is generated.

Generation sends a handful of tokens through the model at a time, and there the matrix product that torch calls by default
reads weights at a third of the speed of memory. oneDNN's, on weights laid out for it, is two to four times as fast. The
copy costs the memory of the weights once more, so it is made where there is plenty.

Scores keep to the usual product: its rounding is in the numbers of lm-evaluation-harness, and a difference of 1e-6 a token
adds up over a long continuation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import torch
from torch.nn.functional import linear

from assay.models.hf.budget import free_memory

_FEW = 64
"""Rows up to which the packed product is faster."""
_SHARE_OF_MEMORY = 0.25
_generating: ContextVar[bool] = ContextVar("assay_generating", default=False)


@contextlib.contextmanager
def generating() -> Iterator[None]:
    """Within this, passes over a few rows go the faster way."""
    token = _generating.set(True)
    try:
        yield
    finally:
        _generating.reset(token)


class PackedLinear:
    """The forward of one layer."""

    def __init__(self, layer: torch.nn.Linear) -> None:
        self.layer = layer
        self.packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight, _FEW)

    def __call__(self, states: Any) -> Any:
        layer = self.layer
        rows = states.numel() // layer.in_features
        if not _generating.get() or not 0 < rows <= _FEW or torch.is_grad_enabled():
            return linear(states, layer.weight, layer.bias)
        flat = states.reshape(rows, layer.in_features)
        output = torch.ops.mkldnn._linear_pointwise(flat, self.packed, layer.bias, "none", [], "")
        return output.view(*states.shape[:-1], layer.out_features)


def pack_linear_layers(model: Any) -> int:
    """Give the model's linear layers the faster forward where it can be had; returns how many got it."""
    layers = [part for part in model.modules() if type(part) is torch.nn.Linear and _can_pack(part)]
    size = sum(layer.weight.numel() * layer.weight.element_size() for layer in layers)
    if not layers or size > _SHARE_OF_MEMORY * free_memory(model.device):
        return 0
    with torch.inference_mode():
        for layer in layers:
            layer.forward = PackedLinear(layer)
    return len(layers)


def _can_pack(layer: torch.nn.Linear) -> bool:
    return (
        torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and layer.weight.device.type == "cpu"
        and layer.weight.dtype == torch.float32
    )
