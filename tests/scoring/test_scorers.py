"""Scorers: the loop filter → doc → metric, for every output type."""

from __future__ import annotations

import os
import threading

import pytest
from tests.scoring.parts import choice, config, flagged, generation, score

from assay.errors import ConfigError, ScoringError
from assay.instance import Instance, Response
from assay.scoring import (
    CustomScorer,
    GenerateScorer,
    LoglikelihoodScorer,
    MultipleChoiceScorer,
    RollingScorer,
    scorer_for,
)


@pytest.mark.parametrize(
    ("output_type", "kind"),
    [
        ("generate_until", GenerateScorer),
        ("multiple_choice", MultipleChoiceScorer),
        ("loglikelihood", LoglikelihoodScorer),
        ("loglikelihood_rolling", RollingScorer),
    ],
)
def test_the_output_type_decides_unless_the_task_scores_itself(output_type, kind):
    assert type(scorer_for(config(output_type))) is kind
    assert type(scorer_for(config(output_type, process_results=lambda doc, results: {}))) is CustomScorer


# ---------------------------------------------------------------------- generation


def test_generations_match_their_target():
    task = config(metric_list=[{"metric": "exact_match", "ignore_case": True}])
    found = score(task, generation("Paris", target="paris"), generation("Rome", target="Oslo", doc_id=1))
    assert found.sample_scores == {("exact_match", "none"): [1.0, 0.0]}
    assert found.doc_ids == {("exact_match", "none"): [0, 1]}


@pytest.mark.parametrize("target", [4, "4"])
def test_targets_take_the_type_of_the_response(target):
    assert score(config(), generation("4", target=target)).sample_scores["exact_match", "none"] == [1.0]


def test_the_target_may_be_the_number_of_a_choice():
    docs = [generation("yes", target=1, choices=("no", "yes"))]
    assert score(config(), *docs).sample_scores["exact_match", "none"] == [1.0]


def test_one_of_several_targets_is_enough_and_later_metrics_see_the_response_unchanged():
    """lm-evaluation-harness hands the metrics after exact_match a list of copies of the response."""
    seen = []

    def second(references, predictions):
        seen.append(predictions[0])
        return 0.5 * (references[0] == "b")

    task = config(metric_list=["exact_match", {"metric": second, "aggregation": "mean"}])
    found = score(task, generation("b", target=["a", "b"]), multiple_target=True)
    assert found.sample_scores == {("exact_match", "none"): [1.0], ("second", "none"): [1.0]}
    assert seen == ["b", "b"]


def test_the_first_doc_decides_whether_a_list_means_several_targets():
    doc = generation("['a', 'b']", target=["a", "b"])
    assert score(config(), doc, multiple_target=False).sample_scores["exact_match", "none"] == [1.0]
    assert score(config(), doc, multiple_target=True).sample_scores["exact_match", "none"] == [0.0]


def test_several_references_reach_translation_and_overlap_metrics_whole():
    task = config(metric_list=["bleu", "token_f1"])
    found = score(task, generation("a b", target=["a b", "c"]), multiple_target=True).sample_scores
    assert found["bleu", "none"] == [[["a b", "c"], "a b"]]
    assert found["token_f1", "none"] == [1.0]


def test_pairs_go_to_the_aggregation():
    found = score(config(metric_list=["bleu"]), generation("x", target="y"))
    assert found.sample_scores["bleu", "none"] == [["y", "x"]]
    assert found.columns["bleu", "none"].aggregation.name == "bleu"


def test_a_dict_gives_one_score_per_key_with_the_metrics_aggregation():
    def both(references, predictions, k):
        return {"short": k, "long": 10 * k}

    task = config(metric_list=[{"metric": both, "aggregation": "median", "k": 3, "higher_is_better": False}])
    found = score(task, generation("x", target="y"))
    assert found.sample_scores == {("short", "none"): [3], ("long", "none"): [30]}
    assert found.columns["long", "none"].aggregation.name == "median"
    assert found.columns["long", "none"].higher_is_better is False


def test_a_function_of_one_pair_is_called_with_it():
    def pair(items):
        return items

    assert score(config(metric_list=[{"metric": pair}]), generation("x", target="y")).sample_scores == {
        ("pair", "none"): [["y", "x"]]
    }


def test_a_type_error_inside_a_metric_is_an_error_not_another_signature():
    def broken(references, predictions):
        return None + 1

    with pytest.raises(ScoringError, match=r"task 'demo', doc 0, filter 'none', metric 'broken': .*: TypeError"):
        score(config(metric_list=[{"metric": broken}]), generation("x", target="y"))


