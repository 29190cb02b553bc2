"""Seed 000: groups as objects, aggregators as classes, the manager. A row of the seed a test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.seeds.parts import Written, load_task, run, write_task

from assay.config import AggMetricConfig, GroupConfig, TaskConfig
from assay.errors import AssayError, ConfigError
from assay.groups import (
    AggregatorFactory,
    Group,
    GroupManager,
    HarmonicMeanAggregator,
    MeanAggregator,
    PassAtKAggregator,
    StandardGroup,
    TagGroup,
)
from assay.tasks import Task


def config(name: str, **more: Any) -> GroupConfig:
    return GroupConfig(group=name, **more)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(write_task(tmp_path, "gsm8k"), "gsm8k")


def test_000_002_a_group_joins_its_parent_given_second() -> None:
    root = Group(config("root"))
    child = Group(config("math"), root)
    assert child.parent is root
    assert root.child_names == ["math"]
    assert child.alias is None


def test_000_003_and_004_what_is_not_given_is_none_as_seed_001_has_it() -> None:
    """001 declares both as None; reports show the name where there is no alias (docs: names you may know)."""
    group = Group(config("math"))
    assert (group.alias, group.metadata) == (None, None)
    assert group.aggregate({})["alias"] == "math"


def test_000_005_the_aggregator_is_the_factorys() -> None:
    entries = [{"metric": "acc", "aggregation": "harmonic_mean"}]
    assert isinstance(Group(config("g", aggregate_metric_list=entries))._aggregator, HarmonicMeanAggregator)
    assert type(Group(config("g"))._aggregator).__name__ == "NoOpAggregator"


def test_000_006_group_of_tasks() -> None:
    assert Group[Task]("g").name == "g"


def test_000_008_and_009_a_task_lists_groups_and_tags(task: Task) -> None:
    group, tag = Group("math"), TagGroup("hard")
    group.add(task)
    tag.add(task)
    assert task._groups == task.groups == [group]
    assert task._tags == task.tags == ["hard"]


def test_000_012_traverse_reads_the_name_of_every_node(task: Task) -> None:
    group, seen = Group("math"), []
    group.add(Group("inner"))
    group.add(task)
    group.traverse(lambda node: seen.append(node.name))
    assert seen == ["math", "inner", "gsm8k"]


def test_000_016_what_is_set_later_is_written() -> None:
    group = Group("math")
    group.metadata = {"description": "Math word problems", "version": "2.0"}
    group.alias = "Math"
    group.aggregate_metric_list = [AggMetricConfig(metric="acc")]
    assert group.to_dict() == {
        "group": "math",
        "group_alias": "Math",
        "aggregate_metric_list": [{"metric": "acc"}],
        "metadata": {"description": "Math word problems", "version": "2.0"},
    }
    assert Group.from_config(group.to_dict()) == group


def test_000_018_a_tag_holds_no_group() -> None:
    with pytest.raises(TypeError, match="tags are flat") as error:
        TagGroup("t").add_child(Group("g"))
    assert isinstance(error.value, AssayError)


def test_000_024_and_025_a_harmonic_mean_says_what_it_lacks() -> None:
    """Undefined with the reason, where the seed leaves the number or the task out; `missing: skip` leaves the task out."""
    group = Group("g", None, [{"metric": "acc", "aggregation": "harmonic_mean"}])
    group.add(named("a"))
    group.add(named("b"))
    assert HarmonicMeanAggregator(group.config).aggregate(
        group, {"a": {"acc,default": 0.0}, "b": {"acc,default": 0.5}}
    ) == {"acc,default": "N/A"}
    skipping = Group("g", None, [{"metric": "acc", "aggregation": "harmonic_mean", "missing": "skip"}])
    skipping.add(named("a"))
    skipping.add(named("b"))
    assert skipping.compute_metrics({"a": {"acc,default": 0.5}, "b": {}}) == {"acc,default": 0.5}


class Named:
    def __init__(self, name: str) -> None:
        self.task_name = name


def named(name: str) -> Any:
    return Named(name)


def test_000_026_and_031_k_is_one_or_the_entrys() -> None:
    assert PassAtKAggregator(config("g")).k == 1
    entries = [{"metric": "pass@10", "aggregation": "pass@k", "kwargs": {"k": 10}}]
    made = AggregatorFactory.create_aggregator(config("g", aggregate_metric_list=entries))
    assert isinstance(made, PassAtKAggregator)
    assert made.k == 10


def test_000_032_an_unknown_aggregation_is_a_value_error_and_a_key_error() -> None:
    broken = config("g", aggregate_metric_list=[{"metric": "acc", "aggregation": "modus"}])
    for kind in (ValueError, KeyError, AssayError):
        with pytest.raises(kind, match="unknown aggregator 'modus'"):
            AggregatorFactory.create_aggregator(broken)


def test_000_033_a_function_of_the_group_calls_its_first_parameter_group() -> None:
    """A free choice of names would leave `f(values, weights)` and `f(group, task_results)` the same to look at."""

    def worst(group: Any, task_results: Any) -> dict[str, float]:
        return {"acc,default": min(task_results[name]["acc,default"] for name in group.child_names)}

    group = Group("g", None, [AggMetricConfig(metric="acc", aggregation=worst)])
    group.add(named("a"))
    group.add(named("b"))
    results = {"a": {"acc,default": 0.25}, "b": {"acc,default": 0.75}}
    assert group._aggregator.aggregate(group, results) == {"acc,default": 0.25}


def test_000_039_entries_that_are_no_groups_are_passed_over() -> None:
    manager = GroupManager()
    manager.register_task(named("gsm8k"))
    manager.build_hierarchy({"gsm8k": TaskConfig(task="gsm8k"), "math": config("math", task=["gsm8k"])})  # type: ignore[dict-item]
    assert list(manager.groups) == ["math"]


def test_000_040_and_041_unknown_and_missing_members_are_errors() -> None:
    """Not passed over: a group that lost a member would report a number of something else."""
    with pytest.raises(ConfigError, match="lists 'not_there', which is neither a task nor a group"):
        GroupManager().build_hierarchy({"math": config("math", task=["not_there"])})
    with pytest.raises(ConfigError, match="has no members"):
        GroupManager().build_hierarchy({"empty": config("empty")})


class Appending(StandardGroup):  # type: ignore[type-arg]
    """The seed's own body of StandardGroup."""

    def add_child(self, child: Any) -> None:
        self.children.append(child)
        if isinstance(child, Group):
            child.parent = self
        elif isinstance(child, Task):
            if not hasattr(child, "_groups"):
                child._groups = []
            child._groups.append(self)

    def get_all_tasks(self, recursive: bool = True) -> list[Any]:
        tasks: list[Any] = []
        for child in self.children:
            if isinstance(child, Group):
                tasks.extend(child.get_all_tasks())
            else:
                tasks.append(child)
        return tasks


