"""Arrow arrays of plain Python values, made without pandas.

`pyarrow.array` imports pandas wherever it is installed, to ask whether it was given something of pandas: a quarter of a
second and 50 MB. What JSON holds (texts, numbers, true and false, lists, objects) is laid out here instead, as
`pyarrow.array` would; everything else is left to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

_EXACT = 2**53
"""The largest whole number up to which a float tells all of them apart."""
_OFFSETS_END = 2**31 - 1
_NONE = type(None)


class _NotPlain(Exception):
    """Values that pyarrow itself has to look at."""


def arrow_array(values: Sequence[Any], kind: pa.DataType | None = None) -> Any:
    """`pyarrow.array(values, kind)`.

    >>> arrow_array([{"a": [1, 2]}, None]).type
    StructType(struct<a: list<item: int64>>)
    """
    import pyarrow as pa

    if type(values) is not list:  # of pandas or numpy, perhaps
        return pa.array(values, kind)
    try:
        return _array(values, _type_of(values) if kind is None else kind)
    except (_NotPlain, OverflowError, RecursionError):
        return pa.array(values, kind)


def arrow_table(columns: Mapping[str, Sequence[Any]], schema: pa.Schema | None = None) -> pa.Table:
    """`pyarrow.table(columns, schema)`; with a schema, columns that it does not name are left out."""
    import pyarrow as pa

    if schema is None:
        return pa.Table.from_arrays([*map(arrow_array, columns.values())], names=[*columns])
    return pa.Table.from_arrays([arrow_array(columns[f.name], f.type) for f in schema], schema=schema)


def _type_of(values: Sequence[Any]) -> Any:
    """The type that pyarrow infers: objects have a field for each key of any, in the order of their first appearance."""
    import pyarrow as pa

    kinds = {*map(type, values)} - {_NONE}
    if not kinds:
        return pa.null()
    if kinds == {int, float}:
        return pa.float64()
    kind = kinds.pop()
    if kinds:
        raise _NotPlain
    if kind is list:
        return pa.list_(_type_of([*chain.from_iterable(_present(values))]))
    if kind is dict:
        names = dict.fromkeys(chain.from_iterable(_present(values)))
        return pa.struct([(name, _type_of([*_members(values, name)])) for name in names])
    plain = {str: pa.string, int: pa.int64, float: pa.float64, bool: pa.bool_}
    if kind not in plain:
        raise _NotPlain
    return plain[kind]()


def _array(values: Sequence[Any], wanted: Any) -> Any:
    import pyarrow as pa

    kinds = {*map(type, values)}
    nulls = values.count(None) if _NONE in kinds else 0
    if nulls == len(values):
        return pa.nulls(len(values), wanted)
    kinds.discard(_NONE)
    there = None
    if nulls:
        there = pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
    children = None
    if wanted == pa.string() and kinds == {str}:
        buffers = _text(values, nulls)
    elif wanted == pa.int64() and kinds == {int}:
        buffers = [_numbers(values, np.int64, nulls)]
    elif wanted == pa.float64() and kinds <= {int, float} and _is_exact(values, kinds):
        buffers = [_numbers(values, np.float64, nulls)]
    elif wanted == pa.bool_() and kinds == {bool}:
        buffers = [np.packbits([value is True for value in values], bitorder="little")]
    elif pa.types.is_list(wanted) and kinds == {list}:
        lists = [value or () for value in values] if nulls else values
        buffers = [_offsets(map(len, lists), len(values))]
        children = [_array([*chain.from_iterable(lists)], wanted.value_type)]
    elif pa.types.is_struct(wanted) and kinds == {dict}:
        buffers = []
        children = [_array([*_members(values, field.name)], field.type) for field in wanted]
    else:
        raise _NotPlain
    return pa.Array.from_buffers(
        wanted, len(values), [there, *map(pa.py_buffer, buffers)], null_count=nulls, children=children
    )


def _present(values: Sequence[Any]) -> Iterator[Any]:
    return (value for value in values if value is not None)


def _members(values: Sequence[Any], name: str) -> Iterator[Any]:
    return (None if value is None else value.get(name) for value in values)


def _is_exact(values: Sequence[Any], kinds: set[type]) -> bool:
    return int not in kinds or all(-_EXACT <= value <= _EXACT for value in values if type(value) is int)


def _numbers(values: Sequence[Any], dtype: type[Any], nulls: int) -> NDArray[Any]:
    return np.array([0 if value is None else value for value in values] if nulls else values, dtype=dtype)


def _text(values: Sequence[Any], nulls: int) -> list[Any]:
    """Where each text begins and ends, and all of them one after the other; nothing in place of None."""
    texts = [value or "" for value in values] if nulls else values
    joined = "".join(texts)
    data = joined.encode()
    if len(data) == len(joined):
        return [_offsets(map(len, texts), len(values)), data]
    return [_offsets((len(text.encode()) for text in texts), len(values)), data]


def _offsets(lengths: Iterable[int], count: int) -> NDArray[np.int32]:
    ends = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.fromiter(lengths, dtype=np.int64, count=count), out=ends[1:])
    if ends[-1] > _OFFSETS_END:
        raise _NotPlain
    return ends.astype(np.int32)
