"""What tables say of verdicts on programs: those that a program had a part in, and those of a weak sandbox."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import assay
from assay.config import RunConfig
from assay.instance import Instance
from assay.models import LM

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made of Linux parts")

ANSWERS = {
    "right": "def solve(n): return 2 * n",
    "wrong": "def solve(n): return 5",
    "agreeing": "class A:\n    def __eq__(self, other): return True\ndef solve(n): return A()",
}
TASK = """
task: programs
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{name}}"
doc_to_target: "assert solve(2) == 4"
unsafe_code: true
metric_list:
  - {metric: !function own.FUNCTION, aggregation: mean, higher_is_better: true}
"""
OWN = """
from assay.metrics import load_metric

def sandboxed(references, predictions):
    return load_metric("code_eval").compute(references=references, predictions=[[each] for each in predictions], k=[1])[0]["pass@1"]

def own_way(references, predictions):
    return 1.0
"""


class Programmer(LM):
    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        raise NotImplementedError

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        raise NotImplementedError

    def generate_until(self, requests: list[Instance]) -> list[str]:
        return [ANSWERS[request.args[0]] for request in requests]


def health_of(folder: Path, function: str = "sandboxed", **settings: object) -> tuple[dict[str, int], list[str], float]:
    (folder / "own.py").write_text(OWN)
    (folder / "programs.yaml").write_text(TASK.replace("FUNCTION", function))
    (folder / "docs.jsonl").write_text("".join(json.dumps({"name": name}) + "\n" for name in ANSWERS))
    config = RunConfig(
        tasks=["programs"],
        include_path=[str(folder)],
        confirm_run_unsafe_code=True,
        run_dir=str(folder / "run"),
        store=str(folder / "store.sqlite"),
        **settings,  # type: ignore[arg-type]
    )
    found = assay.evaluate(config, model=Programmer()).tasks["programs"]
    counted = {name: found.health.count(name) for name in ("not_independent", "weak_sandbox")}
    (score,) = found.scores.values()
    return counted, found.health.marks(), score.estimate.value


def test_a_verdict_that_the_program_had_a_part_in_is_counted(tmp_path: Path):
    counted, marks, value = health_of(tmp_path)
    assert counted == {"not_independent": 1, "weak_sandbox": 0}
    assert marks == ["33% not independent"]
    assert value == pytest.approx(2 / 3)


def test_a_weak_sandbox_is_shown(tmp_path: Path):
    counted, marks, _ = health_of(tmp_path, sandbox="weak")
    assert counted == {"not_independent": 1, "weak_sandbox": 3}
    assert "weak sandbox" in marks


def test_programs_that_a_task_runs_its_own_way_count_as_both(tmp_path: Path):
    counted, _, _ = health_of(tmp_path, "own_way")
    assert counted == {"not_independent": 3, "weak_sandbox": 3}
