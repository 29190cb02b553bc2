"""`group::sub::task` on the command line, tasks written as mappings, and `overrides` of the caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.seeds.parts import Written, run, write_task

from assay.errors import ConfigError, ConfigWarning
from assay.tasks import TaskManager


@pytest.fixture
def manager(tmp_path: Path) -> TaskManager:
    for name in ("a", "b", "c"):
        write_task(tmp_path, name, "metric_list: [exact_match]\n")
    (tmp_path / "sub.yaml").write_text(
        "group: sub\ntask: [a, {task: b, num_fewshot: 2}]\naggregate_metric_list: [exact_match]\n"
    )
    (tmp_path / "g.yaml").write_text(
        "group: g\naggregate_metric_list: [exact_match]\n"
        "task: [sub, c, {group: inner, task: [{task: a, num_fewshot: 1}], aggregate_metric_list: [exact_match]}]\n"
    )
    return TaskManager(tmp_path, include_defaults=False)


def loaded(manager: TaskManager, *names: Any, **words: Any) -> dict[str, int | None]:
    return {name: task.config.num_fewshot for name, task in manager.load(names, **words).tasks.items()}


def test_a_path_is_one_member_as_its_group_has_it(manager: TaskManager) -> None:
    assert loaded(manager, "g::sub::b") == {"g::sub::b": 2}
    assert loaded(manager, "sub::b", "b") == {"sub::b": 2, "b": None}
    assert loaded(manager, "g::inner::a") == {"g::inner::a": 1}


def test_a_path_may_end_at_a_subgroup(manager: TaskManager) -> None:
    found = manager.load(["g::sub"])
    assert found.roots == ["g::sub"]
    assert found.groups["g::sub"].children == tuple(found.tasks)
    assert sorted(task.config.num_fewshot or 0 for task in found.tasks.values()) == [0, 2]


def test_a_path_takes_a_format_and_a_variant(manager: TaskManager) -> None:
    (name,) = loaded(manager, "g::sub::b@cot:3shot")
    assert name == "g::sub::b@cot:3shot"
    assert loaded(manager, "g::sub::b@cot:3shot") == {name: 3}


def test_a_path_that_leads_nowhere_says_where_it_ends(manager: TaskManager) -> None:
    with pytest.raises(ConfigError, match="there is no member 'z'") as error:
        manager.load(["g::sub::z"])
    assert "Members: a, b" in str(error.value)
    with pytest.raises(ConfigError, match="'a' is a task, expected a group"):
        manager.load(["a::b"])
    with pytest.raises(ConfigError, match="no task, group or tag named 'nothing'"):
        manager.load(["nothing::a"])


def test_a_path_runs(manager: TaskManager, tmp_path: Path) -> None:
    found = run(tmp_path, ["g::sub", "sub::b"], Written(lambda prompt, draw: "2"))
    assert found["sub::b"]["exact_match"].value == 0.25
    assert found["g::sub"]["exact_match"].value == 0.25


def test_tasks_may_be_mappings(manager: TaskManager, tmp_path: Path) -> None:
    assert loaded(manager, {"task": "a", "num_fewshot": 4}, "c") == {"a": 4, "c": None}
    written = {"group": "own", "task": ["a", {"task": "b", "num_fewshot": 1}], "aggregate_metric_list": ["exact_match"]}
    found = run(tmp_path, [written, {"task": "c", "description": "Sums."}], Written(lambda prompt, draw: "2"))
    assert found["own"]["exact_match"].value == 0.25
    assert set(found.tasks) >= {"a", "c"}
    with pytest.raises(ConfigError, match="neither `task` nor `group`"):
        manager.load([{"num_fewshot": 1}])
    with pytest.raises(ConfigError, match="no task, group or tag named 'zz'"):
        manager.load([{"task": "zz", "num_fewshot": 1}])


def test_overrides_lie_between_the_group_and_what_it_says_of_a_member(manager: TaskManager, tmp_path: Path) -> None:
    own = {"a": {"num_fewshot": 5}, "b": {"num_fewshot": 5}}
    assert loaded(manager, "sub", overrides=own) == {"a": 5, "b": 2}
    assert loaded(manager, "a", "c", overrides=own | {}) == {"a": 5, "c": None}
    assert loaded(manager, "sub", overrides={"sub": {"num_fewshot": 3}}) == {"a": 3, "b": 2}
    (tmp_path / "inc.yaml").write_text("group: inc\ninclude: {num_fewshot: 1}\ntask: [c]\n")
    fresh = TaskManager(tmp_path, include_defaults=False)
    assert loaded(fresh, "inc", overrides={"c": {"num_fewshot": 5}}) == {"c": 5}


def test_overrides_that_nothing_takes_are_told(manager: TaskManager, tmp_path: Path) -> None:
    with pytest.warns(ConfigWarning, match="overrides of c apply to no task"):
        manager.load(["a"], overrides={"c": {"num_fewshot": 1}})
    with pytest.raises(ConfigError, match="overrides: there is no task or group named 'cc'"):
        manager.load(["a"], overrides={"cc": {"num_fewshot": 1}})
    found = run(tmp_path, ["sub", "c"], Written(lambda p, d: p[:1]), overrides={"c": {"doc_to_text": "2{{question}}"}})
    assert (found["c"]["exact_match"].value, found["a"]["exact_match"].value) == (0.25, 0.0)
    assert found.tasks["c"].config["doc_to_text"] == "2{{question}}"
