from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts import ACC, PLAIN, Leaf, fresh_keys, group_score, manager_of, mean_score, plain_group, scores_of

from assay.errors import ConfigError
from assay.groups import Group
from assay.metrics import AGGREGATIONS
from assay.results import MetricKey, Score, Share
from assay.scoring import estimate
from assay.stats import Estimate


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, (0.5 * 10 + 0.8 * 30) / 40),
        ({"aggregation": "mean", "weight_by_size": False}, 0.65),
        ({"aggregation": "weighted_mean", "weights": {"a": 0.9, "b": 0.1}}, 0.53),
        ({"aggregation": "median"}, 0.65),
        ({"aggregation": "min"}, 0.5),
        ({"aggregation": "max"}, 0.8),
        ({"aggregation": "harmonic_mean"}, 2 / (1 / 0.5 + 1 / 0.8)),
        ({"aggregation": "geometric_mean"}, math.sqrt(0.5 * 0.8)),
        ({"aggregation": "harmonic_mean", "weight_by_size": True}, 40 / (10 / 0.5 + 30 / 0.8)),
        ({"aggregation": "geometric_mean", "weights": {"a": 0.25, "b": 0.75}}, 0.5**0.25 * 0.8**0.75),
        ({"aggregation": lambda values: values["a"] * values["b"]}, 0.4),
        ({"aggregation": lambda values, weights: max(weights, key=weights.get) == "b"}, 1.0),
        ({"aggregation": lambda values, power=1: sum(values.values()) ** power, "kwargs": {"power": 2}}, 1.69),
    ],
)
def test_each_aggregator_gives_the_number_worked_out_by_hand(entry: dict[str, Any], expected: float) -> None:
    assert plain_group(**entry).aggregate(PLAIN)["acc,none"] == pytest.approx(expected, abs=1e-12)


def test_plain_dictionaries_come_back_in_the_shape_of_a_results_file() -> None:
    result = plain_group().aggregate(PLAIN)
    pooled = math.sqrt((9 * 0.1**2 * 10 + 29 * 0.05**2 * 30) / 38 / 40)
    assert list(result) == ["alias", "name", "sample_len", "acc,none", "acc_stderr,none", "sample_count"]
    assert result["acc_stderr,none"] == pytest.approx(pooled, abs=1e-15)
    assert (result["sample_len"], result["sample_count"]) == (40, {"acc,none": 40})
    assert plain_group(weight_by_size=False).aggregate(PLAIN)["acc_stderr,none"] == pytest.approx(
        math.hypot(0.1, 0.05) / 2
    )
    assert Group("bare", alias="B").aggregate(PLAIN) == {"alias": "B", "name": "bare"}


def test_a_child_without_a_standard_error_leaves_the_group_without() -> None:
    results = {**PLAIN, "b": {**PLAIN["b"], "acc_stderr,none": "N/A"}}
    assert plain_group().aggregate(results)["acc_stderr,none"] == "N/A"
    assert plain_group(aggregation="harmonic_mean").aggregate(results)["acc_stderr,none"] == "N/A"


def test_first_order_errors_for_aggregators_on_plain_numbers() -> None:
    result = plain_group(aggregation="geometric_mean").aggregate(PLAIN)
    value = math.sqrt(0.4)
    assert result["acc_stderr,none"] == pytest.approx(value / 2 * math.hypot(0.1 / 0.5, 0.05 / 0.8), rel=1e-6)
    assert plain_group(aggregation="min").aggregate(PLAIN)["acc_stderr,none"] == pytest.approx(0.1)


def test_a_missing_metric_makes_the_number_undefined_with_the_reason_unless_skipped() -> None:
    results = {"a": PLAIN["a"], "b": {"f1,none": 0.3, "sample_len": 30}}
    strict = plain_group(aggregation="harmonic_mean")
    assert strict.aggregate(results)["acc,none"] == "N/A"
    assert plain_group(aggregation="harmonic_mean", missing="skip").aggregate(results)["acc,none"] == 0.5
    assert plain_group().aggregate(results)["acc,none"] == 0.5, "as lm-evaluation-harness does for its own entries"
    assert plain_group(missing="undefined").aggregate(results)["acc,none"] == "N/A"
    assert "acc,none" not in plain_group().aggregate({"a": {"f1,none": 1.0}}), "no task has it"


@pytest.mark.parametrize("kind", ["harmonic", "geometric"])
def test_means_that_need_positive_values_say_which_child_has_none(kind: str) -> None:
    score = group_score(scores_of(a=0.5, b=0.0, c=0.3), aggregation=f"{kind}_mean")
    assert score.estimate.value is None
    assert score.estimate.undefined == f"the {kind} mean needs values above zero, but b is 0"


