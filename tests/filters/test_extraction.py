"""Filters that find an answer, or say that there is none."""

from __future__ import annotations

import pytest

from assay.errors import DataError
from assay.filters import Boxed, JsonPath, MultiChoiceRegexFilter, Number, POSFilter, RegexFilter


def extract(filter_, *texts, doc=None):
    return filter_.apply([list(texts)], [doc or {}])[0]


@pytest.mark.parametrize(
    ("options", "text", "found"),
    [
        ({}, "so #### 1,234.", "1,234."),
        ({}, "no answer", "[invalid]"),
        ({}, "", "[invalid]"),
        ({"group_select": -1, "regex_pattern": r"\d+"}, "1 then 2 then 3", "3"),
        ({"group_select": 5, "regex_pattern": r"\d+"}, "1 then 2", "[invalid]"),
        ({"regex_pattern": r"(a)|(b)"}, "b", "b"),
        ({"regex_pattern": r"(a?)(b?)x"}, "x", "[invalid]"),
        ({"regex_pattern": r"answer:(\s*\w*)"}, "answer: yes ", "yes"),
        # One group that matched nothing is the empty answer, not the fallback: lm-evaluation-harness does so too.
        ({"regex_pattern": r"answer:(\w*)"}, "answer:", ""),
        ({"fallback": "none", "regex_pattern": "z"}, "abc", "none"),
        ({"regex_pattern": r"是(\w)"}, "答案是甲", "甲"),
    ],
)
def test_regex_takes_the_selected_match(options, text, found):
    assert extract(RegexFilter(**options), text) == [found]


def test_regex_reads_what_is_not_text_as_no_answer():
    assert extract(RegexFilter(), None, 3, float("nan")) == ["[invalid]"] * 3


CHOICES = {"choices": ["Guilty", "Guilty of Romance", "Neither"]}


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("The answer is (C).", "(C)"),
        ("It is Guilty of Romance", "(B)"),
        ("I say guilty", "(A)"),
        ("Answer: B", "(B)"),
        ("no idea", "[invalid]"),
        ("", "[invalid]"),
    ],
)
def test_multi_choice_regex_tries_pattern_then_texts_then_letters(text, letter):
    filter_ = MultiChoiceRegexFilter(r"(\([A-Z]\))", ignore_case=True, ignore_punctuation=True)
    assert extract(filter_, text, doc=CHOICES) == [letter]


def test_multi_choice_regex_ignores_patterns_in_texts_only():
    filter_ = MultiChoiceRegexFilter(r"(\([A-Z]\))", regexes_to_ignore=["the "])
    assert extract(filter_, "surely the cat", doc={"choices": ["the dog", "the cat"]}) == ["(B)"]


@pytest.mark.parametrize(
    ("text", "label"), [("so: Z", "(Z)"), ("so: AA", "(AA)"), ("so: AB.", "(AB)"), ("so: A", "(A)")]
)
def test_multi_choice_regex_labels_more_than_26_choices(text, label):
    doc = {"choices": [f"choice number {i}" for i in range(28)]}
    assert list(MultiChoiceRegexFilter().apply([[text]], [doc])) == [[label]]


def test_multi_choice_regex_needs_choices():
    with pytest.raises(DataError, match="choices"):
        extract(MultiChoiceRegexFilter(), "A", doc={"options": []})


def test_regex_pos_gives_the_tags():
    assert extract(POSFilter(), "[('I', 'PRON'), ('run', 'VERB')]", "nothing") == [["PRON", "VERB"], ["invalid"]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{1} and \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\fbox{x}", "x"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{never closed, but \boxed{3} was", "3"),
        (r"\boxed{", "[invalid]"),
        ("", "[invalid]"),
    ],
)
def test_boxed_takes_the_last_balanced_box(text, found):
    assert extract(Boxed(), text) == [found]


@pytest.mark.parametrize(
    ("options", "text", "found"),
    [
        ({}, "It costs $1,234.50.", "1234.50"),
        ({}, "between 3 and 4", "4"),
        ({}, "x = -2.5e3", "-2.5e3"),
        ({}, "x = −7", "-7"),
        ({}, "12,3 apples", "3"),
        ({}, "version2 is not a number", "[invalid]"),
        ({}, "", "[invalid]"),
        ({"which": 0}, "3 of 4", "3"),
        ({"decimal": ",", "grouping": "."}, "1.234,5 Euro", "1234.5"),
        ({"decimal": ",", "grouping": "\u202f"}, "1\u202f234,5 €", "1234.5"),
    ],
)
def test_number_speaks_the_locale(options, text, found):
    assert extract(Number(**options), text) == [found]


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("answer", 'Sure! ```json\n{"answer": "B"}\n```', "B"),
        ("a.b[1]", '{"a": {"b": [1, 2]}}', "2"),
        ("[0].x", '[{"x": true}]', "true"),
        ("answer", '{"other": 1}', "[invalid]"),
        ("answer", "{broken", "[invalid]"),
        ("answer", "[" * 100_000, "[invalid]"),
        ("answer", '{not json} but {"answer": null}', "null"),
    ],
)
def test_json_path_finds_a_value_in_the_first_json(path, text, found):
    assert extract(JsonPath(path), text) == [found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('As in [1], {"answer": "B"}', "B"),
        ('{"thought": "none"} {"answer": "B"}', "B"),
        ('{"thought": {"answer": "A"}} {"answer": "B"}', "B"),
        ('{"thought": {"answer": "A"}}', "[invalid]"),
    ],
)
def test_json_path_goes_on_where_the_path_does_not_resolve(text, found):
    assert extract(JsonPath("answer"), text) == [found]
