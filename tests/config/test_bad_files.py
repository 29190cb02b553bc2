"""Files that are wrong in every way there is: each gives one message that a stranger understands."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.config import load_yaml
from assay.errors import ConfigError

LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
MERGED = "m0: &m0 {k: 1}\n" + "".join(f"m{i}: &m{i} {{<<: [*m{i - 1}, *m{i - 1}]}}\n" for i in range(1, 40))

CASES = {
    "empty": (b"", "the file is empty"),
    "only comments": (b"# nothing\n\n", "the file is empty"),
    "list": (b"- a\n- b\n", r":1: found a list, expected `key: value` pairs"),
    "scalar": (b"hello\n", r":1: found a single value"),
    "syntax": (b"task: x\nfoo: [1, 2\nbar: 3\n", r"task\.yaml:\d+: not valid YAML"),
    "tabs": (b"task: x\nmetadata:\n\tversion: 1\n", r":3: not valid YAML.*(?s:.)*Indent with spaces"),
    "colon": (b"task: x\ndescription: Answer: now\n", r":2: not valid YAML(?s:.)*must be in quotes"),
    "latin-1": (b"task: x\ndescription: caf\xe9\n", r":2: not UTF-8 \(byte 0xe9\)"),
    "nul": (b"task: x\x00y\n", "not valid YAML"),
    "unknown tag": (b"task: !python/object:os.system x\n", r":1: not valid YAML(?s:.)*only tag in task files"),
    "function without name": (b"process_docs: !function [a, b]\n", r":1: not valid YAML: !function takes one name"),
    "impossible date": (b"task: x\nwhen: 2024-13-45\n", "cannot be read.*\n?.*quotes"),
    "number as key": (b"1: x\n", "key 1 is not text"),
    "billion laughs": (LAUGHS.encode(), "aliases expand to more than"),
    "billion merges": (MERGED.encode(), "aliases expand to more than"),
    "anchor in itself": (b"a: &a [*a]\n", r":1: the anchor contains itself"),
    "nested brackets": (b"a: " + b"[" * 100_000 + b"]" * 100_000, "nested more than"),
    "nested dashes": (b"a:\n" + b"- " * 3_000 + b"x\n", "nested more than|not valid YAML"),
    "short and deep": (b"a: " + b"[" * 900 + b"]" * 900, "nested more than|not valid YAML"),
    "unclosed and deep": (b"a: " + b"{x: " * 50_000, "nested more than|not valid YAML"),
    "ten megabytes": (b"a:\n" + b"  - [1, [2, [3]]]\n" * 600_000, r"1\d\.\d MB of YAML"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_file_is_a_config_error_with_its_reason(tmp_path: Path, case: str) -> None:
    content, reason = CASES[case]
    path = tmp_path / "task.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        load_yaml(path)
    assert caught.value.exit_code == 2
    assert str(path) in str(caught.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_yaml(tmp_path / "absent.yaml")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory"):
        load_yaml(tmp_path)


def test_no_permission(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("task: x\n")
    path.chmod(0)
    # Root may read everything, so the test steps down for a moment.
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        with pytest.raises(ConfigError, match="no permission to read"):
            load_yaml(path)
    finally:
        if was_root:
            os.seteuid(0)


def test_aliases_in_reason_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text("base: &b {x: 1}\na: {<<: *b, y: 2}\nb: *b\n")
    assert load_yaml(path).data == {"base": {"x": 1}, "a": {"x": 1, "y": 2}, "b": {"x": 1}}
