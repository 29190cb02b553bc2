from __future__ import annotations

import datetime
import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assay.data import doc_hash, seeded_globals

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), plain, max_size=5))
def test_the_order_of_columns_does_not_matter(doc: dict[str, object]) -> None:
    assert doc_hash(doc) == doc_hash(dict(reversed(doc.items())))


def test_known_value_on_every_machine() -> None:
    assert doc_hash({"q": "ä", "n": 1}) == "a3eac403ad09310defbd0086d9721c17e546a572ea111c79d8959a7a581572c5"


def test_what_json_cannot_hold() -> None:
    docs = [
        {"v": b"abc"},
        {"v": b"abd"},
        {"v": datetime.date(2020, 1, 1)},
        {"v": np.arange(3)},
        {"v": {1, 2}},
        {"v": float("nan")},
        {"v": "\ud800"},
    ]
    assert len({doc_hash(doc) for doc in docs}) == len(docs)


def test_global_generators_are_seeded_inside_and_untouched_outside() -> None:
    random.seed(5)
    np.random.seed(5)
    expected = (random.random(), np.random.rand())
    random.seed(5)
    np.random.seed(5)
    with seeded_globals():
        first = (random.random(), np.random.rand())
    with seeded_globals():
        second = (random.random(), np.random.rand())
    assert first == second == (random.Random(0).random(), np.random.RandomState(1234).rand())
    assert (random.random(), np.random.rand()) == expected
