from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parts import Leaf, manager_of, result_of, scores_of

from assay.config import AggMetricConfig, GroupConfig
from assay.errors import ConfigError
from assay.groups import Group, GroupManager, StandardGroup, TagGroup
from assay.results import GroupResult


def diamond() -> tuple[Group, Group, Group, Leaf]:
    """root → (left, right) → shared leaf."""
    root, left, right, leaf = Group("root"), Group("left"), Group("right"), Leaf("leaf")
    root.add(left)
    root.add(right)
    left.add(leaf)
    right.add(leaf)
    return root, left, right, leaf


def test_children_behave_like_a_small_dictionary() -> None:
    group, leaf = Group("mmlu", metadata={"version": 2.0}), Leaf("anatomy")
    group.add(leaf)
    assert "anatomy" in group
    assert group.get("anatomy") is leaf
    assert group.get("biology") is None
    assert list(group) == [leaf]
    assert (len(group), group.child_names, group.version) == (1, ["anatomy"], "2.0")
    assert group.pop("anatomy") is leaf
    assert group.pop("anatomy") is None
    assert (len(group), leaf.groups) == (0, [])
    assert bool(group), "an empty group is still a group"
    assert repr(group) == "Group(name='mmlu', len_children=0, children=[], version=2.0)"


def test_links_go_both_ways_from_either_side() -> None:
    math, hard, leaf = Group("math"), Group("hard"), Leaf("gsm8k")
    math.add(leaf)
    leaf.add_to_group(hard)
    assert leaf.groups == [math, hard]
    assert hard.get_all_tasks() == [leaf]
    inner = Group("algebra", parent=math)
    assert (inner.parents, inner.parent) == ([math], math)
    math.pop("algebra")
    assert inner.parents == []


def test_real_tasks_know_their_groups_and_tags() -> None:
    from assay.config import TaskConfig
    from assay.tasks import Task

    task = Task.from_config(TaskConfig(task="t", output_type="generate_until", doc_to_text="q", doc_to_target="a"))
    group, tag = Group("g"), TagGroup("easy")
    task.add_to_group(group)
    tag.add(task)
    assert (task.groups, group.get_all_tasks(), task.tags) == ([group], [task], ["easy"])


def test_a_shared_leaf_is_listed_once() -> None:
    root, left, right, leaf = diamond()
    assert root.get_all_tasks() == [leaf]
    assert root.get_all_groups() == [left, right]
    seen: list[str] = []
    root.traverse(lambda node: seen.append(getattr(node, "name", None) or node.task_name))
    assert seen == ["root", "left", "leaf", "right"]
    assert [group.name for group in leaf.groups] == ["left", "right"]


def test_depth_leaf_and_limited_descent() -> None:
    root, inner, deep = Group("root"), Group("inner"), Group("deep")
    a, b, c = Leaf("a"), Leaf("b"), Leaf("c")
    for parent, child in [(root, a), (root, inner), (inner, b), (inner, deep), (deep, c)]:
        parent.add_child(child)
    assert [group.depth() for group in (root, inner, deep)] == [0, 1, 2]
    assert [group.is_leaf() for group in (root, inner, deep)] == [False, False, True]
    assert root.get_subtasks(0) == []
    assert root.get_subtasks(1) == root.get_all_tasks(recursive=False) == [a]
    assert root.get_subtasks(2) == [a, b]
    assert root.get_subtasks() == [a, b, c]
    assert root.get_all_groups(recursive=False) == [inner]
    assert root.get_direct_children() == [a, inner]
    root.add(deep)
    assert deep.depth() == 1, "the nearest root counts"
    assert root.get_subtasks(2) == [a, b, c]


def test_the_same_child_twice_is_one_and_a_namesake_is_refused() -> None:
    group, leaf = Group("g"), Leaf("x")
    group.add(leaf)
    group.add(leaf)
    assert len(group) == 1
    with pytest.raises(ConfigError, match="already has another child named 'x'"):
        group.add(Leaf("x"))
    with pytest.raises(ConfigError, match="neither a group nor a task"):
        group.add(object())  # type: ignore[arg-type]


def test_a_cycle_is_refused_and_printed() -> None:
    a, b, c = Group("a"), Group("b"), Group("c")
    a.add(b)
    b.add(c)
    with pytest.raises(ConfigError, match="c → a → b → c"):
        c.add(a)
    with pytest.raises(ConfigError, match="a → a"):
        a.add(a)


def test_a_tag_is_flat_and_overlaps() -> None:
    tag, other, leaf = TagGroup("easy"), TagGroup("short", "Short ones"), Leaf("x")
    tag.add(leaf)
    other.add_child(leaf)
    assert leaf.tags == ["easy", "short"]
    assert leaf.groups == [], "a tag is no group of the task"
    assert (tag.metadata, other.alias, tag.get_all_tasks()) == ({"type": "tag"}, "Short ones", [leaf])
    with pytest.raises(ConfigError, match="tag 'easy' cannot hold the group 'g'"):
        tag.add(Group("g"))


