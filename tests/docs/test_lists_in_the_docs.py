"""Tables of the documentation that list something of the program list all of it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from assay.cli.entry import EARLIER, VERBS
from assay.config import CIRule
from assay.config.ci import RuleKind
from assay.show import OUTPUT_FORMATS

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_every_verb_answers_a_question() -> None:
    shown = set(re.findall(r"`assay ([a-z]+)", page("verbs.md")))
    assert shown == {*VERBS, *EARLIER}


def test_every_format_is_explained_with_its_endings() -> None:
    rows = dict(re.findall(r"^\| `(\w[\w-]*)` \|(?: `(\S*)`)? \|", page("findings.md"), re.MULTILINE))
    of_pages = {"notebook", "code-quality"}  # a notebook and GitLab take these by themselves
    assert set(rows) == {*OUTPUT_FORMATS} - of_pages
    for name, ending in rows.items():
        assert ending == next(iter(OUTPUT_FORMATS[name].endings), "")


def test_every_group_of_entry_points_is_listed() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src" / "assay").rglob("*.py"))
    stated = re.findall(r'group=\(?((?:"assay\.\w+"(?:, )?)+)', sources)
    groups = {group for each in stated for group in re.findall(r"assay\.\w+", each)}
    listed = set(re.findall(r"`(assay\.\w+)`", page("extending.md").partition("## As a package")[2]))
    assert listed == groups


def test_the_reference_is_what_the_code_says(tmp_path: Path) -> None:
    """`make reference` writes it anew. In a process of its own, as tests add names to registries."""
    subprocess.run([sys.executable, ROOT / "docs" / "_reference.py", tmp_path / "made"], check=True, timeout=120)
    made, kept = (
        {path.name: path.read_text() for path in folder.iterdir()}
        for folder in (tmp_path / "made", ROOT / "docs" / "reference")
    )
    assert made.keys() == kept.keys()
    assert [name for name in made if made[name] != kept[name]] == [], "run `make reference`"


def test_rules_that_the_reference_lists_are_understood() -> None:
    rules = re.findall(r"^- `(.+)`$", page("reference/assay-yaml.md"), re.MULTILINE)
    assert len(rules) == len(get_args(RuleKind))
    assert {CIRule.parse(rule.replace(" [METRIC]", "")).kind for rule in rules} == {*get_args(RuleKind)}


def test_every_message_of_troubleshooting_is_one_that_the_code_writes() -> None:
    said = "\n".join(_texts())
    rows = re.findall(r"^\| `([^`]+)` \|", page("troubleshooting.md"), re.MULTILINE)
    assert len(rows) > 25
    assert [row for row in rows if row.removeprefix("`") not in said] == []


def _texts() -> Iterator[str]:
    """Every text in the source, `…` in place of what is filled in."""
    for file in (ROOT / "src" / "assay").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.parametrize(
    "name",
    [
        *("StandardGroup", "register_group", "get_groups_for_task", "get_tasks_for_group", "add_to_group"),
        *("ScoringContext", "_create_scorer", "to_metric_inputs", "reduce", "sort_instances", "FilterEnsemble"),
        *("TaskStyler", "for_language"),
    ],
)
def test_a_name_of_the_designs_is_taught_by_code(name: str) -> None:
    blocks = [
        block
        for file in (ROOT / "docs").rglob("*.md")
        for block in re.findall(r"```python.*?\n(.*?)```", file.read_text(), re.S)
    ]
    assert any(re.search(rf"\b{name}\b", block) for block in blocks)
