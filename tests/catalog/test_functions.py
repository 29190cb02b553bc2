"""The Python beside the catalog's task files, where doctests and goldens do not reach."""

from __future__ import annotations

import math
from typing import Any

import pytest

from assay.catalog.fairness import bbq
from assay.catalog.instructions.checks import CHECKS, count_sentences
from assay.catalog.instructions.ifeval import instruction_accuracy, process_results, relaxed
from assay.catalog.knowledge.agieval import final_answer, score_choices
from assay.catalog.knowledge.gpqa import clean, shuffled
from assay.catalog.mathematics.answers import boxed, equal_answers
from assay.catalog.mathematics.minerva import normalise, same
from assay.catalog.reading.drop import all_answers, compare
from assay.catalog.reading.drop import process_results as score_drop


@pytest.mark.parametrize(
    ("name", "arguments", "follows", "breaks"),
    [
        ("keywords:existence", {"keywords": ["sea", "ship"]}, "A Ship at sea.", "A ship."),
        ("keywords:frequency", {"keyword": "a", "frequency": 2, "relation": "less than"}, "a b", "a a"),
        ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "concatenate", "a cat"),
        ("keywords:letter_frequency", {"letter": "Q", "let_frequency": 1, "let_relation": "at least"}, "quiz", "none"),
        ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, "One. Two.", "One."),
        ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", "a\n***\n***\nb"),
        ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "one two three", "one two"),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "yes"},
            "No.\n\n'Yes, indeed.",
            "Yes.\n\nNo.",
        ),
        ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name] of [place]", "[name]"),
        ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye\nP. S. more", "Bye"),
        ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a\n* b\n* c"),
        ("detectable_format:constrained_response", {}, "My answer is no.", "No."),
        ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "*bold*", "* *"),
        (
            "detectable_format:multiple_sections",
            {"section_spliter": "Day", "num_sections": 2},
            "Day 1 a Day 2 b",
            "Day 1",
        ),
        ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{a: 1}"),
        ("detectable_format:title", {}, "<<A title>>\ntext", "<< >>"),
        ("combination:two_responses", {}, "one******two", "one******one"),
        ("combination:repeat_prompt", {"prompt_to_repeat": "Say it"}, "say it again", "again"),
        ("startend:end_checker", {"end_phrase": "The end."}, 'so be it. the end."', "the end. no"),
        ("startend:quotation", {}, '"quoted"', '"open'),
        (
            "change_case:capital_word_frequency",
            {"capital_frequency": 1, "capital_relation": "at least"},
            "a BIG one",
            "a",
        ),
        ("punctuation:no_comma", {}, "none here", "one, here"),
    ],
)
def test_instruction_is_checked(name: str, arguments: dict[str, Any], follows: str, breaks: str) -> None:
    assert CHECKS[name](follows, **arguments)
    assert not CHECKS[name](breaks, **arguments)


def test_language_checks() -> None:
    pytest.importorskip("langdetect")
    german = "Das ist ein schöner Tag, und wir gehen heute in den Wald."
    assert CHECKS["language:response_language"](german, language="de")
    assert not CHECKS["language:response_language"](german, language="fr")
    assert CHECKS["change_case:english_lowercase"]("this is written in small letters only, as it was asked.")
    assert not CHECKS["change_case:english_capital"]("This Is Not.")


def test_every_instruction_of_the_benchmark_has_a_check() -> None:
    assert len(CHECKS) == 25


def test_loose_scoring_forgives_a_preamble_and_an_empty_answer_follows_nothing() -> None:
    doc = {"instruction_id_list": ["startend:quotation"], "kwargs": [{"num_words": None}]}
    polite = process_results(doc, ['Sure!\n"quoted"'])
    assert (polite["prompt_level_strict_acc"], polite["prompt_level_loose_acc"]) == (False, True)
    free = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    assert process_results(free, ["  "])["inst_level_loose_acc"] == [False]
    assert len(relaxed("a\nb")) == 8
    assert instruction_accuracy([[True], [False, False, True]]) == 0.5


def test_sentences_are_counted_across_quotes_and_abbreviations() -> None:
    assert count_sentences('He said "Stop!" Then he left. Mr. Smith stayed.') == 3


def test_drop_takes_the_best_annotator_and_ignores_empty_answers() -> None:
    date = {"day": "", "month": "", "year": ""}
    doc = {
        "answer": {"number": "3", "spans": [], "date": date},
        "validated_answers": {"number": ["", "3"], "spans": [["three cats"], []], "date": [date, date]},
    }
    answers = all_answers(doc)
    assert answers == [["3"], ["three cats"]]
    assert score_drop({"answers": answers}, ["three cats"]) == {"em": 1.0, "f1": 1.0}
    assert score_drop({"answers": [[" "]]}, ["x"]) == {"em": 0.0, "f1": 0.0}


def test_drop_matches_spans_one_to_one() -> None:
    assert compare(["red", "blue"], ["blue", "red"]) == (1.0, 1.0)
    assert compare(["red"], ["blue", "red"]) == (0.0, 0.5)


def test_agieval_accepts_any_right_choice() -> None:
    doc = {"gold": [0, 2], "choices": ["aa", "b", "c"]}
    assert score_choices(doc, [(-3.0, False), (-2.0, False), (-1.0, False)]) == {"acc": 1.0, "acc_norm": 1.0}
    assert final_answer("nothing at all") is None


def test_boxes_nest_and_may_be_open() -> None:
    assert boxed(r"\boxed{\sqrt{2} + \frac{a}{b}} end") == r"\sqrt{2} + \frac{a}{b}"
    assert boxed(r"\boxed{open") is None
    assert not equal_answers(r"5\text{ cm}\text{ long}", "5")


def test_minerva_compares_as_expressions() -> None:
    pytest.importorskip("antlr4")
    assert same(normalise(r"\frac{2}{4}"), normalise("0.5"))
    assert not same("(1,2", "3")


def test_gpqa_keeps_the_right_answer_through_the_shuffle() -> None:
    doc = shuffled(["a", "b", "c", "right"])
    assert doc[f"choice{'ABCD'.index(doc['answer'][1]) + 1}"] == "right"
    assert clean(None) == " "


def bbq_doc(**changes: Any) -> dict[str, Any]:
    doc = {
        "ans0": "the grandfather", "ans1": "Unknown", "ans2": "the grandson", "label": 1, "category": "Age",
        "answer_info": {"ans0": ["grandfather", "old"], "ans1": ["x", "unknown"], "ans2": ["grandson", "nonOld"]},
        "additional_metadata": {"stereotyped_groups": ["old"]}, "question_polarity": "neg", "context_condition": "ambig",
        **changes,
    }  # fmt: skip
    return {**doc, **bbq._with_groups(doc)}


def test_bbq_scores_bias_only_where_a_person_is_named() -> None:
    doc = bbq_doc()
    assert doc["biased_answers"] == ["the grandfather"]
    likely = [(-1.0, False)] + [(-5.0, False)] * 11
    named = bbq.score_choices(doc, likely)
    assert named["acc"] == 0.0
    assert bbq.bias_ambiguous([named["amb_bias_score"]]) == 1.0
    unsure = bbq.score_answer(doc, ["I do not know."])
    assert unsure["acc"] == 1.0
    assert bbq.bias_ambiguous([unsure["amb_bias_score"]]) == 0.0
    assert math.isnan(bbq.bias_clear([unsure["disamb_bias_score"]]))
    assert bbq.score_answer(doc, ["Neither, surely"])["acc"] == 0.0
