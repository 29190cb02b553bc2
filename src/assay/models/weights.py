"""What tells one model from another: its code, its arguments, and the weights inside it or in its files."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.config import without_secrets

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


def object_fingerprint(model: object) -> str:
    """A ready object by its class, its plain settings and the weights in it; empty where it holds none."""
    modules = modules_in(model)
    if not modules:
        return ""
    plain = {name: value for name, value in sorted(vars(model).items()) if isinstance(value, str | int | float)}
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode())
    for module in modules:
        digest.update(weights_digest(module).encode())
    return f"{class_fingerprint(type(model), {})}:{digest.hexdigest()}"


def count_parameters(model: object) -> int | None:
    """What an object says of its own size, by method or attribute, else the parameters of the weights in it."""
    own = getattr(model, "num_parameters", None)
    said = own() if callable(own) else own
    if isinstance(said, int | float):
        return int(said)
    sizes = [sum(parameter.numel() for parameter in module.parameters()) for module in modules_in(model)]
    return max(sizes, default=None)


def class_fingerprint(cls: type, model_args: Mapping[str, Any]) -> str:
    """The class, the text of the file that defines it, and its arguments but for secrets.

    An edited model file is a new model: its old answers are not reused. A new key to the same model is not.
    """
    digest = hashlib.sha256(f"{cls.__module__}:{cls.__qualname__}\n".encode())
    try:
        source = inspect.getsourcefile(cls)
    except (TypeError, OSError):  # built in a console or by a notebook: there is no file
        source = None
    if source:
        try:
            with open(source, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
        except OSError:
            digest.update(source.encode())
    digest.update(json.dumps(without_secrets(model_args), sort_keys=True, default=str).encode())
    return f"{cls.__qualname__}:{digest.hexdigest()}"
