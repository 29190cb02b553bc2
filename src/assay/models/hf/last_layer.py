"""The feed-forward part of the last layer, only where somebody reads what comes out.

After the attention of the last layer no token looks at another one, and logits are wanted at a few places. The other
tokens are done once their keys and values are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn


def last_mlp(model: Any, layers: int) -> Any:
    """The `mlp` of the last layer, or None where the model calls it something else."""
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == layers]
    return getattr(stacks[0][-1], "mlp", None) if len(stacks) == 1 else None


@contextlib.contextmanager
def only_at(mlp: Any, places: Any) -> Iterator[None]:
    """Within this, `mlp` computes the tokens at `places` of `[1, tokens, size]` and gives zeros for the others."""
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