def test_config_in_and_out() -> None:
    config = GroupConfig(
        group="g", group_alias="G", task=["a"], aggregate_metric_list=[{"metric": "acc"}], metadata={"version": 1}
    )
    group = Group.from_config(config)
    assert (group.name, group.alias, group.has_aggregation, len(group)) == ("g", "G", True, 0)
    written = group.to_dict()
    assert written["group"] == "g"
    assert written["task"] == ["a"]
    assert written["aggregate_metric_list"] == [{"metric": "acc"}]
    assert Group.from_config(written).to_dict() == written
    assert StandardGroup(config).name == "g"
    assert Group("plain").to_dict() == {"group": "plain"}
    with pytest.raises(ConfigError, match="group: is missing"):
        Group.from_config({})
    assert Group("g", aggregate_metric_list=[AggMetricConfig(metric="acc"), "f1"]).has_aggregation


def test_the_manager_links_configs_and_finds_memberships() -> None:
    manager = manager_of(
        {"all": {"task": ["math", {"group": "inline", "task": ["c"]}, "a"]}, "math": {"task": ["a", "b"]}},
        ["a", "b", "c"],
    )
    assert [group.name for group in manager.root_groups] == ["all"]
    assert [task.task_name for task in manager.get_tasks_for_group("all")] == ["a", "b", "c"]
    assert [group.name for group in manager.get_groups_for_task("a")] == ["all", "math"]
    assert manager.get_groups_for_task("nowhere") == manager.get_tasks_for_group("nowhere") == []
    assert [group.name for group in manager.bottom_up()] == ["math", "all::inline", "all"]
    seen: list[str] = []
    manager.traverse_hierarchy(lambda node: seen.append(getattr(node, "name", None) or node.task_name))
    assert seen == ["all", "math", "a", "b", "all::inline", "c"]
    rows = [(depth, node.name) for depth, node in result_of(manager).tree()]
    assert rows == [(0, "all"), (1, "math"), (2, "a"), (2, "b"), (1, "all::inline"), (2, "c"), (1, "a")]


def test_the_manager_gives_every_group_as_results_keep_it() -> None:
    configs = {
        "all": {"task": ["math", "c"], "group_alias": "All", "aggregate_metric_list": ["acc"]},
        "math": {"task": ["a", "b"], "metadata": {"version": 2}},
    }
    results = manager_of(configs, ["a", "b", "c"]).results(scores_of(a=0.5, b=0.25, c=0.75))
    assert list(results) == ["math", "all"]
    assert (results["all"].alias, results["all"].children, results["all"].has_aggregation) == (
        "All",
        ("math", "c"),
        True,
    )
    assert results["all"]["acc"].value == 0.5
    assert results["math"] == GroupResult("math", "math", {}, ("a", "b"), "2", has_aggregation=False)


def test_tags_of_the_tasks_become_tag_groups() -> None:
    manager = GroupManager()
    manager.register_task(Leaf("a", tags=["x"]))
    manager.register_task(Leaf("b", tags=["x", "y"]))
    assert {name: tag.child_names for name, tag in manager.tags.items()} == {"x": ["a", "b"], "y": ["b"]}


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"a": {"task": ["b"]}, "b": {"task": ["c"]}, "c": {"task": ["a"]}}, "a → b → c → a"),
        ({"a": {"task": ["a"]}}, "a → a"),
        ({"a": {"task": ["gsm9k"]}}, "Did you mean gsm8k"),
        ({"a": {"task": []}}, "group 'a' has no members"),
        ({"gsm8k": {"task": ["gsm8k"]}}, "names a group and a task"),
        ({"a": {"task": [{"task": "gsm8k", "if": 3}]}}, "is not text"),
        ({"a": {"task": [{"tusk": "gsm8k"}]}}, "cannot read the member"),
    ],
)
def test_bad_member_lists_are_errors_that_say_what_to_do(configs: dict[str, dict[str, object]], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        manager_of(configs, ["gsm8k"])
    assert message in str(error.value)


def test_two_objects_of_one_name_are_refused() -> None:
    manager = GroupManager()
    manager.register_task(Leaf("a"))
    manager.register_group(Group("g"))
    for register, item in [
        (manager.register_task, Leaf("a")),
        (manager.register_group, Group("g")),
        (manager.register_task, Leaf("g")),
    ]:
        with pytest.raises(ConfigError, match=r"two|names a group and a task"):
            register(item)  # type: ignore[operator]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9)), max_size=40))
def test_any_links_leave_a_tree_without_cycles_where_leaves_are_listed_once(links: list[tuple[int, int]]) -> None:
    groups = [Group(f"g{i}") for i in range(8)]
    leaves = [Leaf("x"), Leaf("y")]
    for parent, child in links:
        try:
            groups[parent].add(groups[child] if child < 8 else leaves[child - 8])
        except ConfigError:
            assert groups[child].path_to(groups[parent]), "only a link that closes a circle is refused"
    for group in groups:
        tasks = group.get_all_tasks()
        assert len(tasks) == len({task.task_name for task in tasks})
        assert group not in group.get_all_groups()
        assert all(group in child.parents for child in group if isinstance(child, Group))
