from __future__ import annotations

import pytest
from parts import Leaf, manager_of

from assay.config import GroupConfig
from assay.errors import ConfigError
from assay.groups import GroupManager, holds
from assay.tasks import GroupSpec, Loaded

FACTS = {"model": {"name": "smol-135m", "params": 135e6, "chat": True, "quant": None}, "limit": 10}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("model.params > 7e9", False),
        ("model.params < 7e9 and model.chat", True),
        ("not model.chat or limit == 10", True),
        ("1e6 < model.params <= 135e6", True),
        ("'smol' in model.name", True),
        ("model.name in ['a', 'smol-135m']", True),
        ("model.name not in ('a', 'b')", True),
        ("limit * 2 + 1 == 21", True),
        ("-limit < 0", True),
        ("model.params / 1e9 >= 1", False),
        ("  limit ==\t10 ", True),
    ],
)
def test_conditions_decide(expression: str, expected: bool) -> None:
    assert holds(expression, FACTS) is expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("__import__('os').system('true')", "not allowed"),
        ("model.name.__class__", "not known"),
        ("model['name'] == 'x'", "not allowed"),
        ("[x for x in model]", "not allowed"),
        ("lambda: 1", "not allowed"),
        ("f'{model}'", "not allowed"),
        ("'a' * 999999999999", "is not a number"),
        ("9 ** 9 ** 9 ** 9", "not allowed"),
        ("model.parms > 1", "Did you mean model.params"),
        ("model.quant == 4", "does not report"),
        ("model.name > 7", "cannot be evaluated"),
        ("limit / 0 > 1", "cannot be evaluated"),
        ("model_size > 7B", "is not known"),
        ("model_size > 7Q", "cannot be read"),
        ("", "cannot be read"),
        ("(" * 500, "cannot be read"),
        ("1" * 2000, "limit is 1000"),
        ("b'x' == 1", "not allowed"),
    ],
)
def test_anything_else_is_an_error_and_runs_nothing(expression: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        holds(expression, FACTS)
    assert message.lower() in str(error.value).lower()


def test_members_are_in_or_out_by_their_condition() -> None:
    configs = {"g": {"task": ["a", {"task": "b", "if": "model.params > 7e9"}]}}
    large = manager_of(configs, ["a", "b"], facts={"model": {"params": 8e9}})
    small = manager_of(configs, ["a", "b"], facts={"model": {"params": 1e9}})
    unknown = manager_of(configs, ["a", "b"])
    assert large.groups["g"].child_names == unknown.groups["g"].child_names == ["a", "b"]
    assert small.groups["g"].child_names == ["a"]
    assert small.excluded == {("g", "b"): "model.params > 7e9"}


def loaded(conditions: dict[str, str]) -> Loaded:
    tasks = {name: Leaf(name) for name in "abc"}
    groups = {
        "top": GroupSpec("top", GroupConfig(group="top"), ("a", "sub"), conditions),
        "sub": GroupSpec("sub", GroupConfig(group="sub"), ("b", "c"), {}),
    }
    return Loaded(tasks, groups, ["top"])  # type: ignore[arg-type]


def test_what_only_an_excluded_group_led_to_is_not_run() -> None:
    manager = GroupManager.from_loaded(loaded({"sub": "model.params > 7e9"}), {"model": {"params": 1}})
    assert list(manager.tasks) == ["a"]
    assert list(manager.groups) == ["top"]
    everything = GroupManager.from_loaded(loaded({"sub": "model.params > 7e9"}))
    assert list(everything.tasks) == ["a", "b", "c"]


def test_a_condition_that_does_not_parse_is_an_error_before_any_model_is_there() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        GroupManager.from_loaded(loaded({"sub": "model.params >"}))


def test_a_task_asked_for_by_name_stays_though_its_group_excludes_it() -> None:
    both = loaded({"a": "model.params > 7e9"})
    manager = GroupManager.from_loaded(Loaded(both.tasks, both.groups, ["top", "a"]), {"model": {"params": 1}})
    assert list(manager.tasks) == ["b", "c", "a"]
    assert manager.groups["top"].child_names == ["sub"]


def test_a_truth_value_is_no_condition_wherever_the_member_comes_from() -> None:
    message = r"group 'g', member 'a': the condition True is not text"
    with pytest.raises(ConfigError, match=message):
        manager_of({"g": {"task": [{"task": "a", "if": True}]}}, ["a"])
    spec = GroupSpec("g", GroupConfig(group="g", task=["a"]), ("a",), {"a": True})  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=message):
        GroupManager.from_loaded(Loaded({"a": Leaf("a")}, {"g": spec}, ["g"]))  # type: ignore[dict-item]
