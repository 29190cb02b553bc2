"""A kind of evaluation that the package does not know, added from outside: candidates are put in order by the model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.config import TaskConfig
from assay.errors import ConfigError, ModelError
from assay.instance import Doc, Instance
from assay.metrics import METRICS, Metric
from assay.models import load_model
from assay.models.dummy import DummyLM
from assay.request_types import OUTPUT_TYPES, REQUEST_TYPES, OutputType, RequestType
from assay.scoring import ResolvedMetric, Scorer
from assay.tasks import Task

TASK = """
task: by_length
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: ranking
doc_to_text: "Shortest first:"
doc_to_target: "{{{{right}}}}"
"""


class RankTask(Task):
    OUTPUT_TYPE = "ranking"

    def construct_requests(self, doc: Doc, ctx: Any, *, target: Any = None, **_: Any) -> list[Instance]:
        return [Instance("rank", doc, (ctx, tuple(doc["words"])), 0, target=doc["right"])]


class RankScorer(Scorer):
    def score_doc(self, instances: Sequence[Instance], metric: ResolvedMetric, filter_name: str) -> Any:
        return metric.fn((instances[0].filtered_resps[filter_name], instances[0].target))


class RankingLM(DummyLM):
    """Sorts by length. Gives a tuple of numpy-like things now and then, as backends do."""

    asked = 0

    def rank(self, requests: Sequence[Instance]) -> list[Any]:
        self.asked += len(requests)
        return [tuple(sorted(request.args[1], key=len)) for request in requests]


def share_in_place(result: tuple[list[str], list[str]]) -> float:
    ranked, right = result
    return sum(one == two for one, two in zip(ranked, right, strict=True)) / len(right)


@pytest.fixture
def ranking(tmp_path: Path) -> Iterator[Path]:
    REQUEST_TYPES.add("rank", RequestType("rank", ("context", "candidates"), plain=list))
    OUTPUT_TYPES.add("ranking", OutputType("ranking", "rank", RankTask, RankScorer, "ranking", ("in_place",)))
    METRICS.add("in_place", Metric("in_place", share_in_place, "ranking"))
    docs = [
        {"words": ["bbb", "a", "cc"], "right": ["a", "cc", "bbb"]},
        {"words": ["xx", "y"], "right": ["xx", "y"]},
    ]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (tmp_path / "by_length.yaml").write_text(TASK.format(folder=tmp_path))
    yield tmp_path
    for registry, name in ((REQUEST_TYPES, "rank"), (OUTPUT_TYPES, "ranking"), (METRICS, "in_place")):
        registry._entries.pop(name)


def evaluate(folder: Path, lm: DummyLM, **more: Any) -> assay.Results:
    words: dict[str, Any] = {"tasks": ["by_length"], "include_path": [str(folder)], **more}
    return assay.evaluate(model=lm, store=str(folder / "store.sqlite"), **words)


def test_a_made_up_type_runs_from_a_task_file_to_a_score_and_from_the_store(ranking: Path) -> None:
    first, second = RankingLM(), RankingLM()
    results = evaluate(ranking, first, run_dir=str(ranking / "run"))
    assert results.to_dict()["results"]["by_length"]["in_place,none"] == 0.5
    assert first.asked == 2
    again = evaluate(ranking, second)
    assert second.asked == 0, "the second run is answered from the store"
    assert again.to_dict()["results"] == results.to_dict()["results"]


def test_a_model_without_the_method_says_so(ranking: Path) -> None:
    with pytest.raises(ModelError, match=r"(?s)rank requests.*context, candidates"):
        evaluate(ranking, DummyLM())


@pytest.mark.parametrize("name", ["dummy", "ngram"])
def test_a_type_that_a_backend_does_not_know_is_never_taken_for_another(ranking: Path, name: str) -> None:
    request = Instance("rank", {}, ("x", ("a", "b")), 0)
    with pytest.raises(ModelError, match="rank requests"):
        list(load_model(name).stream("rank", [request], [0]))


def test_an_output_type_that_is_not_in_the_table_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="Did you mean multiple_choice"):
        TaskConfig(task="x", output_type="multiple_choices")


def test_every_output_type_names_things_that_exist() -> None:
    for name in OUTPUT_TYPES:
        entry = OUTPUT_TYPES[name]
        assert name == entry.task_class.OUTPUT_TYPE
        assert issubclass(entry.scorer_class, Scorer)
        assert entry.request_type in REQUEST_TYPES
        assert all(METRICS[metric].form(entry.metric_kind) is not None for metric in entry.metrics)


@pytest.mark.parametrize(
    ("settings", "sampled"),
    [({}, False), ({"temperature": 0.7}, True), ({"temperature": 0.7, "do_sample": False}, False)],
)
def test_draws_differ_only_where_text_is_sampled(settings: dict[str, Any], sampled: bool) -> None:
    assert REQUEST_TYPES["generate_until"].is_sampled(("x", settings)) is sampled
    assert not REQUEST_TYPES["loglikelihood"].is_sampled(("x", "y"))


def test_an_unknown_request_type_is_an_error() -> None:
    with pytest.raises(ConfigError, match="unknown request type"):
        REQUEST_TYPES["loglikelyhood"]
