"""A killed run goes on at the step where it was: results come from the store, and tools are brought to where they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.evaluation import score_again
from assay.results import MetricKey

from .scripted import Scripted, results, run, write_task

TASK = """
task: counting
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: agent
doc_to_text: "Count to {{n}}."
doc_to_target: "{{n}}"
agent:
  tools: [{function: !function tools.Counter%s}]
metric_list: [exact_match, {end_state: !function tools.counted}]
"""
TOOLS = """
import pathlib, time

class Counter:
    def __init__(self):
        self.n = 0

    def add(self) -> str:
        "Add one."
        self.n += 1
        with open(pathlib.Path(__file__).parent / "calls.txt", "a") as calls:
            calls.write("add\\n")
        return %s

def counted(doc, end_state):
    return end_state.tools["Counter"]["n"] == doc["n"]
"""
DOCS = [{"n": 3}, {"n": 2}]


class Killed(BaseException):
    pass


def dying(after: int) -> Any:
    """A policy that is killed when it is asked for the n-th time."""
    asked = [0]

    def policy(messages: Any, draw: int) -> Any:
        asked[0] += 1
        if asked[0] > after:
            raise Killed
        return counting(messages, draw)

    return policy


def counting(messages: Any, draw: int) -> Any:
    wanted = int(messages[0].content.split()[-1].rstrip("."))
    done = results(messages)
    return ("add", {}) if done < wanted else ("submit", {"answer": str(done)})


def calls(folder: Path) -> int:
    file = folder / "calls.txt"
    return len(file.read_text().splitlines()) if file.is_file() else 0


def score(result: Any, metric: str = "exact_match") -> float:
    return result.tasks["counting"].scores[MetricKey(metric, "none")].estimate.value


def samples(folder: Path) -> str:
    import pyarrow.parquet as pq

    (file,) = (folder / "run").rglob("*.parquet")
    rows = pq.read_table(file).to_pylist()
    for row in rows:
        extras = json.loads(row["extras"])
        for request in extras:
            for draw in request:
                draw["more"]["trajectory"].pop("seconds", None)
                for call in draw["more"]["trajectory"].get("calls", []):
                    call.pop("seconds")
                for message in draw["more"]["trajectory"]["conversation"]:
                    message.get("took", {}).pop("seconds", None)
        row["extras"] = json.dumps(extras)
    return json.dumps(rows, default=str)


def test_a_second_run_calls_no_tool(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK % "", DOCS, tools=TOOLS % "str(self.n)")
    first = run(task, Scripted(counting), tmp_path)
    assert (score(first), score(first, "end_state"), calls(tmp_path)) == (1.0, 1.0, 5)
    second = run(task, Scripted(counting), tmp_path)
    assert (score(second), score(second, "end_state"), calls(tmp_path)) == (1.0, 1.0, 5)


@pytest.mark.parametrize("after", range(7))
def test_a_killed_run_replays_its_calls_and_gives_the_same(tmp_path: Path, after: int) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run(write_task(whole, TASK % "", DOCS, tools=TOOLS % "str(self.n)"), Scripted(counting), whole)
    task = write_task(cut, TASK % "", DOCS, tools=TOOLS % "str(self.n)")
    with pytest.raises(Killed):
        run(task, Scripted(dying(after)), cut)
    result = run(task, Scripted(counting), cut)
    assert (score(result), score(result, "end_state")) == (1.0, 1.0)
    assert samples(cut) == samples(whole)
    assert result.tasks["counting"].health.count("begun_anew") == 0


def test_a_tool_that_gives_another_result_makes_its_trajectory_begin_anew(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK % "", DOCS, tools=TOOLS % "f'{self.n} {time.time_ns()}'")
    with pytest.raises(Killed):
        run(task, Scripted(dying(4)), tmp_path)
    result = run(task, Scripted(counting), tmp_path)
    assert (score(result), score(result, "end_state")) == (1.0, 1.0)
    assert result.tasks["counting"].health.count("begun_anew") >= 1
    made = calls(tmp_path)
    again = run(task, Scripted(counting), tmp_path)  # all of it is stored now
    assert (calls(tmp_path), again.tasks["counting"].health.count("begun_anew")) == (
        made,
        result.tasks["counting"].health.count("begun_anew"),
    )


def test_effects_outside_are_never_repeated(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK % ", effects: outside", DOCS, tools=TOOLS % "str(self.n)")
    with pytest.raises(Killed):
        run(task, Scripted(dying(4)), tmp_path)
    made = calls(tmp_path)
    result = run(task, Scripted(counting), tmp_path)
    health = result.tasks["counting"].health
    assert health.failed == 2
    assert any("--replay_outside" in reason for reason in health.reasons)
    assert calls(tmp_path) == made
    allowed = run(task, Scripted(counting), tmp_path, replay_outside=True, run_dir=str(tmp_path / "other"))
    assert score(allowed) == 1.0


def test_a_finished_trajectory_with_effects_outside_is_taken_from_the_store(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK % ", effects: outside", DOCS, tools=TOOLS % "str(self.n)")
    run(task, Scripted(counting), tmp_path)
    made = calls(tmp_path)
    assert score(run(task, Scripted(counting), tmp_path)) == 1.0
    assert calls(tmp_path) == made


def test_changed_code_of_a_tool_is_called_again(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK % "", DOCS, tools=TOOLS % "str(self.n)")
    run(task, Scripted(counting), tmp_path)
    made = calls(tmp_path)
    other = tmp_path / "other"
    task = write_task(other, TASK % "", DOCS, tools=TOOLS % "'so ' + str(self.n)")
    run(task, Scripted(counting), tmp_path, run_dir=str(other / "run"))
    assert calls(other) == made


def test_scoring_again_needs_no_tool(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK % "", DOCS, tools=TOOLS % "str(self.n)")
    run(task, Scripted(counting), tmp_path)
    made = calls(tmp_path)
    again = score_again(tmp_path / "run")
    assert (score(again), score(again, "end_state"), calls(tmp_path)) == (1.0, 1.0, made)
