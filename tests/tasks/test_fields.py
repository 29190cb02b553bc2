"""What a `doc_to_*` field means, by what it holds and what it renders to."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError, DataError
from assay.tasks.fields import choice_field, media_field, read_target, target_field, text_field

DOC = {"q": "what", "n": 3, "digits": "3", "list": ["a", "b"], "s": "[1"}


@pytest.mark.parametrize(
    ("value", "has_choices", "result"),
    [
        (2, True, 2),
        ("q", True, "what"),
        ("digits", True, "3"),
        ("{{digits}}", True, 3),
        ("{{digits}}", False, "3"),
        ("{{q}}?", True, "what?"),
        ("", True, ""),
        ("²", True, "²"),
        (lambda doc: doc["q"].upper(), True, "WHAT"),
    ],
)
def test_text(value: Any, has_choices: bool, result: Any) -> None:
    assert text_field(value, DOC, has_choices=has_choices)(DOC) == result


@pytest.mark.parametrize(
    ("value", "has_choices", "result"),
    [
        (0, True, 0),
        (["a"], True, ["a"]),
        ("digits", True, "3"),
        ("{{digits}}", True, 3),
        ("{{digits}}", False, "3"),
        ("{{list}}", False, ["a", "b"]),
        ("{{s}}]", False, [1]),
        ("[{{q}}]", False, "[what]"),
        ("[", False, "["),
        ("n", True, 3),
    ],
)
def test_target(value: Any, has_choices: bool, result: Any) -> None:
    assert target_field(value, DOC, has_choices=has_choices)(DOC) == result


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (["x", "y"], ["x", "y"]),
        ({"one": "x", "two": "y"}, ["x", "y"]),
        ("list", ["a", "b"]),
        ("{{list}}", ["a", "b"]),
        ("{{[q, digits]}}", ["what", "3"]),
        ("['{{q}}', 'no']", ["what", "no"]),
        ("{{[n, n]}}", [3, 3]),
        (lambda doc: doc["list"], ["a", "b"]),
    ],
)
def test_choices(value: Any, result: Any) -> None:
    assert choice_field(value, DOC)(DOC) == result


@given(st.lists(st.text(), max_size=5))
def test_lists_need_not_be_written_and_read_again(choices: list[str]) -> None:
    """The short way round must agree with writing the list as text and reading it as a literal."""
    assert choice_field("{{given}}", [])({"given": choices}) == ast.literal_eval(str(choices))


def test_choices_that_are_not_a_literal() -> None:
    with pytest.raises(DataError, match="is not a list"):
        choice_field("{{q}} and more", DOC)(DOC)


def test_media() -> None:
    assert media_field(["n", "list"], DOC, "doc_to_image")(DOC) == [3, ["a", "b"]]
    assert media_field("{{[n]}}", DOC, "doc_to_image")(DOC) == [3]


def test_a_missing_column_lists_those_there_are() -> None:
    with pytest.raises(DataError, match="no column 'gone'") as caught:
        text_field("gone", ["gone"], has_choices=False)(DOC)
    assert "q, n, digits" in str(caught.value.hint)


def test_a_field_that_is_nothing() -> None:
    with pytest.raises(ConfigError, match="doc_to_text is None"):
        text_field(None, DOC, has_choices=False)


@given(st.text())
def test_any_text_is_some_target(text: str) -> None:
    found = read_target(text, has_choices=True)
    assert found == text or isinstance(found, int | list | tuple | dict | set) or text.startswith("[")
