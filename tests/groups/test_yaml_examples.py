"""The group files of the design, read by the task manager as they are written, with numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parts import fresh_keys, mean_score, result_of

from assay.groups import GroupManager
from assay.results import MetricKey
from assay.tasks import TaskManager

TASK = "task: {name}\ndataset_path: json\ntest_split: test\noutput_type: generate_until\ndoc_to_text: q\ndoc_to_target: a\n"

EXAMPLES = {
    "mmlu_pro": """
group: mmlu_pro
group_alias: "MMLU Professional"
task:
  - mmlu_pro_biology
  - mmlu_pro_chemistry
  - mmlu_pro_physics

aggregate_metric_list:
  - metric: acc
    aggregation: mean
    weight_by_size: true
    filter_list: default

metadata:
  version: 2.0
  description: "Multiple choice questions for professionals"
  domain: "knowledge"
""",
    "code_generation": """
group: code_generation
task:
  - humaneval
  - mbpp
  - apps

aggregate_metric_list:
  - metric: pass@1
    aggregation: pass@k
    kwargs:
      k: 1

  - metric: pass@10
    aggregation: pass@k
    kwargs:
      k: 10

  - metric: compilation_rate
    aggregation: mean
    weight_by_size: false
""",
    "reasoning": """
group: reasoning
task:
  - math_reasoning  # Sub-group
  - logical_reasoning  # Sub-group
  - commonsense_reasoning  # Sub-group

aggregate_metric_list:
  - metric: acc
    aggregation: harmonic_mean  # Better for imbalanced subtasks
""",
    "extraction_tasks": """
group: extraction_tasks
task:
  - ner
  - relation_extraction
  - event_extraction

aggregate_metric_list:
  - metric: f1
    aggregation: harmonic_mean
    filter_list: [strict, lenient]  # Aggregate across both filters
