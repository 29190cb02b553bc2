"""The small jobs of the catalog: three scripted agents have the scores that they must have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.results import MetricKey

from .policies import DATA, DOCS, QUESTIONS, half_right, perfect, reckless
from .scripted import Scripted

TRAVELLER = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from agents.policies import traveller
from assay.models import LM

class Traveller(LM):
    def loglikelihood(self, requests): ...
    def loglikelihood_rolling(self, requests): ...
    def generate_until(self, requests):
        return [traveller(request.args[0]) for request in requests]
"""


def run(policy: Any, folder: Path, **options: Any) -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "user.py").write_text(TRAVELLER)
    given = {
        "tasks": ["demo_agent"],
        "roles": {"user": f"{folder}/user.py:Traveller"},
        "apply_chat_template": True,
        "confirm_run_unsafe_code": True,
        "store": str(folder / "store.sqlite"),
        "run_dir": str(folder / "run"),
    }
    return assay.evaluate(model=Scripted(policy, policy.__name__), **{**given, **options})


def solved(result: Any) -> dict[str, float]:
    key = MetricKey("solved", "none")
    return {name.removeprefix("demo_agent_"): task.scores[key].estimate.value for name, task in result.tasks.items()}


def test_forty_problems_of_five_kinds() -> None:
    assert len(QUESTIONS) == 40
    assert len({doc["id"] for doc in QUESTIONS}) == 40 == len(DOCS)
    assert sorted(file.stem for file in DATA.glob("*.jsonl")) == ["booking", "calculator", "files", "repair", "table"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "scores"),
    [
        (perfect, dict.fromkeys(("booking", "calculator", "files", "repair", "table"), 1.0)),
        (half_right, dict.fromkeys(("booking", "calculator", "files", "repair", "table"), 0.5)),
        (reckless, {"booking": 0.0, "calculator": 0.0, "files": 0.0, "repair": 0.0, "table": 0.25}),
    ],
    ids=["perfect", "half right", "reckless"],
)
def test_scripted_agents_have_known_scores(policy: Any, scores: dict[str, float], tmp_path: Path) -> None:
    result = run(policy, tmp_path)
    assert {name: task.health.failed for name, task in result.tasks.items()} == dict.fromkeys(result.tasks, 0)
    assert solved(result) == scores
    whole = result.groups["demo_agent"].scores[MetricKey("solved", "none")].estimate
    assert whole.value == pytest.approx(sum(scores.values()) / 5)


def test_a_simulated_user_is_counted_apart(tmp_path: Path) -> None:
    import json

    run(perfect, tmp_path, limit=2)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["roles"]["user"]["computed"] == 4  # an answer, and the end, in each of two conversations


BRANCHED = ["demo_agent_table", "demo_agent_booking", "demo_agent_repair"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "then", "at", "scores"),
    [
        # What was read stays read; trains that were booked and tests that were edited cannot be had back.
        (reckless, perfect, 2, {"table": 1.0, "repair": 0.0}),
        # The user's answers are kept too: who takes over goes on in the same conversation.
        (perfect, perfect, 3, {"table": 1.0, "booking": 1.0, "repair": 1.0}),
        (perfect, half_right, 2, {"table": 0.5, "booking": 0.5, "repair": 0.5}),
    ],
    ids=["saved or not", "as it was", "spoilt"],
)
def test_who_takes_over_saves_or_spoils_what_can_be(
    first: Any, then: Any, at: int, scores: dict[str, float], tmp_path: Path
) -> None:
    tasks = [name for name in BRANCHED if name.removeprefix("demo_agent_") in scores]
    run(first, tmp_path, tasks=tasks, limit=4)
    result = run(
        then, tmp_path, tasks=tasks, limit=4, branch=str(tmp_path / "run"), at=at, run_dir=str(tmp_path / "branch")
    )
    assert {name: task.health.failed for name, task in result.tasks.items()} == dict.fromkeys(tasks, 0)
    assert solved(result) == scores
