"""Sequences that grow are lists to whoever reads them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.results import DocIds, Numbers, growing

plain = st.lists(st.floats(allow_nan=False, allow_infinity=False))
ids = st.lists(st.integers(-3, 12)) | st.builds(lambda a, b: [*range(a, a + b)], st.integers(0, 5), st.integers(0, 12))


@pytest.fixture(autouse=True, scope="module")
def _small_blocks() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "BLOCK", 4)
        yield


@given(plain, plain, st.slices(20))
def test_numbers_are_a_list(first: list[float], more: list[float], some: slice) -> None:
    numbers: Numbers[float] = Numbers("d", first)
    for number in more:
        numbers.append(number)
    whole = first + more
    assert (len(numbers), list(numbers), numbers[some]) == (len(whole), whole, whole[some])
    assert np.asarray(numbers).tolist() == whole
    assert sum(numbers) == sum(whole)
    assert numbers == Numbers("d", iter(whole)) == pickle.loads(pickle.dumps(numbers))
    assert numbers != Numbers("d", [*whole, 1.0])


@given(ids, ids, st.slices(20))
def test_doc_ids_are_a_list(first: list[int], more: list[int], some: slice) -> None:
    found = DocIds(first)
    found.extend(more)
    whole = first + more
    assert (len(found), list(found), list(found[some])) == (len(whole), whole, whole[some])
    assert np.asarray(found).tolist() == whole
    assert np.asarray(found, dtype=np.float64).dtype == np.float64
    assert found == DocIds(whole)
    follow = whole == [*range(whole[0], whole[0] + len(whole))] if whole else True
    assert (found.as_range is not None) == follow


def test_an_index_beyond_the_end_is_an_error() -> None:
    numbers: Numbers[int] = Numbers("Q", [2**64 - 1] * 5)
    assert numbers[-1] == numbers[4] == 2**64 - 1
    for outside in (5, -6):
        with pytest.raises(IndexError):
            numbers[outside]
    with pytest.raises(OverflowError):
        numbers.append(2**64)