def test_a_filters_own_metrics_come_before_the_tasks():
    filters = [
        {"name": "own", "filter": ["take_first"], "metric_list": ["squad_em"]},
        {"name": "plain", "filter": ["take_first"]},
    ]
    found = score(config(filter_list=filters, metric_list=["exact_match"]), generation("The end", target="end"))
    assert found.sample_scores == {("squad_em", "own"): [1.0], ("exact_match", "plain"): [0.0]}


def test_draws_are_scored_one_by_one_and_reduced():
    keep_all = [{"name": "all", "filter": []}]
    doc = generation("4", "5", "4", "4", target="4")
    for reducer, expected in (
        (None, 0.75),
        ("pass@2", 1.0),
        ("pass^2", 0.5),
        ("first", 1.0),
        ("min", 0.0),
        ("pass@9", None),
    ):
        task = config(filter_list=keep_all, metric_list=[{"metric": "exact_match", "reducer": reducer}], repeats=4)
        found = score(task, doc)
        assert found.sample_scores["exact_match", "all"] == [expected]
        assert found.columns["exact_match", "all"].draw_counts == [(4, 3)]


def test_a_number_is_compared_with_every_draw_as_text():
    keep_all = [{"name": "all", "filter": []}]
    task = config(filter_list=keep_all, metric_list=["exact_match", {"metric": "maj@k", "k": 2}], repeats=2)
    found = score(task, generation("5", "5", target=5), generation("5", "6", target=6.0, doc_id=1))
    assert found.sample_scores == {("exact_match", "all"): [1.0, 0.0], ("maj@2", "all"): [1.0, 0.0]}
    assert found.columns["exact_match", "all"].draw_counts == [(2, 2), (2, 0)]


def test_metrics_that_want_all_draws_get_them():
    def pass_at_k(references, predictions, k):
        return {f"pass@{k}": float(references[0] in predictions[0])}

    task = config(
        filter_list=[{"name": "all", "filter": []}],
        metric_list=[{"metric": pass_at_k, "k": 2}, {"metric": "maj@k", "k": 1}],
    )
    found = score(task, generation("4", "5", target="4"))
    assert found.sample_scores == {("pass@2", "all"): [1.0], ("maj@1", "all"): [0.5]}


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is one core")
def test_tasks_that_run_code_score_several_docs_at_once_and_keep_their_order():
    together = threading.Barrier(2, timeout=20)

    def waits(references, predictions):
        together.wait()  # passes only if two docs are in here at the same time
        return float(predictions[0])

    task = config(unsafe_code=True, metric_list=[{"metric": waits}])
    found = score(task, *(generation(str(i), target="", doc_id=i) for i in range(4)))
    assert found.sample_scores["waits", "none"] == [0.0, 1.0, 2.0, 3.0]


# ---------------------------------------------------------------------- choices


def test_choices_small_and_in_batches_agree():
    docs = [choice([-1.0 - i % 3, -2.0, -3.0 + i % 4], i % 3, i, ["a", "bb", "ccc"]) for i in range(40)]
    task = config("multiple_choice", metric_list=["acc", "acc_norm", "acc_bytes"])
    whole = score(task, *docs)
    single = [score(task, doc) for doc in docs]
    for key, values in whole.sample_scores.items():
        assert values == [each.sample_scores[key][0] for each in single]
    assert flagged(whole, "tied") == {i for each in single for i in flagged(each, "tied")}


def test_docs_may_differ_in_their_number_of_choices():
    docs = [choice([-1.0] + [-2.0] * (i % 4), 0, i) for i in range(30)]
    assert score(config("multiple_choice"), *docs).sample_scores["acc", "none"] == [1.0] * 30


def test_mutual_information_uses_the_second_half_of_the_requests():
    doc = choice([-4.0, -3.0, -9.0, -1.0], 0, choices=["a", "b"])
    found = score(config("multiple_choice", metric_list=["acc", "acc_mutual_info"]), doc).sample_scores
    assert found == {("acc", "none"): [0.0], ("acc_mutual_info", "none"): [1.0]}


def test_tokens_are_counted_by_the_backend():
    doc = choice([-4.0, -6.0], 1)
    task = config("multiple_choice", metric_list=["acc_tokens"])
    with pytest.raises(ScoringError, match="number of tokens"):
        score(task, doc)
    doc[0].responses, doc[1].responses = [Response(None, tokens=(9, 1))], [Response(None, tokens=(9, 3))]
    assert score(task, doc).sample_scores["acc_tokens", "none"] == [1.0]


