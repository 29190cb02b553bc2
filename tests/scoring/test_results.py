"""Results of docs, and what a scorer gives back."""

from __future__ import annotations

import pytest
from tests.scoring.parts import choice, config, generation, score

from assay.config import FilterConfig, MetricConfig
from assay.errors import ConfigError, ScoringError
from assay.metrics import METRICS, Metric
from assay.results import MetricKey, count_disagreements
from assay.scoring import GenResult, MCResult, Results, ScoringContext, ScoringResult


def test_results_create_picks_the_kind():
    doc = choice([-1.0, -2.0], 0, choices=["é", "b"])
    found = Results.create(doc)
    assert isinstance(found, MCResult)
    assert (found.char_lens, found.byte_lens, found.scored_bytes) == ([1, 1], [2, 1], [3, 2])
    assert found.to_metric_inputs() is found
    text = Results.create(generation("a", "b", target="t"))
    assert isinstance(text, GenResult)
    assert isinstance(text, Results)
    assert text.to_metric_inputs() == {"predictions": ["a"], "references": "t"}


def test_a_filter_that_was_not_applied_is_named():
    with pytest.raises(ScoringError, match=r"(?s)filter 'strict'.*none"):
        GenResult.from_instances(generation("x"), "strict")


def test_merging_results_never_overwrites():
    a = ScoringResult({("acc", "none"): [1.0]}, doc_ids={("acc", "none"): [0]})
    b = ScoringResult({("acc", "other"): [0.0]}, doc_ids={("acc", "other"): [0]})
    assert set(a.merge(b).sample_scores) == {("acc", "none"), ("acc", "other")}
    with pytest.raises(ScoringError, match="acc under none"):
        a.merge(a)


def test_the_context_prefers_the_filters_metrics():
    task = config(metric_list=["exact_match"])
    own = FilterConfig(name="own", metric_list=[MetricConfig(metric="bleu")])
    assert [m.name for m in ScoringContext({}, own, task).metrics] == ["bleu"]
    assert [m.name for m in ScoringContext({}, FilterConfig(name="x"), task).metrics] == ["exact_match"]


def test_results_are_made_by_hand_as_metrics_of_ones_own_need_them():
    text = GenResult(results=["4"], target="4", repeats=1)
    assert text.to_metric_inputs() == {"predictions": ["4"], "references": "4"}
    doc = MCResult(lls=[-1.0, -2.0], is_greedy=[True, False], target=0, choices=["é", "bb"])
    assert (doc.char_lens, doc.byte_lens, doc.results) == ([1, 2], [2, 2], [-1.0, -2.0])
    assert METRICS["acc_norm"].fn(MCResult([-1.0, -2.0], [True, False], 1, (), ["a", "b"], [1, 4])) == 1.0


def test_mutual_information_can_be_left_unused():
    doc = choice([-4.0, -3.0, -9.0, -1.0], 0, choices=["a", "b"])
    assert MCResult.from_instances(doc, acc_mutual_info=True).lls_mutual_info == [5.0, -2.0]
    assert MCResult.from_instances(doc, acc_mutual_info=False).lls_mutual_info == []


# ---------------------------------------------------------------------- two scores of one name


def four_docs():
    return [generation("A", target="a", doc_id=i) for i in range(4)]


def test_two_metrics_of_one_name_are_an_error_and_not_one_score_of_twice_the_docs():
    task = config(metric_list=["exact_match", {"metric": "exact_match", "ignore_case": True}])
    with pytest.raises(ConfigError, match="two metrics under filter 'none' are named 'exact_match'"):
        score(task, *four_docs())
    choices = [choice([-1.0, -2.0], 0, i) for i in range(20)]
    with pytest.raises(ConfigError, match="are named 'acc'"):
        score(config("multiple_choice", metric_list=["acc", "acc"]), *choices)


def test_two_filters_of_one_name_are_an_error():
    filters = [{"name": "n", "filter": ["take_first"]}, {"name": "n", "filter": ["lowercase", "take_first"]}]
    with pytest.raises(ConfigError, match="two filters are named 'n'"):
        score(config(filter_list=filters), *four_docs())


def test_metrics_that_name_their_scores_by_their_arguments_may_stand_there_twice():
    def at(references, predictions, k):
        return {f"at@{k}": float(k)}

    every = [{"name": "all", "filter": []}]
    listed = [{"metric": "maj@k", "k": 1}, {"metric": "maj@k", "k": 2}, {"metric": at, "k": 1}, {"metric": at, "k": 3}]
    found = score(config(filter_list=every, metric_list=listed), generation("4", "4", target="4"))
    assert [name for name, _ in found.sample_scores] == ["maj@1", "maj@2", "at@1", "at@3"]
    with pytest.raises(ScoringError, match=r"doc 0 has two values of at@1 under filter 'all'"):
        score(config(filter_list=every, metric_list=[*listed, {"metric": at, "k": 1}]), generation("4", "4", target=""))


def test_a_doc_has_one_value_of_a_score():
    given = ScoringResult({("acc", "none"): [1.0]}, doc_ids={("acc", "none"): [3]})
    result = given.completed({i: choice([-1.0], 0, i) for i in (3, 4)}, config("multiple_choice"))
    result.add(MetricKey("acc"), 4, 0.0)
    with pytest.raises(ScoringError, match="doc 3 has two values"):
        result.add(MetricKey("acc"), 3, 0.0)


# ---------------------------------------------------------------------- aggregation and direction


def test_filters_aggregate_the_same_metric_each_in_its_own_way():
    filters = [
        {"name": name, "filter": ["take_first"], "metric_list": [{"metric": "exact_match", "aggregation": way}]}
        for name, way in (("a", "mean"), ("b", "median"))
    ]
    found = score(config(filter_list=filters), *four_docs())
    assert [found.columns["exact_match", name].aggregation.name for name in "ab"] == ["mean", "median"]


def test_process_results_is_aggregated_as_the_filters_own_metric_list_says():
    own = [{"metric": "cost", "aggregation": "median", "higher_is_better": False}]
    filters = [
        {"name": "own", "filter": ["take_first"], "metric_list": own},
        {"name": "plain", "filter": ["take_first"]},
    ]
    found = score(config(process_results=lambda doc, results: {"cost": 2.0}, filter_list=filters), *four_docs())
    how = {key: (column.aggregation.name, column.higher_is_better) for key, column in found.columns.items()}
    assert how == {("cost", "own"): ("median", False), ("cost", "plain"): ("mean", None)}


def test_a_metric_for_many_docs_at_once_keeps_values_between_zero_and_one(monkeypatch):
    half = Metric("half", lambda result: 0.5, "choice", batch=lambda batch: 0.5 + 0 * batch.lls[:, 0])
    monkeypatch.setitem(METRICS._entries, "half", half)
    found = score(config("multiple_choice", metric_list=["half"]), *(choice([-1.0, -2.0], 0, i) for i in range(20)))
    assert found.sample_scores["half", "none"] == [0.5] * 20


def test_filters_are_compared_by_values_of_any_kind():
    filters = [{"name": "a", "filter": ["take_first"]}, {"name": "b", "filter": ["take_first"]}]
    docs = [choice([-1.0, -2.0], 0, i) for i in range(3)]
    found = score(config("multiple_choice", filter_list=filters, metric_list=["brier_score", "acc"]), *docs)
    assert count_disagreements(found.columns) == {"brier_score": 0, "acc": 0}
    values = found.columns["brier_score", "b"].values
    gold, probabilities = values[1]
    values[1] = (gold, probabilities[::-1])
    assert count_disagreements(found.columns) == {"brier_score": 1, "acc": 0}
