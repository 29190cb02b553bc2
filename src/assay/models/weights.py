"""Weights: those inside an object that somebody made, found by looking and told apart by their values; the size of files."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

DEPTH = 3
"""How many attributes deep weights are looked for: a pipeline holds a model that holds them."""


def modules_in(model: object) -> list[Any]:
    """The outermost `torch.nn.Module`s in an object, in the order of its attributes. Torch is not imported for it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    found: list[Any] = []
    seen: set[int] = set()

    def look(value: object, depth: int) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.nn.Module):
            found.append(value)
        elif depth and not isinstance(value, type):
            for inner in getattr(value, "__dict__", {}).values():
                look(inner, depth - 1)

    look(model, DEPTH)
    return found


def weights_digest(module: Any) -> str:
    """Every parameter by name, shape, a few of its values, and two sums that all its values enter."""
    digest = hashlib.sha256(type(module).__qualname__.encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        if not tensor.numel():
            continue
        flat = tensor.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // 64)].float().cpu()
        wide = flat.double()
        digest.update(some.numpy().tobytes())
        digest.update(f"{wide.sum().item()!r} {wide.abs().sum().item()!r}".encode())
    return digest.hexdigest()


def parameters_in_files(files: Iterable[Path]) -> int | None:
    """Parameters by the headers of safetensors and GGUF files; None where there are none of these."""
    sizes = [size for path in files if (size := _parameters_in(path)) is not None]
    return sum(sizes) if sizes else None


def _parameters_in(path: Path) -> int | None:
    if path.suffix == ".safetensors":
        with open(path, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return sum(int(math.prod(entry["shape"])) for name, entry in header.items() if name != "__metadata__")
    if path.suffix == ".gguf":
        from gguf import GGUFReader

        return sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors)
    return None
