"""What the files of a model show to be wrong before any of them is loaded: seconds, and a traceback, earlier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assay.errors import ModelFileError, did_you_mean

COMPLETE = "Is the download complete? Compare file sizes with the source, or download the model again."
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")
_GGUF_HEADER = 24
"""Bytes before the first entry: the magic word, a version, and two counts."""


def check_config(path: Path) -> None:
    config = _read_json(path)
    if not config.get("model_type") and not config.get("auto_map"):
        raise ModelFileError(
            f"{path}:1: it names no model_type",
            hint="It is not the config of a transformers model; download the model again.",
        )


def check_weights(directory: Path) -> None:
    """There are weights, every file that the index names among them, and none is shorter than its header says."""
    if not any(next(directory.glob(pattern), None) for pattern in _WEIGHTS):
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
