"""An answer on which scoring breaks costs its doc, not the run; a metric that breaks on every doc is an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.errors import ScoringError
from assay.instance import Response
from assay.models import LM

TASK = """
task: nested
dataset_path: json
dataset_kwargs: {data_files: {test: FOLDER/test.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "x"
generation_kwargs: {until: ["END"], max_gen_toks: 9}
SCORING
metadata: {version: 1.0}
"""
SCORINGS = {
    "metric": "metric_list:\n  - metric: !function functions.depth\n    aggregation: mean\n    higher_is_better: true",
    "process_results": "process_results: !function functions.process",
    "filter": "filter_list:\n  - name: own\n    filter:\n      - function: custom\n        filter_fn: !function functions.clean\nmetric_list: [exact_match]",
}
FUNCTIONS = """
import json


def depth(references, predictions, **_):
    json.loads(predictions[0])
    return 1.0


def process(doc, results):
    return {"valid": float(json.loads(results[0]) is not None)}


def clean(resps, docs):
    return [[str(json.loads(text)) for text in each] for each in resps]
"""


class Answering(LM):
    """Docs of these numbers are answered with brackets 2,000 deep."""

    def __init__(self, deep: set[int], text: str = "[" * 2000) -> None:
        self.deep, self.text = deep, text

    def stream(self, request_type: Any, instances: Any, draws: Any, stop: Any = None) -> Any:
        for position, instance in enumerate(instances):
            yield position, Response(self.text if int(instance.args[0]) in self.deep else "[1]", "stop")

    def loglikelihood(self, requests: Any) -> Any:
        raise AssertionError("stream is used")

    loglikelihood_rolling = generate_until = loglikelihood


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "test.jsonl").write_text("".join(json.dumps({"question": str(n)}) + "\n" for n in range(6)))
    (tmp_path / "nested.yaml").write_text(
        TASK.replace("FOLDER", str(tmp_path)).replace("SCORING", SCORINGS[request.param])
    )
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    return tmp_path


def run(bench: Path, model: LM, **words: Any) -> Any:
    return assay.evaluate(model=model, tasks=["nested"], include_path=[str(bench)], **words)


@pytest.mark.parametrize("bench", SCORINGS, indirect=True)
@pytest.mark.parametrize("text", ["[" * 2000, "[" * 200_000, "not json", "\0"])
def test_a_doc_that_cannot_be_scored_is_a_failed_doc_with_its_reason(bench: Path, text: str):
    health = run(bench, Answering({2}, text)).tasks["nested"].health
    assert (health.docs, health.failed) == (6, 1)
    assert sum(health.reasons.values()) == 1
    assert next(iter(health.reasons)).startswith(("scoring failed: ", "filtering failed: "))


@pytest.mark.parametrize("bench", ["metric"], indirect=True)
def test_failed_scoring_counts_towards_max_failed(bench: Path):
    assert run(bench, Answering({1, 2}), max_failed=0.2).withheld == ["nested"]
    assert run(bench, Answering({1, 2}), max_failed=0.5).withheld == []


@pytest.mark.parametrize("bench", SCORINGS, indirect=True)
def test_scoring_that_breaks_on_every_doc_is_an_error(bench: Path):
    with pytest.raises(ScoringError, match=r"RecursionError|recursion"):
        run(bench, Answering(set(range(6)), "[" * 200_000))  # so deep for every version of Python


@pytest.mark.parametrize("bench", ["metric"], indirect=True)
def test_a_run_of_which_every_request_failed_exits_with_3_and_says_why(bench: Path):
    (bench / "refusing.py").write_text(
        "from assay.models import LM\nfrom assay.instance import Response\n"
        "class Refusing(LM):\n"
        "    def stream(self, kind, instances, draws, stop=None):\n"
        "        for n, _ in enumerate(instances): yield n, Response(None, failure='401: no such key')\n"
        "    def loglikelihood(self, requests): ...\n"
        "    loglikelihood_rolling = generate_until = loglikelihood\n"
    )
    words = ["--model", f"{bench}/refusing.py:Refusing", "--tasks", "nested", "--include_path", str(bench)]
    done = subprocess.run(
        [sys.executable, "-m", "assay", "run", *words, "--output_path", str(bench / "runs")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ASSAY_HOME": str(bench / "home")},
    )
    assert done.returncode == 3, done.stderr
    assert "6 failed: 401: no such key" in done.stdout
