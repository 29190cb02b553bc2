"""What is checked before a run, and what is safe after it whatever comes next."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.show.spoiled import Spoiled, write_tasks

from assay.errors import ConfigError, StoreError
from assay.evaluation import evaluate
from assay.trackers import LOGGERS


class Untouchable(Spoiled):
    def stream(self, *_: Any) -> Any:
        raise AssertionError("the model was asked")


@pytest.fixture
def words(tmp_path: Path) -> dict[str, Any]:
    folder = write_tasks(tmp_path)
    return {
        "tasks": ["two", "words"],
        "include_path": str(folder),
        "run_dir": str(tmp_path / "run"),
        "store": str(tmp_path / "store.sqlite"),
    }


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"loggers": {"nope": {}}}, "unknown logger 'nope'"),
        ({"loggers": {"mlflow": {}}}, "needs the package mlflow"),
        ({"until": "garbage"}, "'garbage' is not understood"),
        ({"until": "decided vs nowhere"}, "nowhere is not a run directory"),
        ({"control": "nowhere"}, "nowhere is not a run directory"),
    ],
)
def test_wrong_words_are_found_before_the_model_is_asked(
    words: dict[str, Any], monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any], message: str
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)  # as if it were not installed
    with pytest.raises(ConfigError, match=message):
        evaluate(model=Untouchable(), **words, **wrong)
    assert not Path(words["run_dir"]).exists()


def test_the_results_are_kept_when_the_sample_files_cannot_be_written(
    words: dict[str, Any],
) -> None:
    (Path(words["run_dir"]) / "samples_words.jsonl").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"samples_words\.jsonl"):
        evaluate(model=Spoiled(), log_samples=True, **words)
    kept = json.loads((Path(words["run_dir"]) / "results.json").read_text())
    assert kept["results"]["two"]["acc,none"] == 0.5


def test_a_tracker_that_fails_says_where_the_results_are(
    words: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no key")

    monkeypatch.setitem(LOGGERS._entries, "broken", broken)
    with pytest.raises(StoreError, match="broken failed: RuntimeError: no key") as caught:
        evaluate(model=Spoiled(), loggers={"broken": {}}, **words)
    assert words["run_dir"] in str(caught.value)
    assert (Path(words["run_dir"]) / "results.json").is_file()
