"""What has to be equal for two models to give equal answers, found out without reading gigabytes."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from assay.models.identity import weights_digest

_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".h5", ".msgpack")
_SMALL = 64 << 20
_WHOLE = 1 << 20
_BLOCK = 1 << 12
_BLOCKS = 1024


def fingerprint(settings: Mapping[str, Any], files: list[Path], config: Any, tokenizer: Any) -> str:
    """Settings, config, tokenizer, and either the commit of the hub or a sample of each weight file.

    Small files are hashed whole, weight files by size, head, and some of every tensor: a changed byte may slip through; a
    model of which one layer was trained further does not.
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
    """For a model that was handed over as an object: its architecture and its weights."""
    digest = hashlib.sha256(f"{type(model).__name__}{model.config.to_json_string(use_diff=False)}".encode())
    digest.update(weights_digest(model).encode())
    return digest.hexdigest()


def _sample(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    yield str(size).encode()
    with open(path, "rb") as file:
        if size <= (_WHOLE if path.suffix in _WEIGHTS else _SMALL):
            yield file.read()
        elif zipfile.is_zipfile(file):  # what torch.save writes; a checksum of every tensor stands in its table
            with zipfile.ZipFile(file) as archive:
                yield repr([(entry.filename, entry.file_size, entry.CRC) for entry in archive.infolist()]).encode()
        else:
            for start in _tensor_starts(file) or range(0, size, max(_BLOCK, size // _BLOCKS)):
                file.seek(start)
                yield file.read(_BLOCK)


def _tensor_starts(file: BinaryIO) -> list[int]:
    """Three places of every tensor of a safetensors file; none for other formats."""
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > _SMALL:
        return []
    try:
        header = json.loads(file.read(length))
        spans = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, AttributeError, LookupError, TypeError):
        return []
    data = 8 + length
    places = {data + at for a, b in spans for at in (a, max(a, (a + b - _BLOCK) // 2), max(a, b - _BLOCK))}
    return [0, *sorted(places)]