def test_000_068_and_069_children_that_are_appended_stay(task: Task) -> None:
    group, inner = Appending("math"), Appending("inner")
    group.add_child(inner)
    inner.add_child(task)
    assert (len(group), len(inner)) == (1, 1)
    assert inner.parent is group
    assert inner.depth() == 1
    assert group.get_all_tasks() == [task]
    assert task.groups == [inner], "each once"
    other = Group("other")
    inner.parent = other
    assert inner.parents == [group, other]
    group.children.remove(inner)
    assert (len(group), inner.parents) == (0, [other])


def test_000_066_and_072_the_manager_gives_group_objects(tmp_path: Path) -> None:
    from assay.tasks import TaskManager

    write_task(tmp_path, "ner")
    (tmp_path / "g.yaml").write_text("group: g\ntask: [ner]\n")
    loaded = TaskManager(tmp_path, include_defaults=False).load(["g"])
    group = GroupManager.from_loaded(loaded).groups["g"]
    assert isinstance(group, Group)
    assert loaded.tasks["ner"].groups == [group]


def test_000_045_mean_aggregator_over_dictionaries() -> None:
    group = Group("g", None, [{"metric": "acc", "weight_by_size": False}])
    group.add(named("a"))
    group.add(named("b"))
    found = MeanAggregator(group.config).aggregate(group, {"a": {"acc,none": 0.5}, "b": {"acc,none": 1.0}})
    assert found == {"acc,none": 0.75}


def test_a_run_over_groups_that_share_a_task(tmp_path: Path) -> None:
    write_task(tmp_path, "sums", "metric_list: [{metric: exact_match}]\n")
    for name in ("math", "hard"):
        (tmp_path / f"{name}.yaml").write_text(
            f"group: {name}\ntask: [sums]\naggregate_metric_list: [{{metric: exact_match}}]\n"
        )
    found = run(tmp_path, ["math", "hard"], Written(lambda prompt, draw: "2"))
    assert [found[name]["exact_match"].value for name in ("math", "hard")] == [0.25, 0.25]
