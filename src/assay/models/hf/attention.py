"""Attention over a tree, as an attention implementation that transformers models call.

A packed forward pass is one sequence of tokens from many branches. Handing the model a dense mask would be correct and
wasteful: nearly all of the (tokens × tokens) area is masked. Here each token's attention is computed in the parts that
it can see, and the parts are joined through their log-sum-exp, which is exact:

    shared path    all tokens of the pack × the keys cached for it, no mask, read once
    own group      the tokens of one subtree × their keys and those above them, groups side by side in padded batches

The plan of the running pass is a context variable, because not every model hands extra arguments down to its attention.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicLayer

from assay.models.hf import flex
from assay.models.hf.budget import SCORES_BYTES

NAME = "assay_tree"
MASKED = -1e30
"""Added to a masked score. Finite, so that a row that sees nothing in one part weighs nothing instead of NaN."""

_UNKNOWN = torch.iinfo(torch.int64).min


class UnsupportedAttention(Exception):
    """The model wants something of its attention that the tree does not give; it is scored plainly."""


class AttentionPlan(Protocol):
    """Who sees whom in the running forward pass."""

    def attend(self, layer: int, attention: Attention, query: Any, key: Any, value: Any) -> Any:
        """Queries, keys and values `[1, heads, tokens, size]` of the pass to the output `[1, tokens, heads, size]`."""


_running: ContextVar[tuple[AttentionPlan, set[int]] | None] = ContextVar("assay_tree_plan", default=None)
"""The plan, and the layers that have attended by it."""


class _TokensBefore:
    """Added to the places of a pass, its positions: llama4's layers count them so, and do not read `position_ids`."""

    def __init__(self, positions: Any) -> None:
        self._positions = positions

    def __radd__(self, places: Any) -> Any:
        return torch.as_tensor(self._positions, device=places.device)


class PassThroughCache(Cache):  # type: ignore[misc]
    """Hands keys and values on to the attention function, which caches what has to be cached."""

    def __init__(self, positions: Any) -> None:
        super().__init__(layer_class_to_replicate=DynamicLayer)
        self._positions = positions

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
        return key_states, value_states

    def get_seq_length(self, layer_idx: int | None = None) -> Any:
        """A model that asks makes positions, which it is given. A layer that asks wants to know where its tokens stand."""
        return 0 if layer_idx is None else _TokensBefore(self._positions)

    def get_query_offset(self, layer_idx: int = 0) -> int:
        """Called where masks are made, which are ours."""
        return 0