@pytest.mark.parametrize("target", [1, "b", [1, 2], ["b"], True])
def test_the_right_choice_by_index_text_or_list(target):
    assert score(config("multiple_choice"), choice([-3.0, -1.0, -2.0], target, choices=["a", "b", "c"])).sample_scores[
        "acc", "none"
    ] == [1.0]


def test_metrics_that_say_nothing_about_choices_yield_nothing():
    listed = ["acc", "perplexity", {"metric": lambda items: items}]
    task = config("multiple_choice", metric_list=listed, lm_eval_version="0.4")
    assert list(score(task, choice([-1.0], 0)).sample_scores) == [("acc", "none")]


def test_evaluate_names_mean_ours_in_choice_tasks_and_their_arguments_nothing():
    listed = [{"metric": "f1", "hf_evaluate": True, "average": "weighted"}, {"metric": "acc", "ignore_case": True}]
    found = score(config("multiple_choice", metric_list=listed), choice([-1.0, -2.0], 1)).sample_scores
    assert found == {("f1", "none"): [(1, 0)], ("acc", "none"): [0.0]}


def test_wrong_arguments_of_our_own_metrics_are_errors():
    with pytest.raises(ConfigError, match="Did you mean normalisation"):
        score(
            config("multiple_choice", metric_list=[{"metric": "prob_mass", "normalization": "bytes"}]),
            choice([-1.0], 0),
        )


# ---------------------------------------------------------------------- loglikelihoods


def test_loglikelihood_tasks_give_perplexity_and_greedy_accuracy():
    doc = [Instance("loglikelihood", {}, ("q", " a"), 0, 0, "demo", 1, " a", [(-2.5, True)])]
    assert score(config("loglikelihood"), doc).sample_scores == {("perplexity", "none"): [-2.5], ("acc", "none"): [1]}


def test_rolling_tasks_count_words_and_bytes():
    doc = [Instance("loglikelihood_rolling", {}, ("é b",), 0, 0, "demo", 1, "é b", [-6.0])]
    found = score(config("loglikelihood_rolling"), doc).sample_scores
    assert found["word_perplexity", "none"] == [(-6.0, 2)]
    assert found["bits_per_byte", "none"] == [(-6.0, 4)]


# ---------------------------------------------------------------------- process_results


def test_process_results_gets_all_filtered_responses_and_may_skip_metrics():
    def process(doc, results):
        return {"len": len(results[0])} | ({"rare": 1.0} if doc["id"] else {})

    task = config(
        process_results=process, metric_list=[{"metric": "len", "aggregation": "median", "higher_is_better": True}]
    )
    found = score(task, generation("abc"), generation("x", doc_id=1))
    assert found.sample_scores == {("len", "none"): [3, 1], ("rare", "none"): [1.0]}
    assert found.doc_ids["rare", "none"] == [1]
    assert (found.columns["len", "none"].aggregation.name, found.columns["rare", "none"].aggregation.name) == (
        "median",
        "mean",
    )
    assert [found.columns[name, "none"].higher_is_better for name in ("len", "rare")] == [True, None]


def test_a_failing_process_results_names_task_doc_and_filter():
    def process(doc, results):
        raise ValueError("no such column")

    with pytest.raises(
        ScoringError, match=r"task 'demo', doc 3, filter 'none', metric 'process_results': .*: ValueError: no"
    ):
        score(config(process_results=process), generation("x", doc_id=3))
    with pytest.raises(ScoringError, match="returned float"):
        score(config(process_results=lambda doc, results: 0.5), generation("x"))


def test_random_numbers_of_task_code_do_not_depend_on_batches_or_on_the_process():
    import random

    def process(doc, results):
        return {"draw": random.random()}

    task = config(process_results=process)
    docs = [generation("x", doc_id=i) for i in range(4)]
    random.seed(99)
    state = random.getstate()
    whole = score(task, *docs).sample_scores["draw", "none"]
    scorer, parts = scorer_for(task), []
    for half in (docs[:2], docs[2:], docs[:2]):
        parts.append(scorer.score({d[0].doc_id: d for d in half}, task).sample_scores["draw", "none"])
    assert parts[0] + parts[1] == whole
    assert parts[2] == whole[:2]
    assert random.getstate() == state
