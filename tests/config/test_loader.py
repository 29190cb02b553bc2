"""Task files on disk: includes, functions, and where every field came from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from assay.config import FunctionRef, load_yaml, locate
from assay.errors import ConfigError

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def test_later_include_wins_and_own_keys_win_over_all(write: Write) -> None:
    write("one", "a: 1\nb: 1\nc: 1\n")
    write("two.txt", "b: 2\nc: 2\n")
    path = write("task.yaml", "include: [one, two.txt]\nc: 3\n")
    assert load_yaml(path).data == {"a": 1, "b": 2, "c": 3}


def test_include_by_string_relative_absolute_and_nested(write: Write, tmp_path: Path) -> None:
    write("deep/base", "a: 1\n")
    write("deep/middle.yaml", "include: base\nb: 2\n")
    absolute = write("elsewhere/more.yaml", f"include: {tmp_path}/deep/middle.yaml\nc: 3\n")
    path = write("task.yaml", f"include: {absolute}\n")
    assert load_yaml(path).data == {"a": 1, "b": 2, "c": 3}


def test_a_diamond_of_includes_is_fine(write: Write) -> None:
    write("base", "a: 1\n")
    write("left", "include: base\nb: 1\n")
    write("right", "include: base\nb: 2\n")
    assert load_yaml(write("task.yaml", "include: [left, right]\n")).data == {"a": 1, "b": 2}


def test_merging_is_shallow(write: Write) -> None:
    write("base", "metadata: {version: 1, author: x}\n")
    assert load_yaml(write("task.yaml", "include: base\nmetadata: {version: 2}\n")).data["metadata"] == {"version": 2}


def test_an_include_circle_prints_itself(write: Write) -> None:
    write("a.yaml", "include: b.yaml\n")
    write("b.yaml", "include: c.yaml\n")
    path = write("c.yaml", "include: a.yaml\n")
    with pytest.raises(ConfigError, match=r"circular include: c.yaml → a.yaml → b.yaml → c.yaml"):
        load_yaml(path)


def test_a_file_that_includes_itself(write: Write) -> None:
    with pytest.raises(ConfigError, match=r"circular include: a.yaml → a.yaml"):
        load_yaml(write("a.yaml", "include: a.yaml\n"))


def test_a_missing_include_names_the_line_and_a_near_file(write: Write) -> None:
    write("_template_yaml", "a: 1\n")
    path = write("task.yaml", "task: x\ninclude: _templat_yaml\n")
    with pytest.raises(ConfigError, match=r"task.yaml:2: include names _templat_yaml") as caught:
        load_yaml(path)
    assert "Did you mean _template_yaml" in str(caught.value)


def test_every_field_knows_the_file_and_line_that_set_it(write: Write) -> None:
    base = write("base", "# a comment\ndataset_path: d\nrepeats: 2\n")
    path = write("task.yaml", "task: x\ninclude: base\n\nrepeats: 3\n")
    origins = load_yaml(path).origins
    assert (origins["dataset_path"].path, origins["dataset_path"].line) == (base, 2)
    assert (origins["repeats"].path, origins["repeats"].line) == (path, 4)


def test_a_line_deep_inside_a_field(write: Write) -> None:
    path = write("task.yaml", "task: x\nmetric_list:\n  - metric: acc\n  - metric: f1\n    aggregation: oops\n")
    origin = load_yaml(path).origins["metric_list"]
    found = locate(origin, ("metric_list", 1, "aggregation"))
    assert found is not None
    assert found.line == 5


def test_a_function_is_a_reference_to_code_beside_its_own_file(write: Write, tmp_path: Path) -> None:
    write("base/common", "process_docs: !function utils.process\n")
    data = load_yaml(write("task.yaml", "include: base/common\n")).data
    assert data["process_docs"] == FunctionRef("utils.process", tmp_path / "base")


def test_a_changed_file_is_read_again(write: Write) -> None:
    path = write("task.yaml", "a: 1\n")
    assert load_yaml(path).data == {"a": 1}
    write("task.yaml", "a: 1000\n")
    assert load_yaml(path).data == {"a": 1000}


def test_unicode_and_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_bytes("\ufefftask: größe_数学\n".encode())
    assert load_yaml(path).data == {"task": "größe_数学"}
