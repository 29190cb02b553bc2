"""Responses survive the way to disk and back with every bit."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.store import decode_answer, encode_answer

PAIRS = st.tuples(st.floats(allow_nan=False), st.booleans())


@given(st.one_of(PAIRS, st.floats(allow_nan=False), st.text(), st.none(), st.lists(st.text(), max_size=3)))
def test_round_trip(response: object) -> None:
    back = decode_answer(encode_answer(response))
    assert back == response
    assert type(back) is type(response)


@pytest.mark.parametrize(
    "response", ["\ud800", "a\0b", "", '"', "[1,true]", "émoji 😀", (-math.inf, False), [[1.5, True], True]]
)
def test_awkward_responses(response: object) -> None:
    text = encode_answer(response)
    text.encode()  # SQLite holds UTF-8 only
    assert decode_answer(text) == response


def test_nan_stays_nan() -> None:
    value, greedy = decode_answer(encode_answer((math.nan, True)))
    assert math.isnan(value)
    assert greedy is True


@given(PAIRS)
def test_the_quick_form_is_the_json_form(pair: tuple[float, bool]) -> None:
    assert encode_answer(pair) == json.dumps(pair, separators=(",", ":"))
