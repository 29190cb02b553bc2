"""Docs that code of a task makes, stored by all that they are made of, so that the same docs are made once."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.data.docs import FileDocs
from assay.instance import Doc
from assay.paths import assay_home

_AT_ONCE = 16
"""Rows that are read together: docs that are made may be as long as a model reads."""


class GeneratedDocs(FileDocs):
    """The rows of a stored file. A run writes their key into its record of the data."""

    def __init__(self, path: Path, key: str) -> None:
        super().__init__(path)
        self._fingerprint = key


def generated_docs(facts: Mapping[str, Any], make: Callable[[], Iterable[Doc]]) -> GeneratedDocs:
    """The docs that `make` gives. `facts` are all that decides them: seeds, sizes, hashes of texts and of a tokenizer."""
    import pyarrow as pa

    key = hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode()).hexdigest()
    place = assay_home() / "generated" / f"{key}.arrow"
    if not place.exists():
        table = pa.Table.from_pylist([*make()])
        place.parent.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.NamedTemporaryFile(dir=place.parent, suffix=".part", delete=False) as file,
            pa.ipc.new_stream(file, table.schema) as writer,
        ):
            writer.write_table(table, max_chunksize=_AT_ONCE)
        os.replace(file.name, place)
    return GeneratedDocs(place, key)
