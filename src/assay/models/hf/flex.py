"""Attention on GPUs by `flex_attention`: scores stay on the chip, and masked blocks are not computed.

It gives the log-sum-exp that parts are joined by. Compiled it needs Triton; where that is missing, or cannot compile it, attention is
computed explicitly, some queries at a time.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import torch

logger = logging.getLogger(__name__)

_WORTH = 1 << 24
"""Scores from which it is worth a kernel of its own: 64 MB in float32."""
_SEEN = -1e29
"""An additive mask above this hides nothing."""


def suits(query: Any, key: Any) -> bool:
    scores = query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
    return bool(query.device.type == "cuda" and scores >= _WORTH and _kernel(compiled=True) is not None)


def attend(
    query: Any, key: Any, value: Any, mask: Any, scale: float, softcap: float | None, *, compiled: bool = True
) -> tuple[Any, Any]:
    """Output and log-sum-exp `[batch, heads, tokens]`; `mask` is additive, `[batch, 1, tokens, keys]`, or None.

    A row that sees no key at all weighs nothing: its log-sum-exp is minus infinity, and its output zero.
    """
    from torch.nn.attention.flex_attention import AuxRequest, create_block_mask

    kernel = _kernel(compiled=compiled)
    assert kernel is not None
    blocks = None
    if mask is not None:
        seen = mask > _SEEN
        rows, tokens = seen.shape[0], seen.shape[2]

        def sees(batch: Any, _head: Any, place: Any, other: Any) -> Any:
            return seen[batch % rows, 0, place % tokens, other]

        blocks = create_block_mask(sees, query.shape[0], None, query.shape[2], key.shape[2], device=str(query.device))

    def capped(score: Any, *_: Any) -> Any:
        return torch.tanh(score / softcap) * softcap

    output, found = kernel(
        query,
        key,
        value,
        score_mod=None if softcap is None else capped,
        block_mask=blocks,
        scale=scale,
        return_aux=AuxRequest(lse=True),
    )
    return output, found.lse.clamp(min=-1e30)


@cache
def _kernel(*, compiled: bool) -> Any:
    """None where it cannot be compiled; tried once."""
    try:
        from torch.nn.attention.flex_attention import AuxRequest, flex_attention
        from torch.utils._triton import has_triton
    except ImportError:  # an older torch
        return None
    if not compiled:
        return flex_attention
    if not has_triton():
        return None
    kernel = torch.compile(flex_attention, dynamic=True)
    try:
        some = torch.zeros((1, 1, 128, 16), device="cuda")
        kernel(some, some, some, return_aux=AuxRequest(lse=True))
    except Exception as error:  # compilers raise whatever they stumble over; the explicit way is always there
        logger.warning(
            "flex_attention cannot be compiled here (%s), so attention takes more memory", type(error).__name__
        )
        return None
    return kernel
