"""Docs as tasks read them: rows of a table, a `datasets.Dataset` or a list of dicts, walked in blocks; their hash; the seeds under which they are prepared."""

from __future__ import annotations

import hashlib
import json
import pickle
import random
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from assay.errors import DataError
from assay.instance import Doc

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

    Docs: TypeAlias = datasets.Dataset | Sequence[Doc]
else:
    Docs: TypeAlias = Any

BLOCK = 512
BLOCK_OF_MEDIA = 4
"""Rows fetched at a time; few where every row holds pictures or sound."""
MAPPINGS = 16
MAPPED_ROWS = 8192
"""A mapped file is read through this many mappings at most, each of at least so many rows."""


class TableDocs(Sequence[Doc]):
    """The rows of an Arrow table as plain dicts, and the `datasets.Dataset` of the same table as soon as somebody wants one.

    Importing that library takes longer than reading most files, and few tasks need more than the rows. Whatever else is
    needed of a dataset (`map`, `filter`, a column by its name, …) is done by the dataset.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    @cached_property
    def dataset(self) -> datasets.Dataset:
        import datasets

        return datasets.Dataset(datasets.table.InMemoryTable(self.table))

    @property
    def column_names(self) -> list[str]:
        return list(self.table.column_names)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, int):
            return self.dataset[key]
        if not -len(self) <= key < len(self):
            raise IndexError(f"doc {key} of {len(self)}")
        return self.table.slice(key % len(self), 1).to_pylist()[0]

    def __iter__(self) -> Iterator[Doc]:
        return self.rows()

    def rows(self, start: int = 0) -> Iterator[Doc]:
        for first in range(start, len(self), BLOCK):
            yield from self.table.slice(first, BLOCK).to_pylist()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "table":  # not there yet while a copy is being made
            raise AttributeError(name)
        return getattr(self.dataset, name)


class FileDocs(TableDocs):
    """The rows of an Arrow file. They are read from it block by block and let go of: pages of a mapped file would stay
    with the process. A single row is looked up in a mapping."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _mapped(self) -> pa.Table:
        import pyarrow as pa

        with pa.memory_map(str(self.path)) as source:
            return pa.ipc.open_stream(source).read_all()

    @cached_property
    def table(self) -> pa.Table:
        return self._mapped()

    @cached_property
    def dataset(self) -> datasets.Dataset:
        import datasets

        return datasets.Dataset.from_file(str(self.path))

    @cached_property
    def _length(self) -> int:
        """Read from a mapping that is given up at once: it touches a few pages of every block of rows."""
        return int(self._mapped().num_rows)

    @property
    def column_names(self) -> list[str]:
        import pyarrow as pa

        with pa.OSFile(str(self.path)) as source:
            return list(pa.ipc.open_stream(source).schema.names)

    def __len__(self) -> int:
        return self._length

    def rows(self, start: int = 0) -> Iterator[Doc]:
        import pyarrow as pa

        with pa.OSFile(str(self.path)) as source:
            for batch in pa.ipc.open_stream(source):
                for first in range(min(start, batch.num_rows), batch.num_rows, BLOCK):
                    yield from batch.slice(first, BLOCK).to_pylist()
                start = max(0, start - batch.num_rows)


class WrittenDocs(TableDocs):
    """The rows of JSON lines files as they are written: a table would give every row the keys of all, and one type to the
    numbers of a column. They are read when they are needed; `to_table` makes a table of them for code that wants one."""

    def __init__(self, paths: Sequence[Path], columns: Sequence[str], to_table: Callable[[], pa.Table]) -> None:
        self.paths, self.columns, self.to_table = list(paths), list(columns), to_table
        self.starts = [_line_starts(path) for path in paths]

    @cached_property
    def table(self) -> pa.Table:
        return self.to_table()

    @property
    def column_names(self) -> list[str]:
        return self.columns

    def __len__(self) -> int:
        return sum(map(len, self.starts))

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, int):
            return self.dataset[key]
        if not -len(self) <= key < len(self):
            raise IndexError(f"doc {key} of {len(self)}")
        return next(self.rows(key % len(self)))

    def rows(self, start: int = 0) -> Iterator[Doc]:
        for path, starts in zip(self.paths, self.starts):
            if start < len(starts):
                with path.open("rb") as file:
                    file.seek(starts[start])
                    for line in islice(filter(bytes.strip, file), len(starts) - start):
                        yield _row(line, path)
            start = max(0, start - len(starts))


def _line_starts(path: Path) -> array[int]:
    """Where each line that is not blank begins."""
    starts, at = array("q"), 0
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                starts.append(at + 3 * line.startswith(BOM_UTF8))
            at += len(line)
    return starts


