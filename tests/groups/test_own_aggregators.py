"""Aggregators and scorers of one's own: functions, classes, and what happens when they fail."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from parts import ACC, PLAIN, Leaf, fresh_keys, group_score, manager_of, mean_score, plain_group, scores_of

from assay.config import GroupConfig
from assay.errors import ConfigError, ScoringError
from assay.groups import (
    AGGREGATORS,
    Aggregator,
    AggregatorFactory,
    CustomAggregator,
    Group,
    HarmonicMeanAggregator,
    MeanAggregator,
    NoOpAggregator,
    PassAtKAggregator,
)
from assay.results import MetricKey, Score
from assay.stats import Estimate


def spread_of_samples(values: dict[str, float], samples: dict[str, np.ndarray]) -> float:
    return float(np.mean(np.concatenate(list(samples.values()))))


def test_a_function_may_ask_for_samples_and_gets_an_error_bar_for_free() -> None:
    rng = np.random.default_rng(0)
    scores = {n: {ACC: mean_score(rng.random(200), fresh_keys(rng, 200))} for n in "ab"}
    score = group_score(scores, aggregation=spread_of_samples)
    pooled = group_score(scores, missing="undefined")
    assert score.estimate.value == pytest.approx(pooled.estimate.value)
    assert score.estimate.stderr == pytest.approx(pooled.estimate.stderr, rel=0.2)
    assert score.aggregation == "spread_of_samples"


def test_a_function_that_raises_or_returns_no_number_is_named() -> None:
    scores = scores_of(a=0.5, b=0.5)
    with pytest.raises(ScoringError, match=r"group 'g', acc,none: .*'broken' raised .*KeyError"):
        group_score(scores, aggregation=_broken)
    with pytest.raises(ScoringError, match="returned 'high'"):
        group_score(scores, aggregation=lambda values: "high")
    with pytest.raises(ScoringError, match="returned"):
        group_score(scores, aggregation=lambda values: [1, 2])
    with pytest.raises(ConfigError, match="takes no values"):
        group_score(scores, aggregation=lambda: 1)
    assert group_score(scores, aggregation=lambda values: None).estimate.value is None
    bare = Score(Estimate.bare(0.5, 5, "x"), 5)
    with pytest.raises(ScoringError, match="no sample values"):
        group_score({"a": {ACC: bare}}, aggregation=spread_of_samples)


def _broken(values: dict[str, float]) -> float:
    return values["nowhere"]


_broken.__name__ = "broken"


def test_replicates_without_a_value_are_left_out_and_many_withhold_the_error_bar() -> None:
    scores = scores_of(a=0.5, b=0.52)
    rare = group_score(scores, aggregation=lambda values: 1 / values["a"])
    assert rare.estimate.stderr is not None
    often = group_score(scores, aggregation=lambda values: math.sqrt(values["b"] - values["a"]))
    assert (often.estimate.stderr, often.estimate.value) == (None, pytest.approx(math.sqrt(0.02)))
    assert "of the replicates" in often.estimate.method


class RangeAggregator(Aggregator):
    """A class written against plain dictionaries, as the seed of this design shows them."""

    def aggregate(self, group: Group, task_results: Any) -> dict[str, Any]:
        values = [task_results[t.task_name]["acc,none"] for t in group.get_all_tasks()]
        return {"acc,none": max(values) - min(values)}


def test_a_registered_class_is_lifted_as_it_is() -> None:
    AGGREGATORS.add("range", RangeAggregator)
    score = group_score(scores_of(a=0.3, b=0.8), aggregation="range")
    assert score.estimate.value == pytest.approx(0.5)
    assert score.estimate.stderr == pytest.approx(math.sqrt(0.3 * 0.7 / 100 + 0.8 * 0.2 / 100), rel=0.15)


def test_a_group_scorer_adds_numbers_with_error_bars() -> None:
    def gap(values: dict[str, dict[str, float]]) -> dict[str, float | None]:
        return {"gap": values["b"]["acc,none"] - values["a"]["acc,none"], "ratio,strict": None}

    scores = scores_of(a=0.3, b=0.8)
    manager = manager_of({"g": {"task": ["a", "b"], "scorer": gap}}, ["a", "b"])
    found = manager.score_groups(scores)["g"]
    assert found[MetricKey("gap")].estimate.value == pytest.approx(0.5)
    assert found[MetricKey("gap")].estimate.stderr == pytest.approx(0.061, rel=0.15)
    assert found[MetricKey("ratio", "strict")].estimate.undefined == "gap returned no value"
    for wrong, message in [
        (lambda v: 3, "returned 3"),
        (lambda v: {"x": "y"}, "gives x = 'y'"),
        (lambda v: v["q"], "raised .*KeyError"),
    ]:
        with pytest.raises(ScoringError, match=message):
            manager_of({"g": {"task": ["a", "b"], "scorer": wrong}}, ["a", "b"]).score_groups(scores)


def lowest(group: Group, task_results: Any, share: float = 1.0) -> dict[str, Any]:
    """A function as the seed's `CustomAggregator` takes it."""
    (key,) = {key for found in task_results.values() for key in found if key.startswith("acc,")}
    return {key: share * min(task_results[t.task_name][key] for t in group.get_all_tasks())}


