"""A request type from outside, in one small piece: made from docs, answered from what a model can do, scored and stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.config import RunConfig
from assay.errors import ConfigError
from assay.instance import Instance
from assay.models import LM, Capabilities
from assay.request_types import OUTPUT_TYPES, REQUEST_TYPES, RequestType
from assay.results import MetricKey, read_samples
from assay.run import forecast

CALLS: list[int] = []


def rank(lm: LM, instances: Sequence[Instance]) -> list[list[int]]:
    """Candidates by the likelihood that the model gives them."""
    CALLS.append(len(instances))
    answers = []
    for instance in instances:
        context, candidates = instance.args
        pairs = [Instance("loglikelihood", {}, (context, each), 0) for each in candidates]
        lls = [ll for ll, _ in lm.loglikelihood(pairs)]
        answers.append(sorted(range(len(lls)), key=lambda i, lls=lls: -lls[i]))
    return answers


RANK = RequestType(
    "rank",
    ("context", "candidates"),
    plain=lambda answer: tuple(int(each) for each in answer),  # a list would be several draws
    needs=("likelihoods",),
    answer=rank,
    build=lambda doc, context: (context, tuple(doc["candidates"])),
    metrics=("first_is_right",),
)


class Longest(LM):
    """The longer a text, the likelier."""

    def loglikelihood(self, requests: Any) -> Any:
        return [(float(len(request.args[1])) - 100, True) for request in requests]

    def loglikelihood_rolling(self, requests: Any) -> Any:
        raise NotImplementedError

    def generate_until(self, requests: Any) -> Any:
        raise NotImplementedError

    def fingerprint(self) -> str:
        return "longest"


class Ranking(Longest):
    """Has a method of its own."""

    def rank(self, requests: Any) -> Any:
        return [[0, 1] for _ in requests]


class Unlikely(Longest):
    def capabilities(self, wanted: Any = (), known: Any = ()) -> Capabilities:
        return Capabilities(likelihoods=False, top_logprobs=False)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    from assay.metrics import METRICS, register_metric

    before = [(each, dict(each._entries)) for each in (REQUEST_TYPES, OUTPUT_TYPES, METRICS)]
    CALLS.clear()
    REQUEST_TYPES.add("rank", RANK)
    register_metric("first_is_right", kind="generation")(
        lambda references, predictions, **_: float(predictions[0][0] == references[0])
    )
    yield
    for each, entries in before:
        each._entries = entries


TASK = {
    "task": "ranking",
    "output_type": "rank",
    "custom_dataset": lambda **_: {"test": [{"q": f"{i}?", "candidates": ["a", "b" * (i + 1)]} for i in range(4)]},
    "test_split": "test",
    "doc_to_text": "q",
    "doc_to_target": lambda doc: 1,
}


def score(model: LM, tmp_path: Path, **settings: Any) -> float | None:
    result = assay.evaluate(
        model=model, tasks=[TASK], store=str(tmp_path / "store"), run_dir=str(tmp_path / "run"), **settings
    )
    return result["ranking"].scores[MetricKey("first_is_right")].estimate.value


def test_it_is_answered_from_what_the_model_can_do_and_stored(tmp_path: Path) -> None:
    assert score(Longest(), tmp_path) == 0.75
    assert CALLS == [4]
    rows = list(read_samples(next((tmp_path / "run").rglob("*.parquet"))))
    assert [json.loads(row["resps"]) for row in rows] == [[[[0, 1]]], *[[[[1, 0]]]] * 3]
    assert score(Longest(), tmp_path) == 0.75
    assert CALLS == [4]


def test_a_dry_run_counts_its_requests_and_sends_none(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text(
        '{"q": "1?", "candidates": ["a", "b"]}\n{"q": "2?", "candidates": ["a", "b"]}\n'
    )
    (tmp_path / "ranking.yaml").write_text(
        "task: ranking\noutput_type: rank\ndataset_path: json\ntest_split: test\n"
        f"dataset_kwargs: {{data_files: {{test: {tmp_path}/docs.jsonl}}}}\n"
        "doc_to_text: q\ndoc_to_target: q\n"
    )
    config = RunConfig(tasks=["ranking"], include_path=[str(tmp_path)], store=str(tmp_path / "store"), model="dummy")
    found = forecast(config, model=Longest())
    assert (found.requests, found.to_ask, found.prompt_tokens) == (2, 2, 2)
    assert CALLS == []


def test_a_method_of_the_model_goes_first(tmp_path: Path) -> None:
    assert score(Ranking(), tmp_path) == 0.0
    assert CALLS == []


def test_a_model_that_lacks_what_it_needs_is_refused_before_the_first_request(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="likelihoods"):
        score(Unlikely(), tmp_path)
    assert CALLS == []
