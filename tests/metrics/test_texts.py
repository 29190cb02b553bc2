"""Exact match, token overlap and the metrics of `evaluate` without it."""

from __future__ import annotations

import builtins
import sys

import pytest

from assay.errors import MissingPackage
from assay.metrics import METRICS
from assay.metrics.hub import OFFLINE, import_for_task, load
from assay.metrics.likelihoods import count_bytes, count_words


def match(prediction, reference, **options):
    return METRICS["exact_match"].fn(predictions=[prediction], references=[reference], **options)["exact_match"]


@pytest.mark.parametrize(
    ("prediction", "reference", "options", "value"),
    [
        ("4", "4", {}, 1.0),
        ("Four.", "four", {}, 0.0),
        ("Four.", "four", {"ignore_case": True, "ignore_punctuation": True}, 1.0),
        ("$1,234", "1234", {"regexes_to_ignore": [",", r"\$"]}, 1.0),
        ("a1", "a2", {"ignore_numbers": True}, 1.0),
        # Patterns act before the case is lowered, in the order given.
        ("THE end", "end", {"regexes_to_ignore": ["the "], "ignore_case": True}, 0.0),
        ("«oui»", "oui", {"ignore_punctuation": True}, 0.0),
        (4, 4, {}, 1.0),
        ("", "", {}, 1.0),
        ("👍🏽", "👍🏽", {"ignore_case": True}, 1.0),
        ("שלום", "שלום", {"ignore_punctuation": True}, 1.0),
    ],
)
def test_exact_match(prediction, reference, options, value):
    assert match(prediction, reference, **options) == value


def test_token_overlap_takes_the_best_reference():
    f1 = METRICS["squad_f1"].fn(references=["the cat", "a black dog"], predictions=["The black dog!"])
    assert f1 == 1.0
    assert METRICS["squad_em"].fn(references=["A cat."], predictions=["cat"]) == 1.0
    assert METRICS["token_f1"].fn(references=["a b"], predictions=["a c"]) == 0.5
    assert METRICS["token_f1"].fn(references=[""], predictions=[""]) == 1.0
    assert METRICS["token_f1"].fn(references=["a"], predictions=[""]) == 0.0


def test_rouge_by_name():
    assert METRICS["rouge1"].fn(references=["the cat sat"], predictions=["the cat"]) == pytest.approx(0.8)
    assert METRICS["rouge2"].fn(references=["the cat sat"], predictions=["sat cat the"]) == 0.0
    assert METRICS["rougeL"].fn(references=["x", "the cat"], predictions=["the cat"]) == 1.0


def test_word_and_byte_counts():
    assert count_words("one  two\n three") == 3
    assert count_words(" one ") == 3
    assert count_bytes("é") == 2
    assert count_bytes("\udcff") == 3


def test_evaluate_metrics_without_a_hub():
    assert load("exact_match").compute(predictions=["a"], references=["a"]) == {"exact_match": 1.0}
    assert load("accuracy").compute(predictions=[1, 0], references=[1, 1]) == {"accuracy": 0.5}
    assert load("f1").compute(predictions=[1, 0, 2], references=[1, 1, 2], average="macro")["f1"] == pytest.approx(
        5 / 9
    )
    assert load("matthews_correlation").compute(predictions=[1, 0], references=[1, 0]) == {"matthews_correlation": 1.0}
    assert load("rouge").compute(predictions=["a b"], references=[["a b", "c"]])["rouge1"] == 1.0
    assert load("sacrebleu").compute(predictions=["a b c d e"], references=[["a b c d e"]])["score"] == pytest.approx(
        100
    )
    assert load("chrf").compute(predictions=["abc"], references=[["abc"]])["score"] == 100
    assert load("ter").compute(predictions=["a b"], references=[["a b"]])["score"] == 0


def test_bleu_of_evaluate_is_unsmoothed_and_between_zero_and_one():
    whole = load("bleu").compute(predictions=["the cat sat on the mat"], references=[["the cat sat on the mat", "a"]])
    assert whole["bleu"] == 1.0
    assert load("bleu").compute(predictions=["a b"], references=["a c"])["bleu"] == 0.0
    assert load("bleu").compute(predictions=[""], references=["a"])["bleu"] == 0.0


def test_metrics_collect_before_they_compute():
    metric = load("accuracy")
    metric.add(prediction=1, reference=1)
    metric.add_batch(predictions=[0, 1], references=[1, 1])
    assert metric.compute() == {"accuracy": pytest.approx(2 / 3)}


def test_squad_v2_counts_answerable_and_unanswerable_questions():
    predictions = [
        {"id": "1", "prediction_text": "the Normans", "no_answer_probability": 0.0},
        {"id": "2", "prediction_text": "", "no_answer_probability": 1.0},
        {"id": "3", "prediction_text": "wrong", "no_answer_probability": 0.2},
    ]
    references = [
        {"id": "1", "answers": {"text": ["Normans"], "answer_start": [0]}},
        {"id": "2", "answers": {"text": [], "answer_start": []}},
        {"id": "3", "answers": {"text": [], "answer_start": []}},
    ]
    found = load("squad_v2").compute(predictions=predictions, references=references)
    assert found["exact"] == found["f1"] == pytest.approx(200 / 3)
    assert (found["total"], found["HasAns_total"], found["NoAns_total"]) == (3, 1, 2)
    assert (found["HasAns_exact"], found["NoAns_exact"]) == (100.0, 50.0)
    assert found["best_exact"] == 100.0


def test_squad_is_in_percent():
    row = {"id": "1", "answers": {"text": ["a cat", "dog"], "answer_start": [0, 0]}}
    found = load("squad").compute(predictions=[{"id": "1", "prediction_text": "Cat"}], references=[row])
    assert found == {"exact_match": 100.0, "f1": 100.0}


def test_task_modules_see_the_stand_in_and_others_the_package():
    module = import_for_task("evaluate")
    assert module.load("f1").name == "f1"
    assert sys.modules.get("evaluate") is not module
    assert import_for_task("numpy") is None
    chain = import_for_task("transformers.data.metrics.squad_metrics", ())
    assert chain.data.metrics.squad_metrics.compute_f1("a cat", "the cat") == 1.0
    assert import_for_task("transformers.data.metrics", ("squad_metrics",)).squad_metrics.compute_exact("A", "a") == 1


def test_a_metric_nobody_has_names_the_package(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "evaluate":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingPackage, match="bleurt"):
        load("bleurt")
    assert "code_eval" in OFFLINE


@pytest.mark.parametrize("name", ["sacrebleu", "chrf", "ter"])
def test_docs_with_more_references_than_others_keep_them(name):
    predictions = ["the cat sat on the mat", "a dog runs in the park"]
    references = [["no words in common here", "the cat sat on the mat"], ["a dog runs in the park"]]
    found = load(name).compute(predictions=predictions, references=references)["score"]
    assert found == pytest.approx(0.0 if name == "ter" else 100.0)