def test_the_number_says_what_it_was_made_of() -> None:
    scores = {**scores_of(a=0.5, b=0.25), "c": {MetricKey("f1"): mean_score([1.0, 0.0])}}
    score = group_score(scores, missing="skip")
    assert score.children == (Share("a", 0.5, 0.5), Share("b", 0.5, 0.25))
    assert score.missing == {"c": "has no acc,none"}
    assert (score.aggregation, score.size, score.filtered_out) == ("mean", 200, ())
    estimate = score.estimate
    assert (estimate.n, estimate.undefined) == (200, None)
    assert estimate.low < estimate.value < estimate.high
    undefined = group_score(scores, missing="undefined")
    assert undefined.estimate.undefined == "c has no acc,none"


def test_undefined_and_nan_children_are_missing_with_their_reason() -> None:
    scores = scores_of(a=0.5)
    scores["b"] = {ACC: Score(Estimate.missing("all docs failed"), 0)}
    scores["c"] = {ACC: Score(Estimate.bare(float("nan"), 3, "x"), 3)}
    assert group_score(scores, missing="skip").missing == {"b": "all docs failed", "c": "has acc,none = nan"}
    assert "all docs failed" in (group_score(scores, aggregation="median").estimate.undefined or "")


def test_a_shared_leaf_counts_once() -> None:
    tree = {"all": {"task": ["x", "y"]}, "x": {"task": ["a", "b"]}, "y": {"task": ["b"]}}
    entries = [{"metric": "acc", "weight_by_size": False}]
    manager = manager_of({name: {**body, "aggregate_metric_list": entries} for name, body in tree.items()}, ["a", "b"])
    found = manager.group_entries(PLAIN)
    assert found["all"]["acc,none"] == pytest.approx(0.65), "lm-evaluation-harness gives 0.7 here: b twice"
    assert found["all"]["sample_len"] == 40


def test_over_subgroups_averages_children_not_leaves() -> None:
    tree = {
        "all": {
            "task": ["x", "c"],
            "aggregate_metric_list": [{"metric": "acc", "over": "subgroups", "weight_by_size": False}],
        },
        "x": {"task": ["a", "b"], "aggregate_metric_list": [{"metric": "acc", "weight_by_size": False}]},
    }
    scores = scores_of(a=0.2, b=0.4, c=0.9)
    manager = manager_of(tree, ["a", "b", "c"])
    score = manager.score_groups(scores)["all"][ACC]
    assert score.estimate.value == pytest.approx((0.3 + 0.9) / 2)
    assert [(c.name, c.weight) for c in score.children] == [("x", 0.5), ("c", 0.5)]
    assert len(score.draws) == 200
    plain = {n: {"acc,none": s[ACC].estimate.value, "sample_len": 100} for n, s in scores.items()}
    assert manager.groups["all"].aggregate(plain)["acc,none"] == pytest.approx(0.6)


def test_a_subgroup_is_computed_before_all_that_run_over_it() -> None:
    """`y` holds `z`, which the root lists first."""
    over = {"aggregate_metric_list": [{"metric": "acc", "over": "subgroups", "missing": "undefined"}]}
    tree = {"root": {"task": ["z", "y"], **over}, "y": {"task": ["z", "b"], **over}, "z": {"task": ["a"], **over}}
    root = manager_of(tree, ["a", "b"]).groups["root"]
    assert [group.name for group in root.bottom_up()] == ["z", "y", "root"]
    numbers = {"a": {"acc,none": 0.5, "sample_len": 10}, "b": {"acc,none": 0.8, "sample_len": 30}}
    assert root.compute_metrics(numbers) == {"acc,none": pytest.approx((0.5 * 10 + 0.725 * 40) / 50)}


def test_entries_of_one_group_keep_their_own_aggregator_and_filters() -> None:
    group = Group(
        "g",
        aggregate_metric_list=[
            {"metric": "acc", "aggregation": "max"},
            {"metric": "f1", "aggregation": "min", "filter_list": ["s", "l"]},
        ],
    )
    for name in "ab":
        group.add(Leaf(name))
    results = {"a": {"acc,none": 0.1, "f1,s": 0.2, "f1,l": 0.3}, "b": {"acc,none": 0.4, "f1,s": 0.5, "f1,l": 0.1}}
    assert group.compute_metrics(results) == {"acc,none": 0.4, "f1,s": 0.2, "f1,l": 0.1}


def test_filters_are_found_in_the_results_where_none_are_named() -> None:
    results = {"a": {"acc,x": 0.1, "acc,y": 0.3, "acc_norm,z": 1.0}, "b": {"acc,x": 0.3}}
    group = plain_group()
    assert group.compute_metrics(results) == {"acc,x": 0.2, "acc,y": 0.3}


def lower(group: Group, task_results: Any) -> dict[str, Any]:
    (key,) = {key for results in task_results.values() for key in results if key.startswith("acc,")}
    return {key: min(results[key] for results in task_results.values())}


