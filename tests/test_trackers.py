"""Loggers against the offline modes of the real trackers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay import evaluate
from assay.errors import ConfigError
from assay.results import GroupResult, GroupScore, MetricKey, RunResult, Score, TaskResult
from assay.stats import Estimate
from assay.trackers import LOGGERS, log_results, numbers, ready_loggers


@pytest.fixture
def results() -> RunResult:
    estimate = Estimate(0.5, 0.1, 0.3, 0.7, 25, "t")
    acc, em = MetricKey("acc"), MetricKey("em", "x")
    task = TaskResult("t", "t", {acc: Score(estimate, 25), em: Score(Estimate.missing("no docs"), 0)}, num_fewshot=0)
    group = GroupResult("g", "g", {acc: GroupScore(estimate, 25)}, ("t",))
    return RunResult({"t": task}, {"g": group}, ("g", "t"), config={"model": "dummy"})


def send(results: RunResult, loggers: dict[str, dict[str, Any]]) -> None:
    log_results(results, ready_loggers(loggers))


def test_numbers_name_each_score_once_and_leave_out_undefined_ones(results: RunResult) -> None:
    ours = {f"{name}/acc,none": 0.5 for name in "gt"} | {f"{name}/acc_stderr,none": 0.1 for name in "gt"}
    assert dict(numbers(results)) == ours


def test_tensorboard_gets_scalars(results: RunResult, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    send(results, {"tensorboard": {"log_dir": str(tmp_path), "step": 7}})
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    scalar = events.Scalars("t/acc,none")[0]
    assert (scalar.step, scalar.value) == (7, 0.5)


def test_mlflow_gets_a_run_with_metrics(results: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path}/mlruns"
    send(results, {"mlflow": {"tracking_uri": uri, "experiment": "e"}})
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("e")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.metrics["t/acc/none"] == 0.5


def test_wandb_writes_an_offline_run(results: RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    send(results, {"wandb": {"dir": str(tmp_path), "project": "p"}})
    assert list(tmp_path.rglob("*.wandb"))


def test_an_unknown_logger_is_an_error_with_the_nearest_name(results: RunResult) -> None:
    with pytest.raises(ConfigError, match="wandb"):
        send(results, {"wandbb": {}})
    assert set(LOGGERS) >= {"wandb", "mlflow", "tensorboard"}


def test_a_tracker_that_nobody_is_logged_in_to_is_found_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"wandb is not logged in(?s:.)*WANDB_API_KEY"):
        evaluate(model="dummy", tasks=["demo_agreement"], limit=3, loggers={"wandb": {}}, run_dir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    assert ready_loggers({"wandb": {"mode": "offline"}}), "an offline run needs none"


def test_a_tracker_that_does_not_answer_is_found_before_the_run(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    with pytest.raises(ConfigError, match="mlflow"):
        ready_loggers({"mlflow": {"tracking_uri": "http://127.0.0.1:9"}})
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="tensorboard"):
        ready_loggers({"tensorboard": {"log_dir": str(tmp_path / "file" / "runs")}})
