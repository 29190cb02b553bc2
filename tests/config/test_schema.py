"""The JSON Schema knows what the loader knows."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from assay.config import file_schema
from assay.tasks.manager import default_roots

jsonschema = pytest.importorskip("jsonschema")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """As an editor sees a file: a function is text with a tag."""


_Loader.add_constructor("!function", lambda loader, node: str(node.value))


@cache
def validator(kind: str) -> Any:
    return jsonschema.Draft202012Validator(file_schema(kind))


def errors(kind: str, data: Any) -> list[str]:
    return [error.message for error in validator(kind).iter_errors(data)]


def test_the_schemas_are_schemas() -> None:
    for kind in ("task", "group"):
        jsonschema.Draft202012Validator.check_schema(file_schema(kind))


@pytest.mark.parametrize(
    "text",
    [
        "task: t\ninclude: base\ntag: a\nmetric_list: [{metric: acc, ignore_case: true}]\n",
        "task: t\nmetric_list: acc\nfilter_list: [{name: f, filter: [{function: regex, regex_pattern: x}]}]\n",
        "task: t\nprocess_docs: !function utils.f\nfewshot_config: {sampler: first_n}\nrepeats: 3\n",
        "task: t\nclass: !function task.C\nrecipe: own\n",
    ],
)
def test_task_files_fit(text: str) -> None:
    assert errors("task", yaml.load(text, Loader=_Loader)) == []


@pytest.mark.parametrize(
    "text", ["task: t\ndoc_to_txt: x\n", "task: t\nrepeats: zero\n", "task: t\noutput_type: multiple_choise\n"]
)
def test_wrong_task_files_do_not(text: str) -> None:
    assert errors("task", yaml.safe_load(text))


def test_group_files_may_carry_the_fields_of_their_children() -> None:
    text = "group: g\ntask: [a, {task: b, num_fewshot: 1}]\naggregate_metric_list: {metric: acc}\nnum_fewshot: 5\n"
    assert errors("group", yaml.safe_load(text)) == []
    assert errors("group", {"group": "g", "num_fewshots": 5})


def test_every_file_of_the_catalog_fits() -> None:
    wrong = {}
    for path in sorted(file for root in default_roots() for file in root.rglob("*.yaml")):
        data = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_Loader)
        if (
            isinstance(data, dict)
            and ("group" in data or "task" in data)
            and (found := errors("group" if "group" in data else "task", data))
        ):
            wrong[path.name] = found
    assert wrong == {}


def test_turns_are_a_list_of_templates() -> None:
    task = {"task": "t", "dataset_path": "d", "turns": ["And {{answers[0]}} twice?"]}
    assert errors("task", task) == []
    assert errors("task", {**task, "turns": "not a list"}) != []
