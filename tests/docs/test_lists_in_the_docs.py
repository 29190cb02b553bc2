"""Tables of the documentation that list something of the program list all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.cli.entry import EARLIER, VERBS
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
        for file in (ROOT / "docs").glob("*.md")
        for block in re.findall(r"```python.*?\n(.*?)```", file.read_text(), re.S)
    ]
    assert any(re.search(rf"\b{name}\b", block) for block in blocks)
