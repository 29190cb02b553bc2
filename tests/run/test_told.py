"""What a run does otherwise than its command says, it says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.own_files import Told, command, function, run, write_task

from assay.instance import Response
from assay.results import MetricKey, RunResult
from assay.run import Interrupted

SUMS = [{"q": f"{i}+1=", "a": str(i + 1)} for i in range(30)]
GENERATION: dict[str, Any] = {"output_type": "generate_until", "doc_to_text": "q", "doc_to_target": "a"}


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store.db"))


@pytest.mark.parametrize(("name", "shots"), [("mine", 0), ("demo_agreement:0shot", 0), ("demo_capitals_en:1shot", 1)])
def test_a_number_of_shots_that_a_task_fixes_is_told(tmp_path, name, shots):
    file = write_task(tmp_path, SUMS, **GENERATION, num_fewshot=0)
    with pytest.warns(UserWarning, match=f"num_fewshot 5, because the task fixes {shots}"):
        run(file if name == "mine" else name, num_fewshot=5, limit=2, store=str(tmp_path / "store.db"))


def test_a_number_of_shots_that_is_used_is_not_told(tmp_path, recwarn):
    run(write_task(tmp_path, SUMS, **GENERATION), num_fewshot=2, limit=2)
    assert not [each for each in recwarn if "num_fewshot" in str(each.message)]


FLAKY = """
from assay.models import LM
from assay.instance import Response
from pathlib import Path

class Flaky(LM):
    def stream(self, request_type, instances, draws, stop=None):
        is_up = Path(__file__).with_name("up").exists()
        for i, instance in enumerate(instances):
            failed = not is_up and instance.doc_id < 4
            yield i, Response(None, failure="no answer") if failed else Response(str(eval(instance.args[0].strip("="))))

    def loglikelihood(self, requests): ...
    def loglikelihood_rolling(self, requests): ...
    def generate_until(self, requests): ...
    def fingerprint(self): return "flaky"
"""


def test_requests_that_failed_are_told_with_what_to_do(tmp_path, capsys):
    (tmp_path / "flaky.py").write_text(FLAKY)
    file = write_task(tmp_path, SUMS, **GENERATION)
    args = ("run", "--model", f"{tmp_path}/flaky.py:Flaky", "--tasks", file, "--run_dir", tmp_path / "run")
    said = command(capsys, *args)
    assert (said.code, "4 of 30 docs failed" in said.err, "same command again" in said.err) == (1, True, True)
    (tmp_path / "up").touch()
    said = command(capsys, *args)
    assert (said.code, "26 from the store" in said.out) == (0, True)


def test_requests_that_failed_are_told_of_several_models_too(tmp_path, capsys):
    (tmp_path / "flaky.py").write_text(FLAKY)
    file = write_task(tmp_path, SUMS, **GENERATION)
    models = ("--model", f"{tmp_path}/flaky.py:Flaky", "--model", "dummy")
    args = ("run", *models, "--tasks", file, "--output_path", tmp_path / "runs")
    said = command(capsys, *args)
    assert (said.code, "Flaky: 4 of 30 docs failed" in said.err, "same command again" in said.err) == (1, True, True)
    (tmp_path / "up").touch()
    said = command(capsys, *args)
    assert (said.code, "2 cells, 1 to do" in said.err) == (0, True)


NUMBERS = """
def half(predictions, references): return None if references[0] == "7" else 1.0
def none(values): return None
def nan(values): return float("nan")
"""


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("aggregation", ["none", "nan"])
def test_a_metric_without_a_number_is_no_success(tmp_path, capsys, aggregation, several):
    listed = [{"metric": "exact_match"}, {"metric": function("u.half"), "aggregation": function(f"u.{aggregation}")}]
    file = write_task(tmp_path, SUMS, NUMBERS, **GENERATION, metric_list=listed)
    models = ["--model", "dummy", *(["--model", "dummy,seed=3"] if several else [])]
    said = command(capsys, "run", *models, "--tasks", file, "--output_path", tmp_path / "runs")
    assert (said.code, said.err.count("no value: mine half,none")) == (1, 1 + several)


def test_answers_alone_are_no_broken_scores(tmp_path, capsys):
    place = tmp_path / "run"
    said = command(capsys, "run", "--model", "dummy", "--tasks", "demo_grammar", "--predict_only", "--run_dir", place)
    assert (said.code, "undefined" in said.out, "nothing is scored" in said.out) == (0, False, True)
    again = command(capsys, "score", place, "--json")
    assert {
        score["metric"] for task in json.loads(again.out)["assay"]["tasks"].values() for score in task["scores"]
    } == {"acc"}


@pytest.mark.parametrize(
    "verb",
    [
        ("compare",),
        ("rank",),
        ("explain", "--task", "mine"),
        ("power", "--effect", "0.1", "--from"),
        ("gate", "--baseline"),
    ],
)
def test_answers_alone_are_not_analysed_and_how_to_score_them_is_said(tmp_path, capsys, verb):
    file = write_task(tmp_path, SUMS, **GENERATION)
    for name, flags in (("scored", []), ("alone", ["--predict_only"])):
        command(capsys, "run", "--model", "dummy", "--tasks", file, *flags, "--run_dir", tmp_path / name)
    runs = [tmp_path / "alone"] if verb[0] == "power" else [tmp_path / "scored", tmp_path / "alone"]
    said = command(capsys, *verb, *runs)
    assert (said.code, "alone has answers and no scores" in said.err) == (2, True)
    cure = said.err.partition("assay score ")[2].partition(" scores them")[0].replace(" DIR", f" {tmp_path}/cured")
    assert command(capsys, "score", *cure.split()).code == 0
    runs[-1] = tmp_path / "cured"
    assert command(capsys, *verb, *runs).code in (0, 4)


def test_scores_that_are_not_stored_are_told(tmp_path, capsys):
    place = tmp_path / "run"
    command(capsys, "run", "--model", "dummy", "--tasks", "demo_agreement", "--limit", 5, "--run_dir", place)
    assert "not stored" in command(capsys, "score", place).err
    kept = command(capsys, "score", place, "--run_dir", tmp_path / "again")
    assert "not stored" not in kept.err
    assert RunResult.load(tmp_path / "again").tasks["demo_agreement"].scores[MetricKey("acc")].estimate.n == 5


class Slow(Told):
    def stream(self, request_type: str, instances: Any, draws: Any, stop: Any = None) -> Iterator[tuple[int, Response]]:
        import os
        import signal

        yield 0, Response("1")
        os.kill(os.getpid(), signal.SIGINT)

    def fingerprint(self) -> str:
        return "slow"


@pytest.mark.parametrize(("fresh", "said"), [(False, "same command again"), (True, "without it")])
def test_what_continues_a_run_is_told_truly(tmp_path, fresh, said):
    file = write_task(tmp_path, SUMS, **GENERATION)
    with pytest.raises(Interrupted) as caught:
        run(file, Slow(), fresh=fresh)
    assert said in str(caught.value.hint)