""",
    "math_reasoning": "group: math_reasoning\ntask: [gsm, aime]\n",
    "logical_reasoning": "group: logical_reasoning\ntask: [puzzles]\n",
    "commonsense_reasoning": "group: commonsense_reasoning\ntask: [siqa]\n",
}
TASKS = [
    *("mmlu_pro_biology", "mmlu_pro_chemistry", "mmlu_pro_physics", "humaneval", "mbpp", "apps"),
    *("gsm", "aime", "puzzles", "siqa", "ner", "relation_extraction", "event_extraction"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in TASKS:
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name))
    for name, text in EXAMPLES.items():
        (tmp_path / f"group_{name}.yaml").write_text(text)
    return tmp_path


def manager_for(folder: Path, name: str) -> GroupManager:
    return GroupManager.from_loaded(TaskManager(folder, include_defaults=False).load([name]))


def test_basic_group(folder: Path) -> None:
    manager = manager_for(folder, "mmlu_pro")
    sizes = {"mmlu_pro_biology": 10, "mmlu_pro_chemistry": 20, "mmlu_pro_physics": 70}
    values = dict(zip(sizes, (0.9, 0.5, 0.3)))
    results = {n: {"acc,default": v, "acc_stderr,default": 0.1, "sample_len": sizes[n]} for n, v in values.items()}
    found = manager.groups["mmlu_pro"].aggregate(results)
    assert found["acc,default"] == pytest.approx((9 + 10 + 21) / 100)
    assert found["acc_stderr,default"] == pytest.approx(((9 * 10 + 19 * 20 + 69 * 70) * 0.01 / 97 / 100) ** 0.5)
    assert (found["alias"], found["sample_len"]) == ("MMLU Professional", 100)
    assert manager.groups["mmlu_pro"].metadata == {
        "version": 2.0,
        "description": "Multiple choice questions for professionals",
        "domain": "knowledge",
    }


def test_advanced_aggregation(folder: Path) -> None:
    manager = manager_for(folder, "code_generation")
    rng = np.random.default_rng(0)
    counts = {"humaneval": [[10, 1], [10, 5]], "mbpp": [[10, 0]], "apps": [[20, 10], [20, 1], [20, 0]]}
    scores: dict[str, dict[MetricKey, Any]] = {}
    for name, rows in counts.items():
        table = np.array(rows)
        score = mean_score(table[:, 1] / table[:, 0], fresh_keys(rng, len(rows)), counts=table)
        scores[name] = {
            MetricKey("pass@1"): score,
            MetricKey("compilation_rate"): mean_score([1.0] * len(rows), fresh_keys(rng, len(rows))),
        }
    scores["mbpp"][MetricKey("compilation_rate")] = mean_score([0.0])
    found = manager.score_groups(scores)["code_generation"]
    assert found[MetricKey("pass@1")].estimate.value == pytest.approx((0.1 + 0.5 + 0 + 0.5 + 0.05 + 0) / 6)
    # C(10,10)/C(20,10) = 1/184756; C(19,10)/C(20,10) = 1/2
    assert found[MetricKey("pass@10")].estimate.value == pytest.approx((1 + 1 + 0 + (1 - 1 / 184756) + 0.5 + 0) / 6)
    assert found[MetricKey("compilation_rate")].estimate.value == pytest.approx(2 / 3)


def test_nested_groups(folder: Path) -> None:
    manager = manager_for(folder, "reasoning")
    results = {
        n: {"acc,none": v, "sample_len": 5} for n, v in {"gsm": 0.5, "aime": 0.1, "puzzles": 0.25, "siqa": 1.0}.items()
    }
    assert manager.groups["reasoning"].compute_metrics(results) == {"acc,none": pytest.approx(4 / (2 + 10 + 4 + 1))}
    shown = [f"{'  ' * depth}{node.name}" for depth, node in result_of(manager).tree()]
    assert shown == [
        "reasoning",
        "  math_reasoning",
        "    gsm",
        "    aime",
        "  logical_reasoning",
        "    puzzles",
        "  commonsense_reasoning",
        "    siqa",
    ]
    assert manager.groups["math_reasoning"].depth() == 1


def test_several_filters(folder: Path) -> None:
    manager = manager_for(folder, "extraction_tasks")
    names = ("ner", "relation_extraction", "event_extraction")
    results = {n: {"f1,strict": s, "f1,lenient": s * 2, "f1,other": 1.0} for n, s in zip(names, (0.2, 0.4, 0.4))}
    expected = {"f1,strict": pytest.approx(3 / (5 + 2.5 + 2.5)), "f1,lenient": pytest.approx(0.6)}
    assert manager.groups["extraction_tasks"].compute_metrics(results) == expected


def test_a_function_in_yaml_is_used_not_ignored(folder: Path) -> None:
    (folder / "rules.py").write_text("def worst(values):\n    return min(values.values())\n")
    (folder / "mine.yaml").write_text(
        "group: mine\ntask: [gsm, siqa]\naggregate_metric_list:\n  - metric: acc\n    aggregation: !function rules.worst\n"
    )
    results = {"gsm": {"acc,none": 0.2}, "siqa": {"acc,none": 0.9}}
    assert manager_for(folder, "mine").groups["mine"].compute_metrics(results) == {"acc,none": 0.2}


def test_tags_and_variants_inside_groups_and_overlap(folder: Path) -> None:
    for name in ("siqa", "puzzles"):
        (folder / f"{name}.yaml").write_text(TASK.format(name=name) + "tag: short\n")
    (folder / "one.yaml").write_text("group: one\ntask: [short, gsm]\naggregate_metric_list: [{metric: acc}]\n")
    (folder / "two.yaml").write_text("group: two\ntask: [gsm, one]\naggregate_metric_list: [{metric: acc}]\n")
    loaded = TaskManager(folder, include_defaults=False).load(["one", "two", "gsm"])
    manager = GroupManager.from_loaded(loaded)
    assert sorted(manager.tasks) == ["gsm", "puzzles", "siqa"], "each task once"
    assert manager.groups["two"].get_all_tasks()[0] is manager.groups["one"].get("gsm")
    assert {name: tag.child_names for name, tag in manager.tags.items()} == {"short": ["puzzles", "siqa"]}
    results = {"gsm": {"acc,none": 0.0}, "puzzles": {"acc,none": 0.5}, "siqa": {"acc,none": 1.0}}
    found = manager.compute_all_group_metrics(results)
    assert found["one"]["acc,none"] == found["two"]["acc,none"] == 0.5
