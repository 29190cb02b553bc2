"""Seed 001: the `Group` dataclass."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from assay.config import AggMetricConfig, GroupConfig
from assay.errors import ConfigError
from assay.groups import Group
from assay.metrics import aggregate_subtask_metrics, pooled_sample_stderr


class Leaf:
    def __init__(self, name: str) -> None:
        self._qualified_name = name


def leaf(name: str) -> Any:
    return Leaf(name)


def test_001_073_group_is_a_dataclass() -> None:
    assert dataclasses.is_dataclass(Group)
    assert [f.name for f in dataclasses.fields(Group)] == [
        "name",
        "alias",
        "aggregate_metric_list",
        "metadata",
        "_children",
        "_config",
    ]
    assert dataclasses.replace(Group("a", "A"), alias="B").alias == "B"


def test_001_075_children_and_config_may_be_given() -> None:
    a = leaf("a")
    group = Group("mmlu", _children={"a": a}, _config=GroupConfig(group="mmlu", group_alias="MMLU"))
    assert (group.get("a"), group.alias) == (a, "MMLU")


def test_001_086_and_087_names_by_qualified_name() -> None:
    group = Group("mmlu::humanities")
    assert group._qualified_name == "mmlu::humanities"
    group.add(leaf("a"))
    assert group.child_names == ["a"]


def test_001_088_a_namesake_is_refused() -> None:
    """The seed replaces the child without a word, and its numbers with it."""
    group = Group("g")
    group.add(leaf("a"))
    with pytest.raises(ConfigError, match="already has another child named 'a'"):
        group.add(leaf("a"))


def test_001_089_a_leaf_reached_twice_is_one_leaf() -> None:
    root, left, right, a = Group("root"), Group("left"), Group("right"), leaf("a")
    for group in (left, right):
        group.add(a)
        root.add(group)
    assert root.get_all_tasks() == [a]


def test_001_091_and_003_223_an_unweighted_mean_has_the_error_of_an_unweighted_mean() -> None:
    group = Group("g", None, [AggMetricConfig(metric="acc", weight_by_size=False)])
    group.add(leaf("a"))
    group.add(leaf("b"))
    results = {
        "a": {"acc,none": 0.5, "acc_stderr,none": 0.1, "sample_len": 10},
        "b": {"acc,none": 0.7, "acc_stderr,none": 0.2, "sample_len": 90},
    }
    found = group.compute_aggregate_metrics(results)
    assert found["acc,none"] == pytest.approx(0.6)
    assert found["acc_stderr,none"] == pytest.approx((0.1**2 + 0.2**2) ** 0.5 / 2)


def test_001_097_only_what_was_set_is_written() -> None:
    """Written out whole, `weight_by_size` would mean something for a harmonic mean that nobody asked for."""
    assert Group("mmlu", None, [AggMetricConfig(metric="acc")]).to_dict()["aggregate_metric_list"] == [
        {"metric": "acc"}
    ]
    assert AggMetricConfig(metric="acc").model_dump()["weight_by_size"] is True


def test_001_098_and_099_configs_as_dictionaries() -> None:
    assert AggMetricConfig(metric="acc", aggregation="median").to_dict() == {"metric": "acc", "aggregation": "median"}
    assert GroupConfig(group="g", task=["a"]).to_dict() == {"group": "g", "task": ["a"]}


def test_001_101_repr() -> None:
    group = Group("mmlu", metadata={"version": 1})
    group.add(leaf("a"))
    assert repr(group) == "Group(name='mmlu', len_children=1, children=['a'], version=1)"


def test_001_103_helpers_of_groups() -> None:
    assert aggregate_subtask_metrics([0.5, 1.0], [30, 10]) == 0.625
    assert pooled_sample_stderr([0.1, 0.2], [10, 20]) == pytest.approx(
        ((0.1**2 * 10 * 9 + 0.2**2 * 20 * 19) / (30 - 2) / 30) ** 0.5
    )


def test_001_105_groups_that_say_the_same_are_equal() -> None:
    assert Group("g", "G") == Group("g", "G")
    assert Group("g", "G") != Group("g", "H")
    a, one, two = leaf("a"), Group("g"), Group("g")
    one.add(a)
    assert one != two
    two.add(a)
    assert one == two
    assert len({one, two}) == 1
