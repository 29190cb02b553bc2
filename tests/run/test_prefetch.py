"""Docs are asked while others are scored: in order, each once, and not beyond an error."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from tests.models.openai.faulty_server import FaultyServer
from tests.run.test_run import Echo

import assay
from assay.models import ModelInfo, load_model
from assay.run import answerers
from assay.run.answerers import ModelAnswerer
from assay.run.prefetch import answered_windows
from assay.run.progress import Counts, Interrupted, Quiet

LONG = 20.0


def nothing() -> None:
    pass


def test_the_next_window_is_asked_while_one_is_scored() -> None:
    begun = {number: threading.Event() for number in range(3)}

    def answer(window: list[Any]) -> None:
        begun[window[0]].set()

    with closing(answered_windows([[0], [1], [2]], answer, nothing, 2)) as windows:
        scored = []
        for window in windows:
            following = window[0] + 1
            assert following == 3 or begun[following].wait(LONG)
            scored.append(window[0])
    assert scored == [0, 1, 2]


def test_an_error_while_scoring_cancels_what_is_asked() -> None:
    cancelled = threading.Event()

    def answer(window: list[Any]) -> None:
        if window[0]:
            assert cancelled.wait(LONG)

    def score() -> None:
        with closing(answered_windows([[0], [1], [2]], answer, cancelled.set, 2)) as windows:
            for _ in windows:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        score()
    assert cancelled.is_set()


def test_after_a_stop_what_is_under_way_is_awaited_and_not_cancelled() -> None:
    finished, calls = threading.Event(), []

    def answer(window: list[Any]) -> None:
        if not window[0]:
            raise Interrupted("stopped")
        finished.set()

    with pytest.raises(Interrupted):
        list(answered_windows([[0], [1]], answer, lambda: calls.append("cancel"), 2))
    assert not calls


def test_windows_that_are_asked_together_hold_what_one_alone_would() -> None:
    class Streaming(Echo):
        def info(self) -> ModelInfo:
            return replace(super().info(), streams_at_once=3)

    answerer = ModelAnswerer(Streaming(), None, progress=Quiet(), counts=Counts())
    assert answerer.windows_at_once * answerer.window_requests == answerers.WINDOW_REQUESTS


def test_the_more_requests_are_under_way_the_more_docs_stand_behind_them() -> None:
    def docs(concurrent: int) -> float:
        url = {"base_url": "http://127.0.0.1:9/v1", "model": "m", "num_concurrent": concurrent}
        answerer = ModelAnswerer(load_model("local-completions", url), None, progress=Quiet(), counts=Counts())
        return answerer.windows_at_once * answerer.window_requests / 4

    assert docs(64) == answerers.WINDOW_REQUESTS / 4
    assert [docs(concurrent) / concurrent for concurrent in (1024, 2048)] == [4, 4]


TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/{name}.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}"
doc_to_target: "x"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 4}}
metric_list: [{{metric: exact_match}}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tasks of 30 docs, whose questions are the same."""
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(TASK.format(name=name, folder=tmp_path))
        lines = [json.dumps({"question": f"Question {number}"}) + "\n" for number in range(30)]
        (tmp_path / f"{name}.jsonl").write_text("".join(lines))
    return tmp_path


def evaluate(folder: Path, url: str, run: str) -> None:
    assay.evaluate(
        model="local-completions",
        model_args={"base_url": url, "model": "stub", "num_concurrent": 4},
        tasks=["one", "two"],
        include_path=str(folder),
        run_dir=str(folder / run),
        store=str(folder / f"{run}.sqlite"),
    )


def test_a_server_gives_the_same_samples_and_is_asked_each_request_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = {}
    for run, size in (("small", 80), ("large", 12_288)):  # two windows of a dozen docs at once, and one of all
        monkeypatch.setattr(answerers, "WINDOW_REQUESTS", size)
        with FaultyServer(delay=0.005) as server:
            evaluate(folder, server.url, run)
            asked = [body["prompt"] for body in server.bodies if str(body["prompt"]).startswith("Question")]
        assert sorted(asked) == sorted({f"Question {number}" for number in range(30)})
        samples[run] = [
            pyarrow.parquet.read_table(path).to_pylist() for path in sorted((folder / run / "samples").iterdir())
        ]
    assert samples["small"] == samples["large"]
    assert [len(rows) for rows in samples["small"]] == [30, 30]
