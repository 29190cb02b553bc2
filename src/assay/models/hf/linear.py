"""Linear layers on a CPU: oneDNN's matrix product, on weights laid out for it, where it is the better one.

*Generation* sends a handful of tokens through the model at a time. There the product that torch calls by default reads
weights at a third of the speed of memory, and oneDNN's is two to four times as fast.

*Scores* want the rounding of lm-evaluation-harness's numbers too: a difference of 1e-6 a token adds up over a long
continuation. oneDNN is an eighth faster at the sizes of such passes, but adds up a whole row where the usual product adds
up blocks of it. For short rows the two round alike; long rows and the vocabulary projection keep to the usual product.

*Half precision* on a processor without instructions for it is eight times slower than float32: torch widens number by number.
The same product of the same numbers is had from float32 weights, added up in float32 and rounded once at its end.

The copy costs memory, so it is made where there is plenty; without it weights in half precision are widened a slice at a time,
in passes that are large enough to pay for it. Outside of the two modes the layers are what they were.
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
from assay.models.hf.processor import cpuinfo, multiplies_bfloat16

_FEW = 64
"""Rows up to which the packed product is used for every layer while text is generated."""
_SHORT = 1024
"""Inputs of a layer up to which its rounding is good enough for scores: half as much again as the usual one's."""
_SHARE_OF_MEMORY = 0.25
_WIDENED_FROM = 4
"""Rows from which weights in half precision are widened for one product, where there is no wide copy of them."""
_SLICE = 1024
"""Outputs whose weights are widened at a time: they stay in the processor's cache."""


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


class WideLinear:
    """The forward of one layer in half precision, computed in float32."""

    def __init__(self, layer: torch.nn.Linear, *, copy: bool) -> None:
        self.layer = layer
        self.bias = None if layer.bias is None else layer.bias.float()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(layer.weight.float(), _FEW) if copy else None

    def __call__(self, states: Any) -> Any:
        layer = self.layer
        rows = states.numel() // layer.in_features
        usual = _mode.get() is LinearMode.USUAL or torch.is_grad_enabled() or states.dtype != layer.weight.dtype
        if usual or rows < (1 if self.packed is not None else _WIDENED_FROM):
            return linear(states, layer.weight, layer.bias)
        flat = states.reshape(rows, layer.in_features).float()
        if self.packed is not None:
            output = torch.ops.mkldnn._linear_pointwise(flat, self.packed, self.bias, "none", [], "").to(states.dtype)
        else:
            output = states.new_empty((rows, layer.out_features))
            for start in range(0, layer.out_features, _SLICE):
                part = slice(start, start + _SLICE)
                bias = None if self.bias is None else self.bias[part]
                output[:, part] = linear(flat, layer.weight[part].float(), bias)
        return output.view(*states.shape[:-1], layer.out_features)


def pack_linear_layers(model: Any) -> int:
    """Give the model's linear layers the faster forward where it can be had; returns how many got it."""
    layers = [part for part in model.modules() if type(part) is torch.nn.Linear and _can_pack(part)]
    plenty = sum(4 * layer.weight.numel() for layer in layers) <= _SHARE_OF_MEMORY * free_memory(model.device)
    head = model.get_output_embeddings()
    packed = 0
    with torch.inference_mode():
        for layer in layers:
            if layer.weight.dtype != torch.float32:
                layer.forward = WideLinear(layer, copy=plenty)
            elif plenty:
                layer.forward = PackedLinear(layer, is_head=layer is head)
            packed += "forward" in vars(layer)
    return packed


def _can_pack(layer: torch.nn.Linear) -> bool:
    if type(layer.weight) is not torch.nn.Parameter:  # quantised, behind the face of a tensor
        return False
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    dtype = layer.weight.dtype
    return layer.weight.device.type == "cpu" and (dtype == torch.float32 or is_slow(dtype))


def is_slow(dtype: Any) -> bool:
    """Half precision whose product is slower than float32's on this processor.

    oneDNN says that it supports bfloat16 where it has kernels: on an x86 processor with AVX-512 but without fast bfloat16
    instructions they widen the numbers one by one, and are slower than float32.
    """
    if dtype == torch.bfloat16:
        is_x86 = torch.backends.cpu.get_cpu_capability().startswith("AVX")
        fast = torch.ops.mkldnn._is_mkldnn_bf16_supported() and (not is_x86 or multiplies_bfloat16(cpuinfo()))
        return not fast
    return dtype == torch.float16 and not torch.ops.mkldnn._is_mkldnn_fp16_supported()
