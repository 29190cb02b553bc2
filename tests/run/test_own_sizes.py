"""A group's mean weighs tasks by their own sizes, however many docs were asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.test_run import Echo, bench, run  # noqa: F401  `bench` is a fixture

from assay.results import MetricKey, RunResult

ACC = MetricKey("acc")


class Uneven(Echo):
    """Right on every doc of the small task, and on one doc in three of the large one, spread evenly."""

    def stream(self, request_type: Any, instances: Any, draws: Any, stop: Any = None) -> Any:
        from assay.instance import Response

        for position, instance in enumerate(instances):
            doc = instance.doc
            knows = doc["question"].startswith("small") or doc["number"] % 3 == 0
            right = instance.idx == doc["answer"]
            yield position, Response((0.0 if right == knows else -1.0, False))

    def fingerprint(self) -> str:
        return "uneven"


@pytest.fixture
def group(bench: Path) -> Path:  # noqa: F811
    template = (bench / "colours.yaml").read_text()
    for name, docs in (("large", 900), ("small", 100)):
        rows = [{"question": f"{name} {i} +", "answer": i * 7 % 3, "number": i} for i in range(docs)]
        (bench / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        text = template.replace("task: colours", f"task: {name}").replace("/test.jsonl", f"/{name}.jsonl")
        (bench / f"{name}.yaml").write_text(text)
    body = {
        "group": "pair",
        "task": ["large", "small"],
        "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
    }
    (bench / "pair.yaml").write_text(json.dumps(body))
    return bench


def weights(result: RunResult) -> list[float]:
    return [share.weight or 0.0 for share in result.groups["pair"].scores[ACC].children]


@pytest.mark.parametrize("asked", [{"limit": 60}, {"until": "ci=0.12"}, {"limit": 0.5}, {}])
def test_a_part_of_the_docs_weighs_as_the_whole_does(group: Path, asked: dict[str, Any]) -> None:
    result = run(group, Uneven(), tasks=["pair"], **asked)
    estimate = result.groups["pair"].scores[ACC].estimate
    assert weights(result) == pytest.approx([0.9, 0.1])
    assert estimate.value == pytest.approx(0.4, abs=0.06)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low <= 0.4 <= estimate.high
    assert estimate.n == sum(task.scores[ACC].estimate.n for task in result.tasks.values())


def test_after_a_limit_tools_of_lm_evaluation_harness_read_its_own_number_and_the_run_says_so(group: Path) -> None:
    result = run(group, Uneven(), tasks=["pair"], limit=60)
    ours = result.groups["pair"].scores[ACC].estimate.value
    theirs = json.loads(result.to_json())["results"]["pair"]
    assert ours == pytest.approx(0.9 / 3 + 0.1)
    assert theirs["acc,none"] == pytest.approx((20 + 60) / 120)
    assert theirs["sample_count"]["acc,none"] == 120
    stderrs = np.array([result.tasks[name].scores[ACC].estimate.stderr for name in ("large", "small")])
    assert theirs["acc_stderr,none"] == pytest.approx(np.sqrt((59 * stderrs**2 * 60).sum() / 118 / 120))
    assert any("weights tasks by their full sizes" in note for note in result.notes)
    assert RunResult.from_json(result.to_json()).groups["pair"].scores[ACC].estimate.value == ours


def test_without_a_limit_there_is_one_number(group: Path) -> None:
    result = run(group, Uneven(), tasks=["pair"])
    ours = result.groups["pair"].scores[ACC].estimate.value
    assert json.loads(result.to_json())["results"]["pair"]["acc,none"] == ours
    assert not any("full sizes" in note for note in result.notes)


def test_a_comparison_of_a_stopped_run_with_a_whole_one_weighs_both_by_the_tasks_own_sizes(group: Path) -> None:
    from assay.analyses.compare import compare_runs
    from assay.finished import open_run

    run(group, Uneven(), tasks=["pair"], run_dir=str(group / "whole"))
    run(group, Uneven(), tasks=["pair"], run_dir=str(group / "part"), limit=60)
    for order in (("whole", "part"), ("part", "whole")):
        (found,) = compare_runs([open_run(group / name) for name in order])
        row = found.row("pair", "acc")
        assert row is not None
        assert row.difference.a == row.difference.b == pytest.approx(0.4, abs=0.06)
