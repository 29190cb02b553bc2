"""The files of a model: what tells one model's from another's without reading gigabytes, and what they show to be wrong
before any of them is loaded: seconds, and a traceback, earlier.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from assay.errors import ModelFileError, did_you_mean
from assay.models.identity import weights_digest

_WEIGHT_SUFFIXES = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".h5", ".msgpack")
_SMALL = 64 << 20
_WHOLE = 1 << 20
_BLOCK = 1 << 12
_BLOCKS = 1024
COMPLETE = "Is the download complete? Compare file sizes with the source, or download the model again."
_WEIGHT_PATTERNS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
_GGUF_HEADER = 24
"""Bytes before the first entry: the magic word, a version, and two counts."""


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
        if size <= (_WHOLE if path.suffix in _WEIGHT_SUFFIXES else _SMALL):
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


def check_config(path: Path) -> None:
    config = _read_json(path)
    if not config.get("model_type") and not config.get("auto_map"):
        raise ModelFileError(
            f"{path}:1: it names no model_type",
            hint="It is not the config of a transformers model; download the model again.",
        )


def check_weights(directory: Path) -> None:
    """There are weights, every file that the index names among them, and none is shorter than its header says."""
    if not any(next(directory.glob(pattern), None) for pattern in _WEIGHT_PATTERNS):
        raise ModelFileError(f"the model directory {directory} has no weights", hint=COMPLETE)
    for index in directory.glob("*.safetensors.index.json"):
        named = _read_json(index).get("weight_map", {})
        missing = sorted({str(name) for name in named.values()} - {path.name for path in directory.iterdir()})
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise ModelFileError(f"{index} names {missing[0]}{more}, which does not exist", hint=COMPLETE)
    for path in sorted(directory.glob("*.safetensors")):
        _check_safetensors(path)


def check_gguf(directory: Path, name: str) -> None:
    path = directory / name
    if not path.is_file():
        names = [each.name for each in directory.glob("*.gguf")]
        raise ModelFileError(
            f"there is no file {name} in {directory}",
            hint=did_you_mean(name, names) or f"GGUF files there: {', '.join(names) or 'none'}.",
        )
    with open(path, "rb") as file:
        header = file.read(_GGUF_HEADER)
    if header[:4] != b"GGUF":
        raise ModelFileError(f"{path} is not a GGUF file: it begins with {header[:4]!r}", hint=COMPLETE)
    if len(header) < _GGUF_HEADER:
        raise ModelFileError(f"{path} cannot be read: it is {len(header)} bytes long", hint=COMPLETE)


def _check_safetensors(path: Path) -> None:
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise ModelFileError(
                f"the weights of {path} cannot be read: it is cut off after {size} bytes", hint=COMPLETE
            )
        try:
            header = json.loads(file.read(length))
        except ValueError as error:
            raise ModelFileError(
                f"the weights of {path} cannot be read: its header is not JSON", hint=COMPLETE
            ) from error
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    whole = 8 + length + max(ends, default=0)
    if size < whole:
        raise ModelFileError(
            f"the weights of {path} cannot be read: it has {size:,} bytes instead of {whole:,} were written",
            hint=COMPLETE,
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ModelFileError(f"{path}:{error.lineno}: not valid JSON: {error.msg}", hint=COMPLETE) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}", hint=COMPLETE) from error
    if not isinstance(found, dict):
        raise ModelFileError(f"{path}:1: found a {type(found).__name__}, expected an object", hint=COMPLETE)
    return found
