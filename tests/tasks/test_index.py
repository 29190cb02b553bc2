"""The index: names read off lines, kept on disk, and never behind the files."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.config.parse import parse_text
from assay.errors import ConfigError
from assay.tasks import index as index_module
from assay.tasks.index import Index, build_index
from assay.tasks.scan import facts_of, scan


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    # The files of these tests are always younger than a tick.
    monkeypatch.setattr(index_module, "_TICK_NS", 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    return folder


def put(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def names(index: Index) -> dict[str, str]:
    return {name: entry.kind for name, entry in index.entries.items()}


def test_tasks_groups_and_tags(root: Path) -> None:
    put(root, "a.yaml", "task: a\ntag: t\n")
    put(root, "b.yaml", "task: b\ntag: [t, u]\n")
    put(root, "g.yaml", "group: g\ntask:\n  - a\n  - b\n")
    index = build_index([root])
    assert names(index) == {"a": "task", "b": "task", "g": "group", "t": "tag", "u": "tag"}
    assert list(index.entries["t"].members) == ["a", "b"]


def test_what_an_include_says_counts_and_the_file_itself_counts_more(root: Path) -> None:
    put(root, "base", "tag: shared\noutput_type: multiple_choice\ntask: from_base\n")
    put(root, "a.yaml", "include: base\ntask: a\n")
    put(root, "b.yaml", "include: base\ntag: own\noutput_type: generate_until\n")
    index = build_index([root])
    assert names(index) == {"a": "task", "from_base": "task", "shared": "tag", "own": "tag"}
    assert index.entries["a"].output_type == "multiple_choice"
    assert index.entries["from_base"].output_type == "generate_until"


def test_a_class_task_in_a_file_with_a_group_line_is_a_task(root: Path) -> None:
    put(root, "a.yaml", "group: scrolls\ntask: qasper\nclass: !function task.Qasper\n")
    entry = build_index([root]).entries["qasper"]
    assert (entry.kind, entry.is_class) == ("task", True)


def test_a_file_without_a_name_is_a_base(root: Path) -> None:
    path = put(root, "base.yaml", "dataset_path: d\n")
    index = build_index([root])
    assert (dict(index.entries), list(index.nameless)) == ({}, [str(path)])


def test_a_broken_file_does_not_hide_the_others_and_is_listed_with_its_error(root: Path) -> None:
    put(root, "good.yaml", "task: good\n")
    named = put(root, "named.yaml", "task: named\nfoo: [1\n")
    bare = put(root, "bare.yaml", "- a list\n")
    empty = put(root, "empty.yaml", "")
    index = build_index([root])
    assert names(index) == {"good": "task", "named": "task"}
    assert set(index.broken) == {str(named), str(bare), str(empty)}
    assert "named.yaml:3: not valid YAML" in index.broken[str(named)]


def test_a_later_root_takes_a_name_over(tmp_path: Path) -> None:
    put(tmp_path / "one", "a.yaml", "task: a\noutput_type: generate_until\n")
    put(tmp_path / "two", "a.yaml", "task: a\noutput_type: multiple_choice\n")
    index = build_index([tmp_path / "one", tmp_path / "two"])
    assert index.entries["a"].output_type == "multiple_choice"
    assert not index.entries["a"].rivals


def test_a_tag_collects_the_tasks_of_all_roots(tmp_path: Path) -> None:
    put(tmp_path / "one", "a.yaml", "task: a\ntag: t\n")
    put(tmp_path / "one", "b.yaml", "task: b\ntag: [t, u]\n")
    put(tmp_path / "two", "b.yaml", "task: b\n")  # replaces b, which loses its tags
    put(tmp_path / "two", "c.yaml", "task: c\ntag: t\n")
    for _ in range(2):  # the second time from the cache
        index = build_index([tmp_path / "one", tmp_path / "two"])
        assert names(index) == {"a": "task", "b": "task", "c": "task", "t": "tag"}
        assert list(index.entries["t"].members) == ["a", "c"]
        assert index.entries["b"].replaces == str(tmp_path / "one" / "b.yaml")
        assert [index.entries[name].replaces for name in "act"] == [None] * 3


@pytest.mark.parametrize("roots", [["one", "two"], ["two", "one"]])
def test_no_tag_takes_the_name_of_a_task_or_group(tmp_path: Path, roots: list[str]) -> None:
    put(tmp_path / "one", "x.yaml", "task: x\n")
    put(tmp_path / "one", "g.yaml", "group: g\ntask: [x]\n")
    put(tmp_path / "two", "y.yaml", "task: y\ntag: [x, g]\n")
    index = build_index([tmp_path / root for root in roots])
    assert names(index) == {"x": "task", "g": "group", "y": "task"}


def test_a_root_given_twice_replaces_nothing(root: Path) -> None:
    put(root, "a.yaml", "task: a\ntag: t\n")
    index = build_index([root, root])
    assert index.entries["a"].replaces is None
    assert list(index.entries["t"].members) == ["a"]


def test_two_files_of_one_root_with_one_name_are_rivals(root: Path) -> None:
    put(root, "a.yaml", "task: a\n")
    second = put(root, "z.yaml", "task: a\n")
    assert list(build_index([root]).entries["a"].rivals) == [str(second)]


def test_the_second_time_no_file_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "base", "tag: t\n")
    put(root, "a.yaml", "include: base\ntask: a\n")
    put(root, "broken.yaml", "a: [\n")
    first = build_index([root])
    monkeypatch.setattr("assay.tasks.index.read_facts", lambda path: pytest.fail(f"read {path}"))
    again = build_index([root])
    assert {name: [*map(str, entry)] for name, entry in again.entries.items()} != {}
    assert names(again) == names(first)
    assert again.broken == first.broken


def test_changed_added_removed_and_renamed_files_are_noticed(root: Path) -> None:
    path = put(root, "a.yaml", "task: a\n")
    assert names(build_index([root])) == {"a": "task"}
    put(root, "a.yaml", "task: b\n")  # same size: the time tells
    assert names(build_index([root])) == {"b": "task"}
    put(root, "deep/er/c.yaml", "task: c\n")
    assert names(build_index([root])) == {"b": "task", "c": "task"}
    path.unlink()
    assert names(build_index([root])) == {"c": "task"}


def test_a_changed_base_of_another_suffix_is_noticed(root: Path, tmp_path: Path) -> None:
    base = put(tmp_path, "elsewhere/base", "tag: one\n")
    put(root, "a.yaml", f"include: {base}\ntask: a\n")
    assert "one" in build_index([root]).entries
    base.write_text("tag: other\n")
    assert names(build_index([root])) == {"a": "task", "other": "tag"}


def test_a_base_that_appears_later_is_noticed(root: Path) -> None:
    put(root, "a.yaml", "include: base\ntask: a\n")
    assert build_index([root]).broken
    put(root, "base", "tag: t\n")
    index = build_index([root])
    assert not index.broken
    assert "t" in index.entries


def test_only_changed_files_are_read_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        put(root, f"{name}.yaml", f"task: {name}\n")
    build_index([root])
    put(root, "b.yaml", "task: changed\n")
    read: list[str] = []
    real = index_module.read_facts
    monkeypatch.setattr(index_module, "read_facts", lambda path: read.append(os.path.basename(path)) or real(path))
    assert set(build_index([root]).entries) == {"a", "changed", "c"}
    assert read == ["b.yaml"]


def test_a_damaged_cache_is_built_again(root: Path, tmp_path: Path) -> None:
    put(root, "a.yaml", "task: a\n")
    build_index([root])
    for file in (tmp_path / "home" / "index").iterdir():
        file.write_bytes(file.read_bytes()[: random.Random(0).randrange(20)])
    assert names(build_index([root])) == {"a": "task"}


def test_a_home_that_cannot_be_written_costs_only_time(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "file"))
    put(root, "a.yaml", "task: a\n")
    assert names(build_index([root])) == {"a": "task"}


def test_a_file_of_this_very_moment_is_not_trusted(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(index_module, "_TICK_NS", 10**12)
    put(root, "a.yaml", "task: a\n")
    build_index([root])
    assert not (tmp_path / "home" / "index").exists()


def test_links_in_a_circle_end(root: Path) -> None:
    put(root, "a.yaml", "task: a\n")
    (root / "loop").symlink_to(root, target_is_directory=True)
    assert names(build_index([root])) == {"a": "task"}


SCALARS = st.sampled_from(
    [
        *("name", "a_b-c.d", "20_newsgroups", "größe", "a  b", "../up/base", "", "a#b", "a # comment", "a: b", "x:"),
        *('"quoted"', "'single'", "'it''s'", '"a\\nb"', "'", "[x, y]", '["x", y]', "[x, [y]]", "{a: b}", "- x"),
        *(
            "{description: d}",
            "{name: n}",
            "0",
            "07",
            "yes",
            "no",
            "on",
            "null",
            "~",
            "123",
            "1.5",
            "1e3",
            "0x1f",
            "2024-01-01",
        ),
        *("|", ">", "&a b", "*a", "!function a.b"),
    ]
)
KEYS = st.sampled_from(
    [
        *("task", "group", "tag", "include", "output_type", "class", '"task"', "'tag'", "task ", "other", "tasks"),
        *("num_fewshot", "dataset_path", "metadata", "style"),
    ]
)
TAILS = st.sampled_from(
    [
        "",
        "\n",
        "\n  more",
        "\n  - item\n  - other",
        "\n- item",
        "\n  # note",
        "\n\n",
        "\n  - [x]",
        "\n  key: v",
        "\n  description: d",
        "\n  name: n # x",
    ]
)
HEADS = st.sampled_from(["", "---\n", "# head\n", "\ufeff", " ", "%YAML 1.1\n---\n"])


@settings(max_examples=1000, deadline=None)
@given(st.lists(st.tuples(KEYS, SCALARS, TAILS), max_size=4), HEADS)
def test_the_scanner_never_disagrees_with_the_parser(lines: list[tuple[str, str, str]], head: str) -> None:
    """It may leave a file to the parser; what it does say must be what the parser would have said."""
    text = head + "\n".join(f"{key}: {value}{tail}" for key, value, tail in lines) + "\n"
    said = scan(text.encode())
    if said is None:
        return
    try:
        parsed = parse_text(text.removeprefix("\ufeff"), Path("f.yaml"))
    except ConfigError:
        return  # the index checks the syntax apart
    assert said == facts_of(parsed.data)
