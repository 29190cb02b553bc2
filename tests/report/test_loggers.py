"""Loggers against the offline modes of the real trackers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.errors import ConfigError
from assay.report import Results
from assay.report.loggers import LOGGERS, log_results, numbers, ready_loggers

ENTRY = {"value": 0.5, "stderr": 0.1, "low": 0.3, "high": 0.7, "n": 25, "method": "t", "higher_is_better": True}


@pytest.fixture
def results() -> Results:
    data: dict[str, Any] = {
        "config": {"model": "dummy", "limit": None},
        "n-shot": {"t": 0},
        "assay": {
            "tree": [
                {"depth": 0, "name": "g", "kind": "group"},
                {"depth": 1, "name": "t", "kind": "task"},
                {"depth": 0, "name": "t", "kind": "task"},
            ],
            "estimates": {
                "g": {"acc,none": ENTRY},
                "t": {"acc,none": ENTRY, "em,x": {**ENTRY, "value": None, "undefined": "no docs"}},
            },
            "health": {},
        },
    }
    return Results(data)


def send(results: Results, loggers: dict[str, dict[str, Any]]) -> None:
    log_results(results, ready_loggers(loggers))


def test_numbers_name_each_score_once_and_leave_out_undefined_ones(results: Results) -> None:
    assert dict(numbers(results)) == {"g/acc,none": 0.5, "g/acc_stderr,none": 0.1, "t/acc,none": 0.5, "t/acc_stderr,none": 0.1}  # fmt: skip


def test_tensorboard_gets_scalars(results: Results, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    send(results, {"tensorboard": {"log_dir": str(tmp_path), "step": 7}})
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    scalar = events.Scalars("t/acc,none")[0]
    assert (scalar.step, scalar.value) == (7, 0.5)


def test_mlflow_gets_a_run_with_metrics(results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = f"file://{tmp_path}/mlruns"
    send(results, {"mlflow": {"tracking_uri": uri, "experiment": "e"}})
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("e")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.metrics["t/acc/none"] == 0.5


def test_wandb_writes_an_offline_run(results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    send(results, {"wandb": {"dir": str(tmp_path), "project": "p"}})
    assert list(tmp_path.rglob("*.wandb"))


def test_an_unknown_logger_is_an_error_with_the_nearest_name(results: Results) -> None:
    with pytest.raises(ConfigError, match="wandb"):
        send(results, {"wandbb": {}})
    assert set(LOGGERS) >= {"wandb", "mlflow", "tensorboard"}