def test_a_function_of_the_group_and_its_dictionaries_is_an_aggregator_too() -> None:
    score = group_score(scores_of(a=0.3, b=0.8), aggregation=lowest, kwargs={"share": 0.5})
    assert score.estimate.value == pytest.approx(0.15)
    assert score.estimate.stderr == pytest.approx(0.5 * math.sqrt(0.3 * 0.7 / 100), rel=0.15)
    assert score.aggregation == "lowest"
    with pytest.raises(ScoringError, match="returned f1 but not acc"):
        group_score(scores_of(a=0.3), aggregation=lambda group, task_results: {"f1": 1.0})


def test_it_finds_its_numbers_under_any_filter() -> None:
    strict = {name: {MetricKey("acc", "strict"): found[ACC]} for name, found in scores_of(a=0.3, b=0.8).items()}
    entry = {"metric": "acc", "aggregation": lowest}
    manager = manager_of({"g": {"task": ["a", "b"], "aggregate_metric_list": [entry]}}, ["a", "b"])
    assert manager.score_groups(strict)["g"][MetricKey("acc", "strict")].estimate.value == pytest.approx(0.3)


class LowestByConfig(Aggregator):
    """Knows the filter whose turn it is from its config."""

    def aggregate(self, group: Group, task_results: Any) -> dict[str, Any]:
        (entry,) = self.agg_metric_configs
        (name,) = entry.filter_list
        key = f"{entry.metric},{name}"
        return {key: min(results[key] for results in task_results.values())}


def test_a_class_is_told_one_filter_at_a_time() -> None:
    results = {"a": {"acc,strict": 0.3, "acc,loose": 0.6}, "b": {"acc,strict": 0.2, "acc,loose": 0.7}}
    expected = {"acc,loose": 0.6, "acc,strict": 0.2}
    assert plain_group(aggregation=LowestByConfig).compute_metrics(results) == expected
    both = plain_group(aggregation=LowestByConfig, filter_list=["strict", "loose"])
    assert both.compute_metrics(results) == expected
    mean = plain_group(aggregation=MeanAggregator, filter_list=["strict", "loose"])
    assert mean.compute_metrics(results) == {"acc,strict": pytest.approx(0.25), "acc,loose": pytest.approx(0.65)}


def test_the_factory_hands_the_function_over() -> None:
    group = Group("g", aggregate_metric_list=[{"metric": "acc", "aggregation": lowest}])
    for name in "ab":
        group.add(Leaf(name))
    results = {"a": {"acc,none": 0.3, "samples": 10}, "b": {"acc,none": 0.8, "samples": 10}}
    made = AggregatorFactory.create_aggregator(group.config)
    assert isinstance(made, CustomAggregator)
    assert made.aggregate(group, results) == {"acc,none": 0.3}
    assert group.compute_metrics(results) == {"acc,none": 0.3}


def test_classes_over_dictionaries() -> None:
    def config(*entries: dict[str, Any]) -> GroupConfig:
        return GroupConfig(group="g", aggregate_metric_list=[{"metric": "acc", **e} for e in entries] or None)

    group = plain_group()
    assert isinstance(AggregatorFactory.create_aggregator(config()), NoOpAggregator)
    assert AggregatorFactory.create_aggregator(config()).aggregate(group, PLAIN) == {}
    mean = AggregatorFactory.create_aggregator(config({}))
    assert isinstance(mean, MeanAggregator)
    assert mean.aggregate(group, PLAIN) == {"acc,none": pytest.approx(0.725)}
    assert HarmonicMeanAggregator(config({})).aggregate(group, PLAIN)["acc,none"] == pytest.approx(2 / 3.25)
    assert isinstance(
        AggregatorFactory.create_aggregator(config({"aggregation": "harmonic_mean"})), HarmonicMeanAggregator
    )
    assert isinstance(AggregatorFactory.create_aggregator(config({"aggregation": "pass@k"})), PassAtKAggregator)
    results = {"a": {"pass@2,none": 0.5, "sample_len": 1}, "b": {"pass@2,none": 1.0, "sample_len": 3}}
    two = PassAtKAggregator(GroupConfig(group="g", aggregate_metric_list=[{"metric": "pass@2"}]), k=2)
    assert two.aggregate(group, results) == {"pass@2,none": pytest.approx(0.875)}
    assert CustomAggregator(config(), lambda g, r: {"n": len(r)}).aggregate(group, PLAIN) == {"n": 2}
    custom = AggregatorFactory.create_aggregator(config({"aggregation": lambda values: 7}))
    assert isinstance(custom, CustomAggregator)
    assert custom.aggregate(group, PLAIN) == {"acc,none": 7.0}
    with pytest.raises(ConfigError, match="unknown aggregator"):
        AggregatorFactory.create_aggregator(config({"aggregation": "meen"}))
