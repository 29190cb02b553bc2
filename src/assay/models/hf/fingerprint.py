"""What has to be equal for two models to give equal answers, found out without reading gigabytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".h5", ".msgpack")
_SMALL = 64 << 20
_BLOCK = 1 << 16
_BLOCKS = 16


def fingerprint(settings: Mapping[str, Any], files: list[Path], config: Any, tokenizer: Any) -> str:
    """Settings, config, tokenizer, and either the commit of the hub or a sample of each weight file.

    Small files are hashed whole, weight files by size, head (where formats keep the list of tensors), and blocks spread
    over the rest: a changed byte may slip through, a retrained or re-exported model does not.
    """
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True, default=str).encode())
    commit = getattr(config, "_commit_hash", None)
    if commit:
        digest.update(str(commit).encode())
    for path in files:
        digest.update(path.name.encode())
        for block in _sample(path):
            digest.update(block)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    digest.update(backend.to_str().encode() if backend is not None else repr(tokenizer).encode())
    return f"hf:{digest.hexdigest()}"


def weights_in_memory(model: Any) -> str:
    """For a model that was handed over as an object: its architecture and a few values of every parameter."""
    digest = hashlib.sha256(f"{type(model).__name__}{model.config.to_json_string(use_diff=False)}".encode())
    for name, parameter in sorted(model.state_dict().items()):
        flat = parameter.detach().reshape(-1)
        some = flat[:: max(1, flat.numel() // 64)].float().cpu()
        digest.update(f"{name}{tuple(parameter.shape)}{parameter.dtype}".encode())
        digest.update(some.numpy().tobytes())
    return digest.hexdigest()


def _sample(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    yield str(size).encode()
    with open(path, "rb") as file:
        if size <= (_BLOCK * _BLOCKS if path.suffix in _WEIGHTS else _SMALL):
            yield file.read()
            return
        for index in range(_BLOCKS):
            file.seek(index * (size - _BLOCK) // (_BLOCKS - 1))
            yield file.read(_BLOCK)
