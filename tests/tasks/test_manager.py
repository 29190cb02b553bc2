"""Names to tasks and groups: what lm-evaluation-harness's group files mean, and what bad ones are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.config import ConfigWarning, TaskConfig
from assay.errors import ConfigError
from assay.tasks.manager import Resolved, TaskManager

pytestmark = pytest.mark.filterwarnings(f"error::{ConfigWarning.__module__}.{ConfigWarning.__qualname__}")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASSAY_LM_EVAL_TASKS", raising=False)
    folder = tmp_path / "tasks"
    folder.mkdir()
    for name in ("a", "b", "c"):
        put(folder, f"{name}.yaml", f"task: {name}\ntag: letters\ndataset_path: d\ntest_split: test\ndoc_to_text: q\n")
    return folder


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def resolve(root: Path, *names: str) -> Resolved:
    return TaskManager(include_path=root, include_defaults=False).resolve(names)


def fields(config: TaskConfig, *names: str) -> list[object]:
    return [getattr(config, name) for name in names]


def test_a_name_a_tag_a_glob(root: Path) -> None:
    assert resolve(root, "a").roots == ["a"]
    assert resolve(root, "letters").roots == ["a", "b", "c"]
    assert resolve(root, "[ab]").roots == ["a", "b"]
    assert resolve(root, "a", "*").roots == ["a", "b", "c"]
    assert resolve(root, "letters").tags == {"letters": ("a", "b", "c")}


def test_a_path_a_directory_a_glob_of_paths(root: Path, tmp_path: Path) -> None:
    own = put(tmp_path, "own/x.yaml", "include: base\ntask: x\n")
    put(tmp_path, "own/base", "dataset_path: d\ntest_split: test\n")
    put(tmp_path, "own/deep/y.yaml", "include: ../base\ntask: y\n")
    put(tmp_path, "own/nameless.yaml", "dataset_path: d\n")
    assert resolve(root, str(own)).roots == ["x"]
    assert sorted(resolve(root, str(tmp_path / "own")).roots) == ["x", "y"]
    assert resolve(root, str(tmp_path / "own" / "x*.yaml")).roots == ["x"]


def test_nothing_fits(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"no task, group or tag named 'leters'\n.*Did you mean letters"):
        resolve(root, "leters")
    with pytest.raises(ConfigError, match="no task, group, tag or file matches 'zz\\*'"):
        resolve(root, "zz*")
    with pytest.raises(ConfigError, match="no such file"):
        resolve(root, "absent.yaml")
    with pytest.raises(ConfigError, match="is not a directory"):
        TaskManager(include_path=root / "absent")


def test_include_path_splits_on_the_path_separator(root: Path, tmp_path: Path) -> None:
    import os

    put(tmp_path, "more/z.yaml", "task: z\ndataset_path: d\ntest_split: test\n")
    manager = TaskManager(include_path=f"{root}{os.pathsep}{tmp_path / 'more'}", include_defaults=False)
    assert sorted(manager.resolve(["a", "z"]).tasks) == ["a", "z"]


def test_a_file_of_include_path_that_replaces_a_task_is_said_so(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_LM_EVAL_TASKS", str(root))
    put(tmp_path, "far/arc.yaml", "task: arc_easy\ndataset_path: far\n")
    entry = TaskManager(lm_eval=tmp_path / "far").entries["arc_easy"]  # no warning: those are not the user's own
    assert (entry.file, str(entry.replaces)[-5:]) == (str(tmp_path / "far" / "arc.yaml"), ".yaml")
    own = put(tmp_path, "own/mine.yaml", "task: a\ntag: letters\ndataset_path: own\n")
    with pytest.warns(ConfigWarning, match=f"include_path replaces a task or group: a \\({own} instead of .*a.yaml"):
        entries = TaskManager(include_path=own.parent, include_defaults=False).entries
    assert entries["a"].file == str(own)
    assert list(entries["letters"].members) == ["a", "b", "c"]


def test_the_directory_of_lm_eval_comes_from_the_environment_or_a_path(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "site/lm_eval/tasks/__init__.py", "")
    put(tmp_path, "site/lm_eval/tasks/far.yaml", "task: far\ndataset_path: d\n")
    assert "far" in TaskManager(lm_eval=tmp_path / "site").entries
    monkeypatch.setenv("ASSAY_LM_EVAL_TASKS", str(tmp_path / "site"))
    assert "far" in TaskManager().entries
    assert "far" not in TaskManager(lm_eval=False).entries
    monkeypatch.setenv("ASSAY_LM_EVAL_TASKS", str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match=r"ASSAY_LM_EVAL_TASKS: .*absent is not a directory"):
        TaskManager()


def test_a_group_pushes_its_other_keys_down_and_the_outer_group_wins(root: Path) -> None:
    put(root, "inner.yaml", "group: inner\ntask: [a]\nnum_fewshot: 1\ndescription: in\n")
    put(root, "outer.yaml", "group: outer\ntask: [inner, b]\nnum_fewshot: 2\n")
    found = resolve(root, "outer")
    assert fields(found.tasks["a"], "num_fewshot", "description") == [2, "in"]
    assert found.tasks["b"].num_fewshot == 2
    assert found.groups["outer"].children == ("inner", "b")
    assert found.roots == ["outer"]


def test_a_member_mapping_overrides_key_by_key(root: Path) -> None:
    put(
        root,
        "g.yaml",
        "group: g\nnum_fewshot: 1\ntask:\n  - task: a\n    num_fewshot: 7\n    task_alias: first\n  - b\n",
    )
    found = resolve(root, "g")
    assert fields(found.tasks["a"], "num_fewshot", "task_alias", "dataset_path") == [7, "first", "d"]
    assert found.tasks["b"].num_fewshot == 1


def test_a_tag_as_member_expands_sorted_and_takes_overrides(root: Path) -> None:
    put(root, "g.yaml", "group: g\ntask:\n  - task: letters\n    num_fewshot: 3\n")
    found = resolve(root, "g")
    assert found.groups["g"].children == ("a", "b", "c")
    assert {config.num_fewshot for config in found.tasks.values()} == {3}


def test_inline_subgroups_and_tasks_are_named_after_their_group(root: Path) -> None:
    put(root, "base_yaml", "dataset_path: other\ntest_split: test\n")
    put(
        root,
        "g.yaml",
        "group: g\ntask:\n"
        "  - group: sub\n    group_alias: Sub\n    task:\n      - a\n      - task: new\n        include: base_yaml\n"
        "  - task: own\n    dataset_path: mine\n    test_split: test\n",
    )
    found = resolve(root, "g")
    assert found.groups["g"].children == ("g::sub", "g::own")
    assert found.groups["g::sub"].children == ("a", "g::sub::new")
    assert found.groups["g::sub"].config.alias == "Sub"
    assert found.tasks["g::sub::new"].dataset_path == "other"
    assert found.tasks["g::own"].task == "g::own"


def test_a_reference_to_a_group_may_override_its_children_and_its_alias(root: Path) -> None:
    put(root, "inner.yaml", "group: inner\ntask: [a, b]\n")
    put(root, "g.yaml", "group: g\ntask:\n  - group: inner\n    group_alias: In\n    num_fewshot: 4\n")
    found = resolve(root, "g")
    assert found.groups["g"].children == ("inner",)
    assert found.groups["inner"].config.alias == "In"
    assert found.tasks["a"].num_fewshot == 4


def test_one_task_with_different_fields_in_two_groups_is_two_tasks(root: Path) -> None:
    put(root, "five.yaml", "group: five\ntask: [a]\nnum_fewshot: 5\n")
    put(root, "zero.yaml", "group: zero\ntask: [a]\nnum_fewshot: 0\n")
    found = resolve(root, "five", "zero")
    assert {name: config.num_fewshot for name, config in found.tasks.items()} == {"a": 5, "zero::a": 0}
    assert found.groups["zero"].children == ("zero::a",)


def test_one_task_overridden_several_times_is_so_many_tasks(root: Path) -> None:
    members = "".join(f"  - {{task: a, num_fewshot: {n}}}\n" for n in (0, 1, 2, 1))
    put(root, "g.yaml", f"group: g\ntask:\n{members}")
    found = resolve(root, "g")
    assert {name: config.num_fewshot for name, config in found.tasks.items()} == {"a": 0, "g::a": 1, "g::a::2": 2}
    assert {name: config.task for name, config in found.tasks.items()} == {name: name for name in found.tasks}
    assert found.groups["g"].children == ("a", "g::a", "g::a::2")


def test_inline_tasks_of_one_name_are_numbered_too(root: Path) -> None:
    members = "".join(f"  - {{task: new, dataset_path: d, num_fewshot: {n}}}\n" for n in (0, 1))
    put(root, "g.yaml", f"group: g\ntask:\n{members}")
    assert {n: c.num_fewshot for n, c in resolve(root, "g").tasks.items()} == {"g::new": 0, "g::new::2": 1}


def test_one_group_with_different_fields_in_two_groups_is_two_groups(root: Path) -> None:
    put(root, "g.yaml", "group: g\ntask: [a, b]\n")
    for name, shots in (("p1", 0), ("p2", 2), ("p3", 2)):
        put(root, f"{name}.yaml", f"group: {name}\ntask:\n  - {{group: g, num_fewshot: {shots}}}\n")
    found = resolve(root, "p1", "p2", "p3")
    assert {name: config.num_fewshot for name, config in found.tasks.items()} == {"a": 0, "b": 0, "g::a": 2, "g::b": 2}
    assert [found.groups[name].children for name in ("p1", "p2")] == [("g",), ("p2::g",)]
    assert found.groups["g"].children == ("a", "b")
    assert found.groups["p2::g"].children == ("g::a", "g::b")
    assert found.groups["p2::g"].config.group == "p2::g"
    assert found.groups["p3"].children == ("p3::g",)  # `p2::g` is p2's; its tasks are shared
    assert found.groups["p3::g"].children == ("g::a", "g::b")


@pytest.mark.parametrize("asked", [["g", "a"], ["a", "g"], ["p", "g", "a"], ["p", "a", "g"]])
def test_what_is_asked_for_by_itself_keeps_its_name_and_fields(root: Path, asked: list[str]) -> None:
    put(root, "g.yaml", "group: g\ntask: [a]\nnum_fewshot: 5\n")
    put(root, "p.yaml", "group: p\ntask:\n  - {group: g, num_fewshot: 7}\n")
    found = resolve(root, *asked)
    assert found.roots == asked
    assert found.tasks["a"].num_fewshot is None
    assert [found.tasks[child].num_fewshot for child in found.groups["g"].children] == [5]
    if "p" in asked:
        (inner,) = found.groups["p"].children
        assert [found.tasks[child].num_fewshot for child in found.groups[inner].children] == [7]


def test_two_files_that_give_one_name_cannot_be_asked_for_together(root: Path, tmp_path: Path) -> None:
    text = "task: x\ndataset_path: d\ntest_split: test\nnum_fewshot: "
    one, two = put(tmp_path, "own/one/x.yaml", f"{text}1\n"), put(tmp_path, "own/two/x.yaml", f"{text}2\n")
    for asked in ([str(one), str(two)], [str(tmp_path / "own")], [str(tmp_path / "own" / "*" / "x.yaml")]):
        with pytest.raises(ConfigError, match=r"'x' has several different definitions.*one/x\.yaml and .*two/x\.yaml"):
            resolve(root, *asked)
    two.write_text("group: x\ntask: [a]\n")
    with pytest.raises(ConfigError, match=r"'x' has several different definitions.*one/x\.yaml and .*two/x\.yaml"):
        resolve(root, str(one), str(two))
    two.write_text(one.read_text())
    assert resolve(root, str(one), str(two), str(one)).roots == ["x"]


def test_a_task_reached_twice_is_one_task(root: Path) -> None:
    put(root, "one.yaml", "group: one\ntask: [a, b, a]\n")
    put(root, "two.yaml", "group: two\ntask: [b, one]\n")
    found = resolve(root, "two", "a")
    assert sorted(found.tasks) == ["a", "b"]
    assert found.groups["one"].children == ("a", "b")
    assert found.roots == ["two", "a"]


def test_conditions_of_members(root: Path) -> None:
    put(root, "g.yaml", 'group: g\ntask:\n  - a\n  - task: b\n    if: "model.params > 7e9"\n')
    spec = resolve(root, "g").groups["g"]
    assert spec.conditions == {"b": "model.params > 7e9"}
    assert spec.children == ("a", "b")
    put(root, "h.yaml", "group: h\ntask:\n  - {task: b, if: true}\n")
    with pytest.raises(ConfigError, match=r"h\.yaml:2: group 'h': `if` of 'b' is True, expected text"):
        resolve(root, "h")


def test_a_group_circle_prints_itself(root: Path) -> None:
    put(root, "x.yaml", "group: x\ntask: [y]\n")
    put(root, "y.yaml", "group: y\ntask: [a, z]\n")
    put(root, "z.yaml", "group: z\ntask: [x]\n")
    with pytest.raises(ConfigError, match="contains itself: x → y → z → x"):
        resolve(root, "x")


def test_a_member_that_does_not_exist(root: Path) -> None:
    put(root, "g.yaml", "group: g\ntask:\n  - leters\n")
    with pytest.raises(ConfigError, match=r"g.yaml:2: group 'g': there is no .*'leters'\n.*Did you mean letters"):
        resolve(root, "g")
    put(root, "h.yaml", "group: h\ntask:\n  - task: absent\n    num_fewshot: 1\n")
    with pytest.raises(ConfigError, match=r"group 'h': there is no .*'absent'"):
        resolve(root, "h")
    put(root, "i.yaml", "group: i\ntask:\n  - num_fewshot: 1\n")
    with pytest.raises(ConfigError, match="neither `task` nor `group`"):
        resolve(root, "i")


def test_two_files_with_one_name(root: Path) -> None:
    put(root, "again.yaml", "task: a\ndataset_path: other\n")
    with pytest.raises(ConfigError, match=r"task 'a' is defined more than once: .*a.yaml, .*again.yaml"):
        resolve(root, "a")
    assert resolve(root, "b").roots == ["b"]


def test_asking_for_a_broken_file_by_name_shows_its_error(root: Path) -> None:
    put(root, "bad.yaml", "task: bad\nfoo: [1\n")
    with pytest.raises(ConfigError, match=r"bad.yaml:3: not valid YAML"):
        resolve(root, "bad")


def test_metadata_of_the_run_reach_every_task(root: Path) -> None:
    put(root, "m.yaml", "task: m\ndataset_path: d\nmetadata: {version: 2, keep: 1}\n")
    manager = TaskManager(include_path=root, include_defaults=False, metadata={"version": 3})
    assert manager.resolve("m").tasks["m"].metadata == {"version": 3, "keep": 1}


def test_variants_of_tasks_groups_and_tags(root: Path) -> None:
    put(root, "g.yaml", "group: g\ntask: [a, b]\n")
    found = resolve(root, "a", "a:3shot", "g:2shot", "letters:1shot")
    assert found.tasks["a:3shot"].num_fewshot == 3
    assert found.tasks["a:3shot"].task == "a:3shot"
    assert found.groups["g:2shot"].children == ("a:2shot", "b:2shot")
    assert found.roots == ["a", "a:3shot", "g:2shot", "a:1shot", "b:1shot", "c:1shot"]
    put(root, "h.yaml", "group: h\ntask: ['a:4shot', a]\n")
    assert resolve(root, "h").groups["h"].children == ("a:4shot", "a")
    with pytest.raises(ConfigError, match="there is no variant 'clozee'"):
        resolve(root, "a:clozee")


def test_a_changed_variant_base_keeps_other_tasks(root: Path) -> None:
    assert resolve(root, "*:1shot").roots == ["a:1shot", "b:1shot", "c:1shot"]


def test_origins_of_a_task_in_a_group(root: Path) -> None:
    group = put(root, "g.yaml", "group: g\nnum_fewshot: 5\ntask: [a]\n")
    origins = resolve(root, "g").origins["a"]
    assert (origins["num_fewshot"].path, origins["num_fewshot"].line) == (group, 2)
    assert origins["dataset_path"].path == root / "a.yaml"


def test_loading_builds_tasks_and_reads_no_data(root: Path) -> None:
    put(root, "g.yaml", "group: g\ntask: [a, b]\n")
    loaded = TaskManager(include_path=root, include_defaults=False).load(["g"])
    assert {name: task.task_name for name, task in loaded.tasks.items()} == {"a": "a", "b": "b"}
    assert loaded.groups["g"].children == ("a", "b")


def test_a_task_may_be_asked_for_as_a_mapping(tmp_path: Path) -> None:
    sound = "task: known\ndataset_path: a/b\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\nnum_fewshot: 1\n"
    (tmp_path / "known.yaml").write_text(sound)
    manager = TaskManager(tmp_path, include_defaults=False, lm_eval=False)
    changed = manager.load({"task": "known", "num_fewshot": 5})
    assert (changed.roots, changed.tasks["known"].config.num_fewshot) == (["known"], 5)
    assert manager.load("known").tasks["known"].config.num_fewshot == 1, "the file is as it was"
    own = {"task": "own", "dataset_path": "a/b", "test_split": "test", "doc_to_text": "q", "doc_to_target": "a"}
    both = manager.load([own, "known", {"group": "g", "task": ["known", {**own, "task": "inner"}]}])
    assert both.roots == ["own", "known", "g"]
    assert both.groups["g"].children == ("known", "g::inner")
    assert both.tasks["own"].config.dataset_path == "a/b"
    with pytest.raises(ConfigError, match=r"knwon(?s:.)*known"):
        manager.load({"task": "knwon", "num_fewshot": 5})
    with pytest.raises(ConfigError, match="neither `task` nor `group`"):
        manager.load([{"dataset_path": "a/b"}])
    with pytest.raises(ConfigError, match=r"doc_to_txt(?s:.)*doc_to_text"):
        manager.load({**own, "doc_to_txt": "q"})
    with pytest.raises(ConfigError, match="several different definitions"):
        manager.load(["known", {"task": "known", "num_fewshot": 5}])


def test_groups_of_a_named_directory_find_their_members_there(tmp_path: Path) -> None:
    put(
        tmp_path,
        "one.yaml",
        "task: only_here\ndataset_path: json\ntest_split: test\ndoc_to_text: x\ndoc_to_target: y\n",
    )
    put(tmp_path, "all.yaml", "group: whole\ntask: [only_here]\n")
    found = TaskManager().resolve([str(tmp_path)])
    assert set(found.tasks) == {"only_here"}
    assert found.groups["whole"].children == ("only_here",)
