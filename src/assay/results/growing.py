"""Sequences that grow with the docs of a run: eight bytes a number, and nothing for ids that follow each other.

One long array would do, but as it grows it is moved to a larger place time and again, and the places it leaves are soon
taken by something small and never given back. At 400,000 docs such holes were larger than the arrays themselves.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Generic, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

BLOCK = 4096
N = TypeVar("N", int, float)


class Numbers(Sequence[N], Generic[N]):
    """Numbers of one of `array`'s kinds, kept in blocks; `numpy.asarray` puts them together."""

    def __init__(self, kind: Literal["d", "q", "Q"], numbers: Iterable[N] = ()) -> None:
        self._blocks: list[array[N]] = [array(kind)]
        """All but the last are full."""
        self.extend(numbers)

    def append(self, number: N) -> None:
        last = self._blocks[-1]
        last.append(number)
        if len(last) == BLOCK:
            self._blocks.append(array(last.typecode))

    def extend(self, numbers: Iterable[N]) -> None:
        left = iter(numbers)
        while True:
            last = self._blocks[-1]
            last.extend(islice(left, BLOCK - len(last)))
            if len(last) < BLOCK:
                return
            self._blocks.append(array(last.typecode))

    def __len__(self) -> int:
        return (len(self._blocks) - 1) * BLOCK + len(self._blocks[-1])

    def __iter__(self) -> Iterator[N]:
        return chain.from_iterable(self._blocks)

    @overload
    def __getitem__(self, index: int) -> N: ...

    @overload
    def __getitem__(self, index: slice) -> list[N]: ...

    def __getitem__(self, index: int | slice) -> N | list[N]:
        places = range(len(self))[index]
        if isinstance(places, int):
            return self._blocks[places // BLOCK][places % BLOCK]
        return [self._blocks[place // BLOCK][place % BLOCK] for place in places]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Numbers) and self._blocks == other._blocks

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        joined = np.concatenate([np.frombuffer(block, dtype=block.typecode) for block in self._blocks])
        return joined if dtype is None else joined.astype(dtype, copy=False)


class DocIds(Sequence[int]):
    """Ids of docs in the order in which they came: a range as long as each is one more than the last."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._ids: range | Numbers[int] = range(0)
        self.extend(ids)

    @property
    def as_range(self) -> range | None:
        return self._ids if isinstance(self._ids, range) else None

    def append(self, doc_id: int) -> None:
        ids = self._ids
        if isinstance(ids, range):
            if doc_id == ids.stop and ids:
                self._ids = range(ids.start, doc_id + 1)
                return
            if not ids:
                self._ids = range(doc_id, doc_id + 1)
                return
            ids = self._ids = Numbers("q", ids)
        ids.append(doc_id)

    def extend(self, ids: Iterable[int]) -> None:
        for doc_id in ids:
            self.append(doc_id)

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return self._ids[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DocIds) and self._ids == other._ids

    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        ids = self._ids
        joined = np.arange(ids.start, ids.stop) if isinstance(ids, range) else np.asarray(ids)
        return joined if dtype is None else joined.astype(dtype, copy=False)
