"""Whatever comes in: a clear error or a counted health entry, never a wrong number."""

from __future__ import annotations

import math

import pytest
from tests.scoring.parts import choice, config, flagged, generation, health_of, score

from assay.errors import ScoringError
from assay.instance import Response
from assay.results import Flag, count_disagreements

GSM = {"name": "strict", "filter": ["regex", "take_first"]}
LOOSE = {"name": "loose", "filter": [{"function": "number"}, "take_first"]}


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_docs_with_impossible_loglikelihoods_are_left_out_and_counted(wrong):
    docs = [choice([-1.0, wrong], 0, 0), *(choice([-1.0, -2.0], 0, i) for i in range(1, 30))]
    found = score(config("multiple_choice"), *docs)
    assert len(found.sample_scores["acc", "none"]) == 29
    assert flagged(found, "failed") == {0}
    assert [each.failure for each in docs[0]] == [None, f"the model gave the loglikelihood {wrong}"]
    assert health_of(found).failed == 1


def test_a_probability_of_zero_is_a_probability():
    found = score(config("multiple_choice"), choice([-math.inf, -2.0], 1), choice([-math.inf, -math.inf], 0, 1))
    assert found.sample_scores["acc", "none"] == [1.0, 1.0]
    assert flagged(found, "tied") == {1}


def test_failed_requests_are_never_scored():
    docs = [generation(target="x", failure="503 from the server"), generation("x", target="x", doc_id=1)]
    found = score(config(), *docs)
    assert found.sample_scores["exact_match", "none"] == [1.0]
    assert found.doc_ids["exact_match", "none"] == [1]
    assert health_of(found).failed == 1


def test_one_failed_choice_leaves_the_doc_out():
    docs = [choice([-1.0, -2.0], 0, i) for i in range(20)]
    docs[3][1].failure, docs[3][1].resps = "time out", []
    found = score(config("multiple_choice"), *docs)
    assert flagged(found, "failed") == {3}
    assert len(found.sample_scores["acc", "none"]) == 19


def test_empty_and_truncated_answers_are_counted():
    empty = generation("  \n", target="x")
    cut = generation("x", target="x", doc_id=1, responses=[Response("x", "length")])
    whole = generation("x", target="x", doc_id=2)
    health = health_of(score(config(), empty, cut, whole))
    assert (health.empty, health.truncated) == (1, 1)


def test_a_call_of_a_tool_that_was_offered_is_no_empty_answer():
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    called = generation("", target="x", responses=[Response("", "tool_calls", tool_calls=(call,))])
    silent = generation("", target="x", doc_id=1, responses=[Response("", "stop")])
    uncalled_for = generation("", target="x", doc_id=2, responses=called[0].responses)
    for instance in (*called, *silent):
        instance.arguments = (instance.args[0], {"tools": [call]})
    assert flagged(score(config(), called, silent, uncalled_for), "empty") == {1, 2}


def test_ties_and_missing_gold_are_counted():
    docs = [choice([-1.0, -1.0], 0), choice([-1.0, -2.0], 9, 1), choice([-1.0, -2.0], "neither", 2)]
    found = score(config("multiple_choice", lm_eval_version="0.4"), *docs)
    assert found.sample_scores["acc", "none"] == [1.0, 0.0, 0.0]
    assert (flagged(found, "tied"), flagged(found, "no_gold")) == ({0}, {1, 2})


@pytest.mark.parametrize("size", [3, 30])
@pytest.mark.parametrize("version", [None, "0.5"])
def test_a_doc_without_gold_is_left_out_by_our_rules_and_those_of_0_5(version, size):
    docs = [choice([-1.0, -2.0], i % 3, i) for i in range(size)]
    found = score(config("multiple_choice", lm_eval_version=version), *docs)
    assert found.doc_ids["acc", "none"] == [i for i in range(size) if i % 3 < 2]
    assert flagged(found, "no_gold") == {i for i in range(size) if i % 3 == 2}