@pytest.mark.parametrize(
    ("aggregation", "value"), [("mean", 0.725), ("min", 0.5), (lambda values: sum(values.values()), 1.3), (lower, 0.5)]
)
@pytest.mark.parametrize("named", [True, False])
def test_the_name_of_a_filter_may_have_a_comma(aggregation: Any, value: float, named: bool) -> None:
    name = "strip, then first"
    results = {
        task: {f"acc,{name}": numbers["acc,none"], f"acc_stderr,{name}": 0.1, "sample_len": numbers["sample_len"]}
        for task, numbers in PLAIN.items()
    }
    group = plain_group(aggregation=aggregation, **({"filter_list": [name]} if named else {}))
    entry = group.aggregate(results)
    assert list(entry)[3:5] == [f"acc,{name}", f"acc_stderr,{name}"]
    assert entry[f"acc,{name}"] == pytest.approx(value)
    assert group.compute_metrics(results) == {f"acc,{name}": entry[f"acc,{name}"]}


def test_an_undefined_number_has_the_direction_its_children_agree_on_and_no_invented_one() -> None:
    lower_is_better = {"a": {ACC: mean_score([2.0, 3.0], higher_is_better=False)}, "b": {}}
    assert group_score(lower_is_better, missing="undefined").higher_is_better is False
    assert group_score({"a": {}, "b": {}}, missing="undefined").higher_is_better is None
    assert group_score({"a": {}}, missing="undefined", higher_is_better=True).higher_is_better is True


@pytest.mark.parametrize(
    ("rules", "value", "out"),
    [
        ({"function": "top_k", "k": 2}, 0.65, ["a", "d"]),
        ({"function": "bottom_k", "k": 1}, 0.2, ["b", "c", "d"]),
        ({"function": "threshold", "threshold": 0.6}, 0.65, ["a", "d"]),
        ({"function": "top_k", "k": 99}, 0.475, []),
        ([{"function": "top_k", "k": 3}, {"function": "bottom_k", "k": 1}], 0.4, ["a", "b", "c"]),
    ],
)
def test_group_filters_choose_children(rules: Any, value: float, out: list[str]) -> None:
    scores = scores_of(a=0.2, b=0.6, c=0.7, d=0.4)
    score = group_score(scores, group={"group_filter": rules})
    assert score.estimate.value == pytest.approx(value)
    assert list(score.filtered_out) == out
    assert score.estimate.method.startswith(("bootstrap", "Šidák", "beyond", "no interval: choosing")), (
        "no closed form knows of the choice"
    )


def test_the_interval_of_a_choice_holds_whoever_is_truly_chosen_and_is_short_where_the_choice_is_plain() -> None:
    rng = np.random.default_rng(4)

    def best_two(chances: dict[str, float]) -> Any:
        scores = {n: {ACC: mean_score(rng.random(200) < p, fresh_keys(rng, 200))} for n, p in chances.items()}
        found = group_score(scores, group={"group_filter": {"function": "top_k", "k": 2}}).estimate
        assert found.low is not None
        assert found.high is not None
        return found

    plain, tied = best_two({"a": 0.9, "b": 0.85, "c": 0.2}), best_two({"a": 0.7, "b": 0.7, "c": 0.7})
    assert (plain.method, tied.method) == ("bootstrap", "Šidák")
    assert plain.high - plain.low < 0.12
    assert tied.low <= 0.7 <= tied.high


def test_group_filters_know_directions_ties_other_metrics_and_emptiness() -> None:
    low = {n: {ACC: mean_score([v] * 5, higher_is_better=False)} for n, v in {"a": 3.0, "b": 1.0, "c": 1.0}.items()}
    assert group_score(low, group={"group_filter": {"function": "top_k", "k": 1}}).filtered_out == ("a", "c")
    assert group_score(low, group={"group_filter": {"function": "threshold", "threshold": 2}}).filtered_out == ("a",)
    scores = scores_of(a=0.2, b=0.6)
    scores["a"][MetricKey("f1")], scores["b"][MetricKey("f1")] = mean_score([1.0, 1.0]), mean_score([0.0, 0.0])
    assert (
        group_score(scores, group={"group_filter": {"function": "top_k", "k": 1, "metric": "f1"}}).estimate.value == 0.2
    )
    nothing = group_score(scores, group={"group_filter": {"function": "threshold", "threshold": 0.99}})
    assert nothing.estimate.undefined == "no child passes the group filter"
    for rule in ({"function": "top_k"}, {"function": "threshold"}):
        with pytest.raises(ConfigError, match="without"):
            group_score(scores, group={"group_filter": rule})


