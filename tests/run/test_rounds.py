"""Answers may raise further requests: the next turn of a conversation, or a question to a second model."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.run.launching import Launcher
from tests.run.rounds import write_rounds
from tests.run.support import command, computed, environment, results_without_times, words_of

import assay
from assay.errors import ConfigError
from assay.evaluation import score_again
from assay.results import RunResult, read_samples


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_rounds(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(bench: Path, task: str, **words: Any) -> RunResult:
    given = {"model": f"{bench / 'noted.py'}:Noted", "model_args": {"log": str(bench / "log.txt")}, **words}
    return assay.evaluate(tasks=[task], include_path=[str(bench)], **given)


def judge(bench: Path, **args: str) -> dict[str, Any]:
    return {"judge": {"model": f"{bench / 'judge.py'}:Judge", "model_args": {"log": str(bench / "judge.txt"), **args}}}


def samples(bench: Path, directory: str, task: str) -> list[dict[str, Any]]:
    return list(read_samples(bench / directory / "samples" / f"{task}.parquet"))


# ---------------------------------------------------------------------- turns


def test_the_second_turn_is_asked_with_the_answer_to_the_first(bench: Path) -> None:
    result = run(bench, "talk", run_dir=str(bench / "run"))
    assert result["talk"]["exact_match"].n == 30
    (row, *_) = samples(bench, "run", "talk")
    first, second = json.loads(row["arguments"])
    (one,), (two,) = json.loads(row["resps"])
    assert first[0] == "test 0 + 0 ="
    assert second[0] == f"test 0 + 0 = {one}\n\nYou said {one}. Are you sure?"
    assert row["metric:exact_match"] == float(two == "0"), "the last answer is what counts"
    assert len(computed(bench)) == 60


def test_a_conversation_is_scored_again_without_the_model(bench: Path) -> None:
    first = run(bench, "talk", run_dir=str(bench / "run"))
    again = score_again(bench / "run", run_dir=bench / "again")
    assert again.tasks["talk"].scores == first.tasks["talk"].scores
    assert again.tasks["talk"].task_hash == first.tasks["talk"].task_hash
    assert len(computed(bench)) == 60
    assert [r["resps"] for r in samples(bench, "again", "talk")] == [r["resps"] for r in samples(bench, "run", "talk")]


def test_an_edited_second_turn_is_noticed_when_scored_again(bench: Path) -> None:
    run(bench, "talk", run_dir=str(bench / "run"))
    task = bench / "talk.yaml"
    task.write_text(task.read_text().replace("Are you sure?", "Are you quite sure?"))
    again = score_again(bench / "run")
    assert again.tasks["talk"].health.failed == 30
    assert any("requests would differ for 30 docs" in note for note in again.notes)


@pytest.mark.slow
def test_a_conversation_survives_kill_and_resume(
    launcher: Launcher, bench: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    calm = tmp_path_factory.mktemp("calm")
    write_rounds(calm)
    launcher.run(words_of(calm, tasks="talk"), environment(calm), calm / "said.txt")
    rng, pause = random.Random(3), 0.02
    for _ in range(4):
        target = len(computed(bench)) + rng.randint(5, 15)
        process = launcher.start(words_of(bench, tasks="talk"), environment(bench, pause), bench / "said.txt")
        assert process.kill_when(lambda target=target: len(computed(bench)) >= target)
    launcher.run(words_of(bench, tasks="talk"), environment(bench), bench / "said.txt")
    ours, theirs = (results_without_times(folder).replace(str(folder), "FOLDER") for folder in (bench, calm))
    assert ours == theirs
    times = Counter(computed(bench))
    assert len(times) == 60, "every turn was asked"
    assert sum(times.values()) - 60 <= 4 * int(0.5 / pause), "what was kept was not asked again"


# ---------------------------------------------------------------------- roles


def test_a_scorer_asks_a_second_model(bench: Path) -> None:
    result = run(bench, "judged", roles=judge(bench), run_dir=str(bench / "run"))
    rows = samples(bench, "run", "judged")
    even = [int(json.loads(row["resps"])[0][0]) % 2 == 0 for row in rows]
    assert result["judged"]["even"].value == sum(even) / 30
    questions = [json.loads(row["questions"]) for row in rows]
    assert [len(asked) for asked in questions] == [2 if is_even else 1 for is_even in even]
    assert {question["role"] for asked in questions for question in asked} == {"judge"}


def test_the_judges_answers_are_kept_too(bench: Path) -> None:
    first = run(bench, "judged", roles=judge(bench), run_dir=str(bench / "run"))
    asked = (bench / "judge.txt").read_text()
    assert len(asked.splitlines()) == len(set(asked.splitlines())), "equal questions are asked once"
    again = run(bench, "judged", roles=judge(bench))
    scored = score_again(bench / "run")
    assert again.tasks["judged"].scores == scored.tasks["judged"].scores == first.tasks["judged"].scores
    assert (bench / "judge.txt").read_text() == asked
    assert len(computed(bench)) == 30


def test_another_judge_is_asked_afresh(bench: Path) -> None:
    run(bench, "judged", roles=judge(bench), run_dir=str(bench / "run"))
    with pytest.raises(ConfigError, match="contains another run: roles was"):
        run(bench, "judged", roles=judge(bench, fail="4"), run_dir=str(bench / "run"))
    other = run(bench, "judged", roles=judge(bench, fail=" 4 "))
    unjudged = other.tasks["judged"].health.count("unjudged")
    assert unjudged > 0
    assert other["judged"]["even"].n == 30 - unjudged, "unjudged is not a zero"


def test_a_run_without_the_judge_is_refused_before_anything_is_asked(bench: Path) -> None:
    with pytest.raises(ConfigError, match=r"(?s)needs a second model, the judge.*--role judge="):
        run(bench, "judged")
    assert computed(bench) == []


def test_the_command_line_names_roles(bench: Path) -> None:
    role = f"judge={bench / 'judge.py'}:Judge,log={bench / 'judge.txt'}"
    done = subprocess.run(
        command(bench, "--role", role, tasks="judged"), env=environment(bench), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "even" in done.stdout
    recorded = json.loads((bench / "run" / "run.json").read_text())["config"]["roles"]
    assert recorded["judge"]["model"].endswith("judge.py:Judge")
