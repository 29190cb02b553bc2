"""The one extractor of choices: every rule by its examples, what must stay unread, and real answers."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import DataError
from assay.filters import Choice, FilterEnsemble, TakeFirst, read_choice
from assay.filters.announcements import LANGUAGES
from assay.filters.statements import RULES
from assay.instance import Instance

CITIES = ["Berlin", "Paris", "Rome"]


@pytest.mark.parametrize(("rule", "text"), [(rule.name, text) for rule in RULES for text in rule.examples])
def test_every_rule_reads_its_examples(rule: str, text: str) -> None:
    assert read_choice(text, CITIES) == ("B", rule)


@pytest.mark.parametrize(("language", "text"), [(row.language, text) for row in LANGUAGES for text in row.examples])
def test_every_language_states_its_answer(language: str, text: str) -> None:
    reading = read_choice(text, CITIES)
    assert reading is not None
    assert reading.label == "B"


def test_twenty_languages_are_announced() -> None:
    assert len({row.language for row in LANGUAGES}) == 20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I cannot answer this question.",
        "A good question deserves thought",
        "The answer is",
        "The answer is (",
        "The answer is (B",  # cut off: it may have become (Berlin) or (Both)
        "The answer is A or B.",
        "The answer is (A), (B) and (C).",
        "The answer is (A, B).",
        "The answer is A. Berlin or B. Paris",
        "Option A is correct and option B is correct.",
        "The answer is not B.",
        "If the answer is B, the train is late.",
        "The answer is (B) is wrong, as Paris is elsewhere.",
        "The answer is D.",  # not on offer
        "First I thought the answer is B. But the answer is D.",
        "The answer is B. However, the answer is not among the options.",
        "A. Berlin\nB. Paris\nC. Rome",  # a list is no statement
        "The answer is a mixture of things",
        "Statement B is correct.",
        "The answer is unknown, perhaps Paris",
        "The closest option is B, Paris, which is not the correct answer.",
        "The answer is:\nB. in the north\nC. in the south",  # a list is no choice
        "The answer is (A). But the answer is (B",  # cut off while it says otherwise
        "We compute 3 \\times 4 = B",
        "Ответ: В",  # a Cyrillic letter is another label in a Russian list
    ],
)
def test_nothing_is_guessed(text: str) -> None:
    assert read_choice(text, CITIES) is None


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("The answer is (A). Wait, the answer is (B).", "B"),
        ("The answer is A, no wait, the answer is B.", "B"),
        ("The answer is (A) or (B). Since it lies on the Seine, the answer is (B).", "B"),
        ("Final answer: the answer is C.", "C"),
        ("The answer is (B), not (C).", "B"),
        ("(B) Paris\n\nQuestion: Capital of Italy?\nThe answer is (C).", "B"),
        ("The answer is B as in Paris", "B"),
        ("The answer is (B).\n===\nThe answer is (B", "B"),
        ("The answer is B. Berlin is elsewhere.", "B"),
    ],
)
def test_a_later_statement_wins_until_a_new_question_begins(text: str, label: str) -> None:
    reading = read_choice(text, CITIES)
    assert reading is not None
    assert reading.label == label


def test_two_choices_of_equal_text_are_not_told_apart() -> None:
    assert read_choice("The answer is Paris.", ["Paris", "paris", "Rome"]) is None


def test_labels_may_be_numbers_or_the_tasks_own() -> None:
    assert read_choice("The answer is 2.", CITIES, ["1", "2", "3"]) == ("2", "stated")
    assert read_choice("The answer is (AB).", [f"choice number {i}" for i in range(28)]) == ("AB", "stated")


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=30))
def test_any_text_gives_a_label_on_offer_or_none(text: str, choices: list[str]) -> None:
    reading = read_choice(text, choices)
    assert reading is None or len(reading.label) <= 2


def _instance(doc: dict[str, Any], *responses: str) -> Instance:
    return Instance("generate_until", doc, ("", {}), 0, resps=list(responses))


def test_the_filter_flags_what_it_cannot_read_and_keeps_the_rule() -> None:
    instances = [_instance({"choices": CITIES}, "The answer is B"), _instance({"choices": {"text": CITIES}}, "Hm.")]
    FilterEnsemble("none", [Choice(), TakeFirst]).apply(instances)
    assert [instance.filtered_resps["none"] for instance in instances] == ["B", "[invalid]"]
    assert instances[0].filtered_resps["none"].rule == "stated"
    assert [instance.unparsed.get("none") for instance in instances] == [None, [True]]


def test_a_doc_without_choices_is_an_error_that_names_its_columns() -> None:
    with pytest.raises(DataError, match="column 'choices'"):
        Choice().apply([["B"]], [{"question": "?"}])


# ---------------------------------------------------------------------- real answers, where they are at hand

REAL = Path(__file__).resolve().parents[3] / "shared" / "real" / "answers"
STATING = ("Mistral-7B-Instruct-v0.2", "Phi-3-mini-4k-instruct", "Qwen1.5-7B-Chat", "gemma-7b")
FALLING_BACK = ("Meta-Llama-3_1-8B-Instruct", "gemini-1.5-flash-002")
"""Their published letter is the last capital anywhere, where nothing is stated."""
needs_answers = pytest.mark.skipif(not REAL.is_dir(), reason="the answers of real models are not at hand")


def _answers(model: str) -> list[dict[str, Any]]:
    with gzip.open(REAL / f"{model}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _read(row: dict[str, Any]) -> str | None:
    reading = read_choice(row["output"], row["options"])
    return None if reading is None else reading.label


DIFFERENCES = {
    "names several labels and chooses none": {
        "Mistral-7B-Instruct-v0.2": "2759 11472 2098 11655 11245 7536 6320 1888 6541 2624 6457 1175 10412 1878 10832 6629 9698 2520",
        "Phi-3-mini-4k-instruct": "7508 6702",
        "Qwen1.5-7B-Chat": "6724 6320 945 5890 1127 7490 6629 4085 5905",
        "gemma-7b": "6320 6629",
    },
    "states another label later": {
        "Mistral-7B-Instruct-v0.2": "9785 590",
        "Phi-3-mini-4k-instruct": "2107 2519",
        "Qwen1.5-7B-Chat": "6157 2154 10252 1171",
    },
    "is cut off while it states another label": {
        "Mistral-7B-Instruct-v0.2": "479",
        "Phi-3-mini-4k-instruct": "4808",
    },
    "says that the label is wrong": {"Mistral-7B-Instruct-v0.2": "1010 2496"},
    "names a label that is not on offer": {"Mistral-7B-Instruct-v0.2": "11275"},
}
"""Every answer whose published letter (the first one stated) is not ours, by its question, gone through by eye."""


@needs_answers
def test_stated_letters_are_read_as_published_but_where_the_text_says_otherwise() -> None:
    rows = [(model, row) for model in STATING for row in _answers(model) if row["published"]]
    differing = {(model, row["question_id"]): _read(row) for model, row in rows if _read(row) != row["published"]}
    known = {
        (m, int(i)): why for why, by_model in DIFFERENCES.items() for m, ids in by_model.items() for i in ids.split()
    }
    assert (len(rows), len(known)) == (1997, 44)
    assert differing.keys() == known.keys()
    assert {known[one] for one, ours in differing.items() if ours is not None} == {"states another label later"}
    several = list(known.values()).count("names several labels and chooses none")
    assert (len(rows) - len(known)) / (len(rows) - several) >= 0.99


@needs_answers
def test_texts_without_a_published_letter_stay_unread_unless_they_state_one() -> None:
    """All that ours reads, and 90 others, were gone through by eye: each states its letter, mostly as "the closest
    option is (X)", which the publishers' pattern does not know."""
    rows = [row for model in STATING for row in _answers(model) if not row["published"]]
    assert (len(rows), sum(_read(row) is not None for row in rows)) == (403, 65)


@needs_answers
def test_the_last_capital_of_a_text_is_no_answer() -> None:
    rows = [row for model in FALLING_BACK for row in _answers(model)]
    for row in rows:
        if "cannot answer" in row["output"][-120:] or "cannot provide" in row["output"][-120:]:
            assert _read(row) is None, row["output"][-120:]
    unread = [row for row in rows if _read(row) is None]
    assert 55 <= len(unread) <= 80