def test_a_generation_without_right_answer_is_left_out_unless_the_task_has_none_at_all():
    docs = [generation("x", target=None), generation("x", target="x", doc_id=1)]
    found = score(config(doc_to_target="t"), *docs)
    assert (found.doc_ids["exact_match", "none"], flagged(found, "no_gold")) == ([1], {0})
    assert flagged(score(config(), generation("x", target=None)), "no_gold") == set()


def test_an_index_before_the_first_choice_is_not_the_last_choice():
    docs = [generation("b", target=-1, choices=("a", "b")), generation("b", target=1, doc_id=1, choices=("a", "b"))]
    found = score(config(doc_to_target="t", doc_to_choice="c"), *docs)
    assert (found.sample_scores["exact_match", "none"], flagged(found, "no_gold")) == ([1.0], {0})


@pytest.mark.parametrize("docs", [5, 50])
def test_a_target_that_is_no_index_is_an_error_that_names_the_doc(docs):
    with pytest.raises(ScoringError, match=r"doc 4.*given as \{"):
        score(config("multiple_choice"), *(choice([-1.0], {"a": 1} if i == 4 else 0, i) for i in range(docs)))


def test_unparsed_answers_are_scored_and_counted():
    docs = [
        generation("#### 4", target="4"),
        generation("it is 5", target="5", doc_id=1),
        generation("?", target="6", doc_id=2),
    ]
    found = score(config(filter_list=[GSM, LOOSE]), *docs)
    assert found.sample_scores["exact_match", "strict"] == [1.0, 0.0, 0.0]
    assert (flagged(found, "unparsed", "strict"), flagged(found, "unparsed", "loose")) == ({1, 2}, {2})
    assert health_of(found).unparsed == {"strict": 2, "loose": 1}
    assert found.flags[2] == [Flag("unparsed", "strict"), Flag("unparsed", "loose")]
    assert count_disagreements(found.columns) == {"exact_match": 1}


def test_docs_dropped_by_a_filter_are_left_out_under_it_only(tmp_path):
    known = tmp_path / "known.txt"
    known.write_text("a b c\n")
    filters = [
        {"name": "clean", "filter": [{"function": "decontaminate", "path": str(known), "n": 3}, "take_first"]},
        {"name": "all", "filter": ["take_first"]},
    ]
    docs = [generation("x", target="x"), generation("x", target="x", doc_id=1)]
    docs[1][0].doc = {"id": 1, "text": "A, b; c!"}
    found = score(config(filter_list=filters), *docs)
    assert found.doc_ids == {("exact_match", "clean"): [0], ("exact_match", "all"): [0, 1]}
    assert health_of(found).left_out == {"clean": 1}


@pytest.mark.parametrize(
    "text", ["🙂" * 1000, "مرحبا بالعالم", "\u202eabc\u202c", "\x00\x01", "\ud800", "a" * 10_000_000]
)
@pytest.mark.parametrize("metric", ["exact_match", "token_f1", "bleu"])
def test_any_text_is_scored(text, metric):
    found = score(
        config(metric_list=[metric], filter_list=[{"name": "f", "filter": ["remove_whitespace", "take_first"]}]),
        generation(text, target=text),
    )
    assert found.sample_scores[metric, "f"] in ([1.0], [[text.strip(), text.strip()]], [[text, text.strip()]])


@pytest.mark.parametrize("target", [["a", "b"], [], 7, None, 2.5, ""])
def test_targets_of_any_type_do_not_crash_or_match_by_accident(target):
    if target == []:
        with pytest.raises(ScoringError, match="empty list of right answers"):
            score(config(), generation("zzz", target=target))
    else:
        assert score(config(), generation("zzz", target=target)).sample_scores["exact_match", "none"] == [0.0]


def test_a_metric_that_raises_names_everything():
    def picky(references, predictions):
        raise KeyError("answer")

    with pytest.raises(ScoringError) as error:
        score(config(metric_list=[{"metric": picky}]), generation("x", target="y", doc_id=5))
    place = f"{__file__}:{picky.__code__.co_firstlineno + 1}"
    assert error.value.message == f"task 'demo', doc 5, filter 'none', metric 'picky': {place}: KeyError: 'answer'"


def test_no_docs_are_refused():
    with pytest.raises(ScoringError, match="Cannot score empty instances"):
        score(config())