def test_the_choice_is_made_anew_in_every_replicate() -> None:
    """The best of ten equal children: a fixed choice would report the spread of one child, which is too much here."""
    rng = np.random.default_rng(3)
    scores = {f"t{i}": {ACC: mean_score(rng.random(100) < 0.5, fresh_keys(rng, 100))} for i in range(10)}
    best = group_score(scores, group={"group_filter": {"function": "top_k", "k": 1}})
    table = np.stack([score[ACC].draws for score in scores.values()])
    assert best.draws == pytest.approx(table.max(axis=0))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"aggregation": "weighted_mean"}, "has no weights"),
        ({"aggregation": "weighted_mean", "weights": {"a": 0.5, "b": 0.6}}, "the weights add up to 1.1"),
        ({"aggregation": "weighted_mean", "weights": {"a": 0.5, "c": 0.5}}, "weights name 'c'"),
        ({"aggregation": "weighted_mean", "weights": {"a": 1.0}}, "no weight for b"),
        ({"aggregation": "weighted_mean", "weights": {"a": 1.5, "b": -0.5}}, "negative or not a number"),
        ({"aggregation": "weighted_mean", "weights": {"a": float("nan"), "b": 1}}, "negative or not a number"),
        ({"aggregation": "median", "weights": {"a": 0.5, "b": 0.5}}, "does not use weights"),
        ({"aggregation": "median", "weight_by_size": True}, "does not use weights"),
        ({"aggregation": "harmonic"}, "Did you mean harmonic_mean"),
        ({"aggregation": "mean", "kwargs": {"k": 2}}, "has no argument k"),
    ],
)
def test_wrong_entries_are_errors_that_say_what_to_do(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        plain_group(**entry).aggregate(PLAIN)
    assert message in str(error.value)


def test_the_same_number_twice_is_refused() -> None:
    group = Group(
        "g", aggregate_metric_list=[{"metric": "acc", "aggregation": "max"}, {"metric": "acc", "aggregation": "min"}]
    )
    group.add(Leaf("a"))
    with pytest.raises(ConfigError, match="aggregates acc,none twice"):
        group.aggregate(PLAIN)


def test_an_empty_group_is_undefined_not_zero() -> None:
    group = Group("g", aggregate_metric_list=[{"metric": "acc"}])
    assert group.aggregate(PLAIN) == {
        "alias": "g",
        "name": "g",
        "sample_len": 0,
        "acc,none": "N/A",
        "acc_stderr,none": "N/A",
    }


def test_a_group_where_everything_is_right_keeps_an_interval() -> None:
    scores = scores_of(a=1.0, b=1.0)
    for aggregation in ("mean", "harmonic_mean", "min"):
        estimate = group_score(scores, aggregation=aggregation).estimate
        assert (estimate.value, estimate.stderr, estimate.high) == (1.0, 0.0, 1.0)
        assert estimate.low is not None
        assert 0.95 < estimate.low < 0.99


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=8), st.data())
def test_means_keep_their_order_and_stay_between_the_extremes(values: list[float], data: st.DataObject) -> None:
    names = [f"t{i}" for i in range(len(values))]
    results = {n: {"acc,none": v, "sample_len": data.draw(st.integers(1, 50))} for n, v in zip(names, values)}

    def number(aggregation: str) -> float:
        group = Group(
            "g", aggregate_metric_list=[{"metric": "acc", "aggregation": aggregation, "weight_by_size": False}]
        )
        for name in names:
            group.add(Leaf(name))
        return float(group.compute_metrics(results)["acc,none"])

    low, harmonic, geometric, mean, high = map(number, ["min", "harmonic_mean", "geometric_mean", "mean", "max"])
    slack = 1e-12
    assert low <= harmonic + slack <= geometric + 2 * slack <= mean + 3 * slack <= high + 4 * slack
    assert low <= number("median") <= high


def test_an_undefined_share_of_the_replicates_is_said_with_the_ends_of_the_others() -> None:
    """A harmonic mean is undefined where a draw of six docs has no right one."""
    keys = fresh_keys(np.random.default_rng(3), 106)
    few = estimate([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], AGGREGATIONS["mean"], keys[:6])
    many = estimate([1.0, 0.0] * 50, AGGREGATIONS["mean"], keys[6:])
    configs = {
        "g": {"task": ["few", "many"], "aggregate_metric_list": [{"metric": "acc", "aggregation": "harmonic_mean"}]}
    }
    manager = manager_of(configs, ["few", "many"])
    found = manager.score_groups({"few": {ACC: few}, "many": {ACC: many}})["g"][ACC].estimate
    undefined = np.mean(~np.isfinite(manager.score_groups({"few": {ACC: few}, "many": {ACC: many}})["g"][ACC].draws))
    assert found.value is not None
    assert found.low is None
    assert found.method.startswith(f"undefined in {undefined:.0%} of the replicates; in the others [0.")