def _row(line: bytes, path: Path) -> Doc:
    try:
        return cast(Doc, json.loads(line))
    except ValueError as error:
        raise DataError(f"{path} was changed while it was being read", hint="Run the same command again.") from error


def as_dataset(docs: Docs) -> Any:
    """For code that is written for datasets."""
    return docs.dataset if isinstance(docs, TableDocs) else docs


def columns_of(docs: Docs) -> list[str]:
    """The column names: the dataset's own, or every key of any doc of a list.

    Not of the first doc alone: a field that names a key which only later docs have would be taken for a template, and
    its name for the prompt. A doc without the key is then an error.
    """
    if isinstance(docs, TableDocs):
        return docs.column_names
    features = getattr(docs, "features", None)
    if features is not None:
        return list(features)
    names: Doc = {}
    for doc in docs if isinstance(docs, list | tuple) else islice(docs, 1):
        names.update(doc)
    return list(names)


def iter_docs(docs: Docs, start: int = 0) -> Iterator[Doc]:
    """All docs from `start` on, in order.

    A dataset decodes one row in about 50 µs and a block of rows in a few µs each, so rows are fetched by the block.
    """
    if isinstance(docs, TableDocs):
        yield from docs.rows(start)
        return
    if not hasattr(docs, "features") or getattr(docs, "format", {}).get("type") is not None:
        for position in range(start, len(docs)):
            yield cast(Doc, docs[position])
        return
    size = BLOCK_OF_MEDIA if _has_media(docs) else BLOCK
    for part, rows in _parts(docs, start):
        for first in range(rows.start, rows.stop, size):
            block = cast(dict[str, Sequence[Any]], part[first : min(first + size, rows.stop)])
            names = list(block)
            for values in zip(*(block[name] for name in names)):
                yield dict(zip(names, values))


def _parts(docs: Any, start: int) -> Iterator[tuple[Any, range]]:
    """The dataset with the rows to read from it. A mapped file comes in parts, each mapped anew.

    Pages that were read stay in memory as long as their mapping does, so that one mapping of a large file would end up
    holding all of it. A pickled dataset names its files, which makes a copy a second mapping.
    """
    rows = max(MAPPED_ROWS, -(-len(docs) // MAPPINGS))
    if len(docs) <= rows or not docs.cache_files:
        yield docs, range(start, len(docs))
        return
    state = pickle.dumps(docs)
    for first in range(start, len(docs), rows):
        yield pickle.loads(state), range(first, min(first + rows, len(docs)))


def _has_media(docs: Any) -> bool:
    from datasets.features.features import require_decoding

    return any(require_decoding(feature) for feature in docs.features.values())


def _plain(value: Any) -> Any:
    """What JSON cannot hold: bytes, dates, arrays, images."""
    if isinstance(value, bytes | bytearray):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "tobytes"):  # images
        return {"bytes": hashlib.sha256(value.tobytes()).hexdigest()}
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)


class CorrectedDoc(dict[str, Any]):
    """A doc as an overlay has it. Its hash stays that of the doc as published: it is the same doc, and is paired with it."""

    def __init__(self, fields: Doc, published: str, gold: Any = None) -> None:
        super().__init__(fields)
        self.published, self.gold = published, gold

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self), self.published, self.gold)


_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain).encode


def doc_hash(doc: dict[str, Any]) -> str:
    """SHA-256 (hex) of the doc as canonical JSON: the same on every machine, whatever the order of its columns.

    >>> doc_hash({"a": 1, "b": "ä"}) == doc_hash({"b": "ä", "a": 1})
    True
    """
    if isinstance(doc, CorrectedDoc):
        return doc.published
    return hashlib.sha256(_encode(doc).encode("utf-8", "surrogatepass")).hexdigest()


RANDOM_SEED = 0
NUMPY_SEED = 1234


@contextmanager
def seeded_globals(random_seed: int | None = RANDOM_SEED, numpy_seed: int | None = NUMPY_SEED) -> Iterator[None]:
    """Seed `random` and `numpy.random` inside the block (None leaves one alone) and put their states back afterwards.

    The docs of a task then depend neither on the tasks loaded before it nor on the order of the run. Progress bars of
    the `datasets` library are off meanwhile: the run shows its own.
    """
    import datasets
    import numpy as np

    had_bars = datasets.are_progress_bars_disabled() is False
    datasets.disable_progress_bars()
    python_state, numpy_state = random.getstate(), np.random.get_state()
    if random_seed is not None:
        random.seed(random_seed)
    if numpy_seed is not None:
        np.random.seed(numpy_seed)
    try:
        yield
    finally:
        if had_bars:
            datasets.enable_progress_bars()
        random.setstate(python_state)
        np.random.set_state(numpy_state)
