"""Arrow arrays of plain values are those that pyarrow makes."""

import subprocess
import sys
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.arrow import arrow_array, arrow_table

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
nested = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def made(make: Any, values: list[Any], kind: Any = None) -> Any:
    """What came of it: the array, or the kind of error."""
    try:
        array = make(values, kind)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        return type(error)
    array.validate(full=True)
    return array.type, repr(array.to_pylist())  # NaN equals NaN there


@given(st.one_of(*(st.lists(each) for each in (nested, st.text(), st.integers() | st.none(), st.floats() | st.none()))))
def test_any_values_of_json_become_what_pyarrow_makes_of_them(values: list[Any]) -> None:
    assert made(arrow_array, values) == made(pa.array, values)


ALIKE = [
    *([], [None], [None, None], ["a", None, "é", "", "\0", "😀"], ["ä" * 70_000] * 3, ["x"] * 100_000),
    *([True, None, False] * 30, [1, None, -(2**63)], [2**63], [1, 2.5, None], [2**53, 0.5], [2**53 + 1, 0.5]),
    *([float("nan"), float("inf"), None], [True, 1], [1, "a"], ["\ud800"], [date(2020, 1, 1)], [b"bytes"], [(1, 2)]),
    *([[], None], [[], []], [[1], [None], None], [["a"], ["b", None]], [[1], [2.5]], [[1], 1], [[[]], [[None]]]),
    *([{}], [{}, None], [{"b": 1, "a": "x"}, {"c": None}], [{"a": {"b": [1]}}, {"a": None}, None], [{"a": 1}, 1]),
]


@pytest.mark.parametrize("values", ALIKE, ids=lambda values: repr(values)[:40])
def test_cases_that_differ_in_layout(values: list[Any]) -> None:
    assert made(arrow_array, values) == made(pa.array, values)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        *(([None, "a"], pa.string()), ([1], pa.string()), ([1, None], pa.float64()), ([1.5], pa.int64())),
        *(
            ([True], pa.int64()),
            ([2**60], pa.float64()),
            ([1], pa.int32()),
            (["a"], pa.large_string()),
            ([], pa.null()),
        ),
        *(([["a"], [], None], pa.list_(pa.string())), ([[1], [None]], pa.list_(pa.float64())), (["a"], pa.null())),
        ([{"a": 1}, {"b": "x"}, None], pa.struct([("b", pa.string()), ("a", pa.float64())])),
        ([{"a": 1, "left out": 2}], pa.struct([("a", pa.int64())])),
    ],
    ids=repr,
)
def test_a_type_that_was_asked_for_is_kept(values: list[Any], kind: Any) -> None:
    assert made(arrow_array, values, kind) == made(pa.array, values, kind)


def test_a_table_has_its_columns_in_their_order() -> None:
    columns = {"b": [1, None], "a": ["x", "y"]}
    assert arrow_table(columns).equals(pa.table(columns))
    schema = pa.schema([("a", pa.string()), ("b", pa.float64())])
    assert arrow_table(columns, schema).equals(pa.table(columns, schema=schema))
    assert arrow_table({}).equals(pa.table({}))


def test_pandas_is_not_imported_and_its_objects_are_understood_when_they_come() -> None:
    code = """
import sys
import pyarrow as pa
from assay.arrow import arrow_array, arrow_table
columns = {"text": ["a", None], "number": [1.5, None], "list": [["a"], None], "object": [{"a": True}, None], "none": [None] * 2}
arrow_table(arrow_table(columns).to_pydict(), arrow_table(columns).schema)
assert "pandas" not in sys.modules
import pandas
series = pandas.Series([1.0, float("nan")])
assert arrow_array(series).null_count == pa.array(series).null_count == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)
