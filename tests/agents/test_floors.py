"""What a task for agents gives to one that does nothing, that submits at once, and that edits what may judge it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.evaluation import score_again
from assay.results import MetricKey

from .scripted import Scripted

SOLVED = MetricKey("solved", "none")
NAMES = ["does_nothing", "submits_at_once", "edits_tests"]
TASK = """
task: jobs
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: agent
doc_to_text: question
agent:
  tools: [TOOL]
  sandbox: {files: files, seconds: 5}
  limits: {steps: 3}
metric_list: [!function checks.solved, steps]
"""
CHECKS = '''
def solved(trajectory):
    """A job that is done already, one whose tests decide in the agent's own directory, and one that must be done."""
    kind, test = trajectory.doc["kind"], trajectory.end_state.text("test_it.py")
    if kind == "nothing":
        return float(test == "assert False")
    if kind == "tests":
        return float(test == "")
    return float(trajectory.end_state.text("made.txt") == "made")
'''
DOCS = [
    {"question": f"{kind} {number}?", "kind": kind, "files": {"test_it.py": "assert False"}}
    for number, kind in enumerate(("nothing", "tests", "tests", "work"))
]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made of Linux parts")


def able(messages: Any, draw: int) -> Any:
    done = any(message.role == "tool" for message in messages)
    return ("submit", {"answer": ""}) if done else ("bash", {"command": "printf made > made.txt"})


def run(folder: Path, tool: str = "bash", floors: list[str] | None = None) -> Any:
    (folder / "checks.py").write_text(CHECKS)
    (folder / "jobs.yaml").write_text(TASK.replace("TOOL", tool))
    (folder / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in DOCS))
    return assay.evaluate(
        model=Scripted(able),
        tasks=["jobs"],
        include_path=[str(folder)],
        apply_chat_template=True,
        confirm_run_unsafe_code=True,
        floors=NAMES if floors is None else floors,
        store=str(folder / "store.sqlite"),
        run_dir=str(folder / "run"),
    )


def test_agents_without_ability_have_the_scores_that_the_task_gives_away(tmp_path: Path) -> None:
    result = run(tmp_path)
    score = result.tasks["jobs"].scores[SOLVED]
    assert score.estimate.value == 0.5, "what is there already, and what the agent does"
    assert {name: floor.value for name, floor in score.floors.items()} == dict(zip(NAMES, (0.25, 0.25, 0.5)))
    assert score.above_floor.value == pytest.approx(0)
    (steps,) = [each for key, each in result.tasks["jobs"].scores.items() if key.metric == "steps"]
    assert not steps.floors, "how long it took is no ability"
    again = score_again(tmp_path / "run")
    assert again.tasks["jobs"].scores[SOLVED].floors == score.floors


def test_a_floor_whose_tool_the_task_lacks_is_none_of_it(tmp_path: Path) -> None:
    assert [*run(tmp_path, "python").tasks["jobs"].scores[SOLVED].floors] == NAMES[:2]


def test_they_are_made_by_name_only(tmp_path: Path) -> None:
    assert run(tmp_path, floors=["default"]).tasks["jobs"].scores[SOLVED].floors == {}
