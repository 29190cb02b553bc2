"""Every cell of the table of stylers, and the words of each language."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ConfigError, DataError
from assay.tasks import (
    STYLERS,
    BPBStyle,
    ClozeStyle,
    MCCompletionStyle,
    MCStyle,
    TaskStyler,
    answer_key_to_index,
    format_mc_prompt,
    get_n_letters,
    shuffle_correct_with_distractors,
)
from assay.tasks.styles import make_styler, metric_name

Q, CHOICES = "Capital of France?", ["Berlin", "Paris", "London"]
LISTED = "Question: Capital of France?\nA. Berlin\nB. Paris\nC. London\n"
ASKED = "Question: Capital of France?\n"


@pytest.mark.parametrize(
    ("styler", "response_type", "task_style", "metrics"),
    [
        (MCStyle(), "loglikelihoods", "multiple_choice", ("acc", "acc_norm", "gold_bits_per_byte")),
        (MCCompletionStyle(), "completion", "multiple_choice", ("exact_match",)),
        (ClozeStyle(), "loglikelihoods", "cloze", ("acc", "acc_norm", "gold_bits_per_byte")),
        (BPBStyle(), "loglikelihoods", "bpb", ("gold_bits_per_byte",)),
    ],
)
def test_kind(styler: TaskStyler, response_type: str, task_style: str, metrics: tuple[str, ...]) -> None:
    assert (styler.response_type, styler.task_style) == (response_type, task_style)
    assert tuple(metric_name(metric) for metric in styler.metrics) == metrics
    assert styler.get_extra_metadata() == {"task_style": task_style}


@pytest.mark.parametrize(
    ("styler", "instruction", "truth", "completions", "target"),
    [
        (MCStyle(), LISTED, " B", [" A", " B", " C"], "Answer: B"),
        (
            MCStyle(space_prefixed_labels=True),
            "Question: Capital of France?\n A. Berlin\n B. Paris\n C. London\n",
            " B",
            [" A", " B", " C"],
            "Answer: B",
        ),
        (MCCompletionStyle(), LISTED, "Paris", None, "Answer: Paris"),
        (ClozeStyle(), ASKED, " Paris", [" Berlin", " Paris", " London"], "Answer: Paris"),
        (ClozeStyle(trailing_newline=False), ASKED[:-1], " Paris", [" Berlin", " Paris", " London"], "Answer: Paris"),
        (
            ClozeStyle(leading_space_continuations=False),
            ASKED,
            "Paris",
            ["Berlin", "Paris", "London"],
            "Answer:Paris",
        ),
        (BPBStyle(), ASKED, " Paris", [" Paris"], "Answer: Paris"),
        (BPBStyle(leading_space_continuations=False), ASKED, "Paris", ["Paris"], "Answer:Paris"),
    ],
)
def test_wording(styler: TaskStyler, instruction: str, truth: str, completions: list[str] | None, target: str) -> None:
    assert styler.get_instruction_text(Q, CHOICES) == instruction
    assert styler.get_ground_truth(CHOICES, 1) == truth
    assert styler.get_possible_completions(CHOICES, 1) == completions
    assert styler.get_fewshot_target_text(CHOICES, 1) == target
    assert styler.get_cue_text() == "Answer:"


def test_bits_per_byte_needs_the_right_answer() -> None:
    with pytest.raises(ValueError, match="needs its index"):
        BPBStyle().get_possible_completions(CHOICES)


def test_the_question_line_may_be_overridden() -> None:
    class Activity(ClozeStyle):
        def get_question_text(self, raw_question: str) -> str:
            return f"activity: {raw_question}"

    assert Activity(trailing_newline=False).get_instruction_text("x", []) == "activity: x"


LANGUAGES = (
    "English German French Spanish Italian Portuguese Dutch Polish Finnish Swedish Chinese Japanese Arabic Hindi"
)


@pytest.mark.parametrize("language", LANGUAGES.split())
def test_every_language_has_words_of_its_own(language: str) -> None:
    style = MCStyle.for_language(language)
    assert style.question_prefix
    assert style.cue_text.endswith((":", "："))
    if language != "English":
        assert style.cue_text != "Answer:"


def test_languages_by_code_by_name_and_with_options() -> None:
    assert MCStyle.for_language("deu") == MCStyle("Frage: ", "Antwort:")
    assert MCStyle.for_language("de", cue_text="A:") == MCStyle("Frage: ", "A:")
    assert ClozeStyle.for_language("zh").get_fewshot_target_text(["柏林", "巴黎"], 1) == "答案：巴黎"
    assert ClozeStyle.for_language("fi").get_fewshot_target_text(["Berliini"], 0) == "Vastaus: Berliini"


def test_an_unknown_language_is_not_english() -> None:
    with pytest.raises(ConfigError, match="no words are known for the language 'Germna'") as caught:
        MCStyle.for_language("Germna")
    assert "German" in str(caught.value.hint)


def test_labels_beyond_z() -> None:
    labels = get_n_letters(60)
    assert labels[:2] + labels[25:29] + labels[51:53] == ["A", "B", "Z", "AA", "AB", "AC", "AZ", "BA"]
    many = [f"choice {i}" for i in range(30)]
    assert MCStyle().get_instruction_text(Q, many).count("\n") == 31
    assert MCStyle().get_ground_truth(many, 27) == " AB"
    assert get_n_letters(0) == []


@given(st.integers(0, 2000))
def test_labels_are_unique_and_read_back(n: int) -> None:
    label = get_n_letters(n + 1)[n]
    assert answer_key_to_index(label) == answer_key_to_index(label.lower()) == n
    assert answer_key_to_index(str(n + 1)) == n


@pytest.mark.parametrize("key", ["", "?", "0", "A1", "é"])
def test_keys_that_mean_nothing(key: str) -> None:
    with pytest.raises(DataError, match="answer key"):
        answer_key_to_index(key)


@given(st.text(), st.lists(st.text(), max_size=6), st.text())
def test_shuffling_depends_on_the_seed_text_alone(correct: str, distractors: list[str], seed: str) -> None:
    choices, index = shuffle_correct_with_distractors(correct, distractors, seed)
    assert choices[index] == correct
    assert sorted(choices) == sorted([*distractors, correct])
    order = list(range(len(choices)))
    random.Random(int(hashlib.sha256(seed.encode()).hexdigest(), 16)).shuffle(order)
    assert choices == [[*distractors, correct][i] for i in order]


def test_a_prompt_without_choices() -> None:
    assert format_mc_prompt("Q", []) == "Q\n"


@pytest.mark.parametrize(
    ("style", "message"),
    [
        ("clozee", "unknown styler 'clozee'"),
        ({"cue_text": "A"}, "names no styler"),
        ({"name": "mc", "cue": "A"}, "style mc"),
    ],
)
def test_styles_that_do_not_exist(style: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_styler(style)


def test_registered_names() -> None:
    assert {*STYLERS} >= {"bpb", "cloze", "mc", "mc_completion"}, "task files may have added theirs"