@dataclass(frozen=True, slots=True)
class Attention:
    """How one layer attends: scale, soft cap, sliding window, attention chunk, sinks."""

    scale: float
    softcap: float | None
    window: int | None
    chunk: int | None
    sinks: Any

    def part(self, query: Any, key: Any, value: Any, mask: Any = None) -> tuple[Any, Any]:
        """Attention over some of the keys: the output and its log-sum-exp, to be joined with other parts.

        `mask` is additive, `[batch, 1, tokens, keys]`.
        """
        batch, heads, tokens, size = query.shape
        group = heads // key.shape[1]
        folded = query.reshape(batch, key.shape[1], group * tokens, size)
        if mask is not None:
            mask = fold_mask(mask.expand(-1, -1, tokens, key.shape[2]), group)
        # The kernel is slow for a single token a row, which is what decoding asks.
        attend = self.folded_part if tokens > 1 else self._explicit
        output, lse = attend(folded, key, value, mask)
        return output.reshape(batch, heads, tokens, -1), lse.reshape(batch, heads, tokens)

    def folded_part(self, query: Any, key: Any, value: Any, mask: Any = None) -> tuple[Any, Any]:
        """The same with queries `[batch, kv_heads, group × tokens, size]`.

        The heads that share keys (grouped-query attention) are folded into the token axis, so keys are never repeated.
        """
        if not self._has_kernel(query, key, value):
            if flex.suits(query, key):
                return flex.attend(in_full(query), in_full(key), in_full(value), mask, self.scale, self.softcap)
            return self._explicit(query, key, value, mask)
        query, key, value = (in_full(part) for part in (query, key, value))
        if mask is not None:
            mask = mask.to(query.dtype)
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, attn_mask=mask, scale=self.scale
        )
        return output, lse

    def chain(self, query: Any, key: Any, value: Any) -> tuple[Any, Any]:
        """Plain causal attention among the tokens of the pass."""
        tokens = query.shape[2]
        if not self._has_kernel(query, key, value):
            ahead = torch.full((tokens, tokens), MASKED, device=query.device, dtype=torch.float32).triu(1)
            return self.part(query, key, value, ahead.view(1, 1, tokens, tokens))
        group = query.shape[1] // key.shape[1]
        query, key, value = in_full(query), _repeat(in_full(key), group), _repeat(in_full(value), group)
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, is_causal=True, scale=self.scale
        )
        return output, lse

    def _has_kernel(self, query: Any, key: Any, value: Any) -> bool:
        return query.device.type == "cpu" and self.softcap is None and key.shape[-1] == value.shape[-1]

    def _explicit(self, query: Any, key: Any, value: Any, mask: Any) -> tuple[Any, Any]:
        """Some queries at a time: all scores of a long path would be the largest tensor of the pass by far."""
        query, key, value = (in_full(part) for part in (query, key, value))
        at_once = max(1, SCORES_BYTES // max(1, query.element_size() * query.shape[0] * query.shape[1] * key.shape[2]))
        if query.shape[2] <= at_once:
            return self._scored(query, key, value, mask)
        found = [
            self._scored(
                query[:, :, start : start + at_once],
                key,
                value,
                mask if mask is None or mask.shape[2] == 1 else mask[:, :, start : start + at_once],
            )
            for start in range(0, query.shape[2], at_once)
        ]
        outputs, sums = zip(*found)
        return torch.cat(outputs, 2), torch.cat(sums, 2)

    def _scored(self, query: Any, key: Any, value: Any, mask: Any) -> tuple[Any, Any]:
        scores = torch.matmul(query, key.transpose(2, 3)) * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        if mask is not None:
            scores = scores + mask
        highest = scores.amax(dim=-1, keepdim=True)
        weights = torch.exp(scores - highest)
        total = weights.sum(dim=-1, keepdim=True)
        # Dividing after the product touches far fewer numbers than dividing the weights.
        return torch.matmul(weights, value) / total, (highest + total.log()).squeeze(-1)

    def join(self, parts: list[tuple[Any, Any]], heads: tuple[int, ...] = (1, -1, 1)) -> Any:
        """Parts over disjoint keys to attention over all of them. `heads` says where the heads are in a log-sum-exp."""
        output, lse = parts[0]
        for count, (other, other_lse) in enumerate(parts[1:], start=2):
            share = torch.sigmoid(other_lse - lse).unsqueeze(-1)
            output = torch.lerp(output, other, share)
            if count < len(parts) or self.sinks is not None:
                lse = torch.logaddexp(lse, other_lse)
        if self.sinks is not None:
            # A sink is a key whose value is zero: it only takes a share of the softmax.
            output = output * torch.sigmoid(lse - self.sinks.float().view(heads)).unsqueeze(-1)
        return output

    def window_mask(self, query_positions: Any, key_positions: Any) -> Any:
        """What the layer's window hides, as an additive mask `[..., queries, keys]`, or None if it hides nothing."""
        if self.window is None and self.chunk is None:
            return None
        hidden = torch.zeros(1, dtype=torch.bool, device=query_positions.device)
        if self.window is not None:
            hidden = hidden | (query_positions.unsqueeze(-1) - key_positions.unsqueeze(-2) >= self.window)
        if self.chunk is not None:
            query_chunk, key_chunk = query_positions // self.chunk, key_positions // self.chunk
            hidden = hidden | (query_chunk.unsqueeze(-1) != key_chunk.unsqueeze(-2))
        return hidden.float() * MASKED if bool(hidden.any()) else None


def fold_mask(mask: Any, group: int) -> Any:
    """`[batch, 1, tokens, keys]` for queries whose heads are folded into the token axis."""
    if group == 1:
        return mask
    batch, _, tokens, keys = mask.shape
    return mask.unsqueeze(2).expand(-1, -1, group, -1, -1).reshape(batch, 1, group * tokens, keys)


def in_full(states: Any) -> Any:
    """Half precision in float32. Scores, weights and what several parts give are rounded once, when they have been joined.

    Rounded part by part they would be off by several times what the model's own attention, which rounds once, is off.
    """
    return states.float() if states.dtype in (torch.float16, torch.bfloat16) else states


def kept_dtype(states: Any) -> Any:
    """What keys and values are cached in: on a CPU as they are attended over, instead of widening all of them in every pass."""
    return torch.float32 if states.device.type == "cpu" and states.dtype != torch.float64 else states.dtype


def _repeat(states: Any, group: int) -> Any:
    batch, heads, tokens, size = states.shape
    return states.unsqueeze(2).expand(-1, -1, group, -1, -1).reshape(batch, heads * group, tokens, size)


def tree_attention(
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any = None,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Any = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Any, None]:
    """The function that the model calls in place of its own attention."""
    running = _running.get()
    if running is None:
        raise UnsupportedAttention("tree attention was called outside a planned pass")
    for name in ("position_bias", "head_mask", "cache", "indexer_mask"):
        if kwargs.get(name) is not None:
            raise UnsupportedAttention(f"the attention takes {name}")
    layer = getattr(module, "layer_idx", None)
    if layer is None or query.shape[2] != key.shape[2]:
        raise UnsupportedAttention("the attention does not say which layer it is, or reads keys other than its own")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    # Without a mask of ours the model makes none by transformers' rules, and its layers say their window themselves.
    window, chunk = (kwargs.get("sliding_window"), None) if attention_mask is None else _read_mask(attention_mask)
    attention = Attention(scale, softcap, window, chunk, s_aux)
    plan, layers = running
    layers.add(layer)
    return plan.attend(layer, attention, query, key, value).to(query.dtype).contiguous(), None


def describe_mask(*, mask_function: Any, local_size: int | None = None, **_: Any) -> Any:
    """In place of the mask that the model makes for its layers: one number that says which it is.

    0 for all that went before, the size of a sliding window, or a chunk size below zero. What a config says of windows
    need not be what its layers do (a Llama ignores `sliding_window`), so the mask function itself is called, at the places where
    these three differ.
    """
    size = local_size or 64
    places = torch.tensor(sorted({0, 1, size // 2, size - 1, size, size + 1, 2 * size - 1, 2 * size, 2 * size + 1}))
    query, key = places.unsqueeze(1), places.unsqueeze(0)
    causal = key <= query
    known = {0: causal, size: causal & (key > query - size), -size: causal & (key // size == query // size)}
    try:
        seen = torch.as_tensor(mask_function(0, 0, query, key)).cpu()
    except IndexError:  # it looks up what kinds of tokens this pass has
        seen = torch.zeros(0)
    for number, mask in known.items():
        if torch.equal(seen, mask):
            return torch.full((1, 1, 1, 1), number)
    # No reason to refuse yet: models also make masks that none of their layers reads.
    return torch.full((1, 1, 1, 1), _UNKNOWN)


def _read_mask(mask: Any) -> tuple[int | None, int | None]:
    """Sliding window and chunk size that `describe_mask` wrote."""
    if mask.dtype != torch.int64 or mask.numel() != 1:
        raise UnsupportedAttention("it changes its attention mask before it is used")
    number = int(mask.item())
    if number == _UNKNOWN:
        raise UnsupportedAttention("its mask is neither causal nor a sliding window nor chunks")
    return (number if number > 0 else None), (-number if number < 0 else None)


def attention_configs(model: Any) -> list[Any]:
    """The config objects in which the parts of a model look up how to attend."""
    return list({id(part.config): part.config for part in model.modules() if hasattr(part, "config")}.values())


def innermost(model: Any) -> Any:
    """The model below wrappers such as an adapter's, whose `forward` takes anything."""
    base = getattr(model, "get_base_model", None)
    return base() if callable(base) else model


@contextlib.contextmanager
def planned(configs: Sequence[Any], plan: AttentionPlan) -> Iterator[set[int]]:
    """Within this, the model attends by the plan; after it, as it did before. Gives the layers that took part."""
    before = [config._attn_implementation for config in configs]
    layers: set[int] = set()
    token = _running.set((plan, layers))
    try:
        for config in configs:
            config._attn_implementation_internal = NAME
        yield layers
    finally:
        for config, implementation in zip(configs, before):
            config._attn_implementation_internal = implementation
        _running.reset(token)


def last_mlp(model: Any, layers: int) -> Any:
    """The `mlp` of the last layer, or None where the model calls it something else."""
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == layers]
    return getattr(stacks[0][-1], "mlp", None) if len(stacks) == 1 else None


@contextlib.contextmanager
def only_at(mlp: Any, places: Any) -> Iterator[None]:
    """Within this, `mlp` computes the tokens at `places` of `[1, tokens, size]` and gives zeros for the others.

    After the attention of the last layer no token looks at another one, and logits are wanted at a few places. The other
    tokens are done once their keys and values are.
    """
    shapes: list[Any] = []

    def pick(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        shapes[:] = [args[0].shape]
        return args[0][:, places.to(args[0].device)], *args[1:]

    def spread(_module: Any, _args: Any, output: Any) -> Any:
        found, *rest = (
            output if isinstance(output, tuple) else (output,)
        )  # mixtures of experts may also say their routes
        whole = found.new_zeros(shapes[0])
        whole[:, places.to(found.device)] = found
        return (whole, *rest) if rest else whole

    hooks = [mlp.register_forward_pre_hook(pick), mlp.register_forward_hook(spread)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


AttentionInterface.register(NAME, tree_attention)
AttentionMaskInterface.register(NAME, describe_mask)
