"""Data files that a task file names by a relative path and that lie beside it: `data_files: {test: docs.jsonl}`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE_FORMATS = frozenset({"json", "csv", "parquet", "text", "arrow"})
"""Values of `dataset_path` that name a file format, read by a loader of the `datasets` library, not a dataset of the hub."""


def beside(dataset_path: Any, kwargs: Any, directory: Path) -> Any:
    """`dataset_kwargs` with such paths made absolute; a path that is not found there is left to the working directory."""
    files = kwargs.get("data_files") if isinstance(kwargs, Mapping) else None
    if dataset_path not in FILE_FORMATS or files is None:
        return kwargs
    return {**kwargs, "data_files": _placed(files, directory)}


def _placed(files: Any, directory: Path) -> Any:
    if isinstance(files, Mapping):
        return {split: _placed(given, directory) for split, given in files.items()}
    if isinstance(files, list):
        return [_placed(given, directory) for given in files]
    return str(directory / files) if isinstance(files, str) and (directory / files).is_file() else files
