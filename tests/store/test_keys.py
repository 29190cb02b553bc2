"""Keys: equal for equal questions, different for anything that could change the answer."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.store import RequestKeys, request_key

TEXT = st.text(max_size=8)


def test_every_part_of_the_question_changes_the_key() -> None:
    questions = [
        ("m", "loglikelihood", ("a", "b"), 0),
        ("n", "loglikelihood", ("a", "b"), 0),
        ("m", "generate_until", ("a", "b"), 0),
        ("m", "loglikelihood", ("a", "c"), 0),
        ("m", "loglikelihood", ("ab", ""), 0),
        ("m", "loglikelihood", ("", "ab"), 0),
        ("m", "loglikelihood", ("ab",), 0),
        ("m", "loglikelihood", (), 0),
        ("m", "loglikelihood", ("a", "b"), 1),
        ("m", "loglikelihood", ("a", "b"), 11),
        ("m", "loglikelihood", ("a", {"until": ["b"]}), 0),
        ("m", "loglikelihood", ("a", {"until": "b"}), 0),
        ("m", "loglikelihood", ("a", {"temperature": 1}), 0),
        ("m", "loglikelihood", ("a", {"temperature": 1.0}), 0),
        ("m", "loglikelihood", ("a", {"temperature": True}), 0),
        ("m", "loglikelihood", (["a", "b"],), 0),
        ("m", "loglikelihood", ([1, 2], [3]), 0),
        ("m", "loglikelihood", ([1], [2, 3]), 0),
    ]
    keys = [request_key(*question) for question in questions]  # type: ignore[arg-type]
    assert len(set(keys)) == len(questions)
    assert all(len(key) == 32 for key in keys)


def test_order_of_settings_does_not_matter_and_lists_equal_tuples() -> None:
    one = request_key("m", "generate_until", ("a", {"until": ["x"], "temperature": 0.5}))
    two = request_key("m", "generate_until", ("a", {"temperature": 0.5, "until": ("x",)}))
    assert one == two


@given(st.lists(st.tuples(TEXT, TEXT, st.integers(0, 3)), max_size=12))
def test_keys_do_not_depend_on_what_was_asked_before(questions: list[tuple[str, str, int]]) -> None:
    together = RequestKeys("m", "loglikelihood")
    for context, continuation, draw in questions:
        alone = RequestKeys("m", "loglikelihood").key((context, continuation), draw)
        assert together.key((context, continuation), draw) == alone


@given(st.lists(st.tuples(TEXT, TEXT), min_size=2, max_size=6, unique=True))
def test_different_pairs_have_different_keys(pairs: list[tuple[str, str]]) -> None:
    keys = [request_key("m", "loglikelihood", pair) for pair in pairs]
    for one, two in itertools.combinations(keys, 2):
        assert one != two


def test_settings_changed_in_place_give_a_new_key() -> None:
    keys, settings = RequestKeys("m", "generate_until"), {"temperature": 0.0}
    before = keys.key(("a", settings))
    settings["temperature"] = 0.7
    assert keys.key(("a", settings)) != before


def test_lone_surrogates_and_null_characters_have_keys() -> None:
    assert request_key("m", "loglikelihood", ("\ud83d", "\0")) != request_key("m", "loglikelihood", ("\ud83d\0", ""))


def test_images_count_by_content() -> None:
    black, white = np.zeros((2, 2)), np.ones((2, 2))
    key = request_key("m", "generate_until", ("a", {}, {"visual": [black]}))
    assert key == request_key("m", "generate_until", ("a", {}, {"visual": [np.zeros((2, 2))]}))
    assert key != request_key("m", "generate_until", ("a", {}, {"visual": [white]}))
    assert key != request_key("m", "generate_until", ("a", {}, {"visual": [np.zeros((4, 1))]}))


def test_an_object_without_content_is_refused() -> None:
    with pytest.raises(StoreError, match="no stable content"):
        request_key("m", "generate_until", ("a", {"callback": object()}))


def test_keys_are_the_same_in_another_process() -> None:
    code = "from assay.store import request_key; print(request_key('m', 'generate_until', ('ä', {'b': 1, 'a': [2]}), 3).hex())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert other == request_key("m", "generate_until", ("ä", {"a": [2], "b": 1}), 3).hex()
