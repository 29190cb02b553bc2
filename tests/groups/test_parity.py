"""Groups as lm-evaluation-harness computes them, on its own answers; and where it is wrong, not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from parts import Leaf, result_of

from assay.groups import GroupManager

GOLDENS = Path(__file__).parents[3] / "shared" / "parity" / "goldens"
GROUP_FILES = sorted(GOLDENS.glob("*__group*.json.gz")) if GOLDENS.is_dir() else []

pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(not GROUP_FILES, reason="the goldens are not beside the repository"),
]


def golden_with_groups(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") as file:
        golden: dict[str, Any] = json.load(file)
    golden.pop("samples", None)
    if not golden.get("groups"):
        pytest.skip("a tag: there is nothing to aggregate")
    return golden


def rebuilt(golden: dict[str, Any]) -> GroupManager:
    """The groups of a golden with the entries its own keys show; the parity test of runs reads the YAML itself."""
    manager = GroupManager()
    for name in golden["results"]:
        if name not in golden["group_subtasks"]:
            manager.register_task(Leaf(name))
    manager.build_hierarchy({name: config_of(golden, name) for name in golden["group_subtasks"]})
    return manager


def config_of(golden: dict[str, Any], name: str) -> dict[str, Any]:
    entry = golden["groups"].get(name, {})
    metrics = dict.fromkeys(key.split(",")[0] for key in entry if "," in key and "_stderr," not in key)
    weighted = [{"metric": metric, "weight_by_size": name not in UNWEIGHTED} for metric in metrics]
    for item in weighted:
        item["filter_list"] = [k.split(",", 1)[1] for k in entry if k.split(",")[0] == item["metric"]]
    return {
        "group": name,
        "group_alias": entry.get("alias"),
        "task": golden["group_subtasks"][name],
        "aggregate_metric_list": weighted,
    }


PARTS = ("group_subtasks", "n-shot", "higher_is_better")
UNWEIGHTED = {"mmlu_mini_macro", "superglue_mini", "blimp_mini"}


@pytest.mark.parametrize("path", GROUP_FILES, ids=lambda path: path.name.removesuffix(".json.gz"))
def test_group_numbers_equal_the_goldens(path: Path) -> None:
    golden = golden_with_groups(path)
    manager = rebuilt(golden)
    tasks = {name: entry for name, entry in golden["results"].items() if name not in golden["groups"]}
    found = manager.group_entries(tasks)
    for name, expected in golden["groups"].items():
        assert list(found[name]) == list(expected), "the same keys in the same order"
        for key, value in expected.items():
            assert found[name][key] == (pytest.approx(value, abs=1e-12) if isinstance(value, float) else value), (
                name,
                key,
            )
    known = {
        name: {"num_fewshot": golden["n-shot"].get(name), "higher_is_better": golden["higher_is_better"].get(name, {})}
        for name in manager.tasks
    }
    written = result_of(manager, **known).to_dict()
    assert {part: written[part] for part in PARTS} == {part: golden[part] for part in PARTS}
