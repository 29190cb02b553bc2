"""`assay export` in the forms that others publish, checked by what is known of their schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.analyses.test_verbs import call
from tests.data.fake_hub import FakeHub, serving
from tests.run.test_run import bench, run  # noqa: F401  `bench` is a fixture

from assay.cli.entry import main
from assay.errors import ConfigError
from assay.finished import export_run, open_run, propose_run
from assay.finished.publishing import to_eval_results
from assay.results import RunResult

Capture = pytest.CaptureFixture[str]
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
UNCERTAINTY = {
    "properties": {
        "num_samples": {"type": "integer"},
        "standard_error": {"required": ["value"], "properties": {"value": {"type": "number"}}},
        "confidence_interval": {
            "required": ["lower", "upper"],
            "properties": {"lower": {"type": "number"}, "confidence_level": {"minimum": 0, "maximum": 1}},
        },
    }
}
ENTRY = {
    "required": ["evaluation_name", "source_data", "metric_config", "score_details"],
    "properties": {
        "source_data": {
            "required": ["dataset_name", "source_type"],
            "properties": {
                "source_type": {"enum": ["url", "hf_dataset", "other"]},
                "additional_details": TEXTS,
                "samples_number": {"type": "integer"},
            },
        },
        "metric_config": {
            "required": ["lower_is_better", "score_type", "min_score", "max_score"],
            "properties": {"lower_is_better": {"type": "boolean"}, "additional_details": TEXTS},
        },
        "score_details": {
            "required": ["score"],
            "properties": {"score": {"type": "number"}, "uncertainty": UNCERTAINTY},
        },
        "generation_config": {"properties": {"additional_details": TEXTS}},
    },
}
AGGREGATE = {
    "type": "object",
    "required": [
        *("schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "model_info", "eval_library"),
        "evaluation_results",
    ],
    "properties": {
        **{
            name: {"type": "string"}
            for name in ("schema_version", "evaluation_id", "retrieved_timestamp", "evaluation_timestamp")
        },
        "source_metadata": {
            "required": ["source_type", "source_organization_name", "evaluator_relationship"],
            "properties": {
                "source_type": {"enum": ["documentation", "evaluation_run"]},
                "evaluator_relationship": {"enum": ["first_party", "third_party", "collaborative", "other"]},
            },
        },
        "model_info": {"required": ["name", "id"], "properties": {"additional_details": TEXTS}},
        "eval_library": {"required": ["name", "version"]},
        "evaluation_results": {"type": "array", "minItems": 1, "items": ENTRY},
        "detailed_evaluation_results": {
            "properties": {"format": {"enum": ["json", "jsonl"]}, "total_rows": {"type": "integer"}}
        },
    },
    "additionalProperties": False,
}
"""What Every Eval Ever's schema 0.2.1 asks of the fields that we write."""
INSTANCE = {
    "type": "object",
    "required": [
        *("schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id", "interaction_type", "input"),
        *("answer_attribution", "evaluation", "output"),
    ],
    "properties": {
        "input": {
            "required": ["raw", "reference"],
            "properties": {
                "raw": {"type": "string"},
                "reference": {"type": "array", "items": {"type": "string"}},
                "choices": {"type": ["array", "null"], "items": {"type": "string"}},
            },
        },
        "output": {"required": ["raw"], "properties": {"raw": {"type": "array", "items": {"type": "string"}}}},
        "messages": {"type": "null"},
        "answer_attribution": {
            "items": {
                "required": ["turn_idx", "source", "extracted_value", "extraction_method", "is_terminal"],
                "properties": {"extracted_value": {"type": "string"}},
            }
        },
        "evaluation": {
            "required": ["score", "is_correct"],
            "properties": {"score": {"type": "number"}, "is_correct": {"type": "boolean"}},
        },
        "error": {"type": ["string", "null"]},
        "metadata": TEXTS,
    },
}


@pytest.fixture
def finished(bench: Path) -> Path:  # noqa: F811
    """A run whose choice task says that its data are on the hub."""
    run(bench, run_dir=str(bench / "run"))
    file = bench / "run" / "results.json"
    data = json.loads(file.read_text())
    data["configs"]["colours"] |= {"dataset_path": "own/colours", "dataset_name": "main"}
    data["assay"]["tasks"]["colours"]["data"]["commit"] = "c" * 40
    file.write_text(json.dumps(data))
    return bench / "run"


def test_eval_results_are_read_by_the_hubs_own_library(finished: Path) -> None:
    from huggingface_hub import parse_eval_result_entries

    (path,) = export_run(finished, "eval-results", finished / "out")
    assert path == finished / "out" / ".eval_results" / "colours.yaml"
    (entry,) = parse_eval_result_entries(yaml.safe_load(path.read_text()))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("own/colours", "main", 1 / 3)
    assert entry.dataset_revision == "c" * 40
    assert "2-shot, 95% interval" in (entry.notes or "")


def test_a_model_card_is_read_by_the_hubs_own_library(finished: Path) -> None:
    from huggingface_hub.repocard_data import model_index_to_eval_results

    (path,) = export_run(finished, "model-card", finished / "out")
    name, results = model_index_to_eval_results(yaml.safe_load(path.read_text())["model-index"])
    assert name == "Echo"
    assert {(each.metric_type, each.dataset_type, each.dataset_config) for each in results} == {
        ("acc", "own/colours", "main"),
        ("acc_norm", "own/colours", "main"),
    }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with serving() as hub:
        hub.writers.add("hf_mine")
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_TOKEN", "hf_mine")
        yield hub


def entry(dataset: str, value: float, named: str) -> dict[str, Any]:
    """As a model card has it."""
    metric = {"type": "acc", "value": value, "name": named}
    about = {"name": "colours", "type": dataset, "config": "main", "split": "test", "revision": "c" * 40}
    return {"task": {"type": "text-generation"}, "dataset": about, "metrics": [metric]}


def test_results_are_proposed_to_the_models_repository(finished: Path, hub: FakeHub, capsys: Capture) -> None:
    words = ("export", finished, "--to", "eval-results", "-o", finished / "out", "--pull_request", "me/echo")
    code, out, err = call(capsys, *words)
    assert (code, out.strip()) == (0, f"{hub.address}/me/echo/discussions/1"), err
    written = (finished / "out/.eval_results/colours.yaml").read_bytes()
    assert hub.pulls == {"me/echo": {".eval_results/colours.yaml": written}}


def test_a_model_card_keeps_what_it_says_and_gets_the_new_numbers(finished: Path, hub: FakeHub) -> None:
    (path,) = export_run(finished, "model-card", finished / "out")
    measured = yaml.safe_load(path.read_text())["model-index"][0]["results"][0]
    outdated = {
        **measured,
        "metrics": [{**measured["metrics"][0], "value": 0.1, "name": "acc, 95% interval 0 to 0.2, Assay 0"}],
    }
    theirs = [entry("own/other", 0.25, "theirs"), entry("own/colours", 0.5, "theirs"), outdated]
    old = yaml.safe_dump({"license": "mit", "model-index": [{"name": "Echo", "results": theirs}]})
    hub.add("me/echo", {"README.md": f"---\n{old}---\n# Echo\nIt echoes.\n"}, kind="model")
    for each in (1, 2):
        assert propose_run(finished, "model-card", finished / "out", "me/echo").endswith("/discussions/1")
        (card,) = hub.pulls["me/echo"].values()
        text = card.decode()
        assert "It echoes." in text
        data = yaml.safe_load(text.split("---")[1])
        assert data["license"] == "mit"
        (index,) = data["model-index"]
        found = [
            (r["dataset"]["type"], m["type"], m["name"] == "theirs") for r in index["results"] for m in r["metrics"]
        ]
        assert sorted(found) == [
            ("own/colours", "acc", False),
            ("own/colours", "acc", True),
            ("own/colours", "acc_norm", False),
            ("own/other", "acc", True),
        ], each
        hub.files.clear()
        hub.add("me/echo", {"README.md": card}, kind="model")


def test_a_repository_without_a_card_gets_one(finished: Path, hub: FakeHub) -> None:
    hub.add("me/echo", {"config.json": "{}"}, kind="model")
    propose_run(finished, "model-card", finished / "out", "me/echo")
    assert b"own/colours" in hub.pulls["me/echo"]["README.md"]


def test_what_cannot_be_proposed_is_refused_in_a_line(
    finished: Path, hub: FakeHub, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("export", finished, "-o", finished / "out", "--pull_request", "me/echo", "--to")
    code, _, err = call(capsys, *words, "csv")
    assert (code, "eval-results, model-card" in err, (finished / "out").exists()) == (2, True, False)
    monkeypatch.setenv("HF_TOKEN", "hf_somebody")
    code, _, err = call(capsys, *words, "eval-results")
    assert (code, "403" in err, "HF_TOKEN" in err, "hf_somebody" in err) == (3, True, True, False)


def test_every_eval_ever_holds_every_number_with_its_interval_and_every_answer(finished: Path) -> None:
    words: dict[str, Any] = {"organization": "Us", "relationship": "first_party"}
    path, samples = export_run(finished, "eee", finished / "out", **words)
    record = json.loads(path.read_text())
    jsonschema.validate(record, AGGREGATE)
    place = record["detailed_evaluation_results"]["file_path"]
    assert re.fullmatch(
        r"data/assay/unknown/Echo/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}_samples.jsonl",
        place,
    )
    assert (finished / "out" / place).read_bytes() == samples.read_bytes()
    about = record["model_info"]["additional_details"]
    assert (about["deployment_type"], about["model_availability"]) == ("unknown", "unknown")
    by_name = {each["evaluation_name"]: each for each in record["evaluation_results"]}
    assert {"colours/acc", "sums/exact_match/number", "sums/exact_match/raw", "both/acc"} <= by_name.keys()
    interval = by_name["colours/acc"]["score_details"]["uncertainty"]["confidence_interval"]
    assert interval["lower"] < 1 / 3 < interval["upper"]
    rows = [json.loads(line) for line in samples.read_text().splitlines()]
    for row in rows:
        jsonschema.validate(row, INSTANCE)
    assert len(rows) == record["detailed_evaluation_results"]["total_rows"] == 30 * 2 + 30 * 2
    again = export_run(finished, "eee", finished / "again", **words)
    assert [each.read_bytes() for each in again] == [path.read_bytes(), samples.read_bytes()]


def test_a_developer_stands_with_the_record_and_with_every_sample(finished: Path) -> None:
    path, samples = export_run(finished, "eee", finished / "out", developer="us")
    about = json.loads(path.read_text())["model_info"]
    assert (about["id"], about["developer"]) == ("us/Echo", "us")
    assert {json.loads(line)["model_id"] for line in samples.read_text().splitlines()} == {"us/Echo"}
    assert path.parent == finished / "out/data/assay/us/Echo"


def test_withheld_numbers_are_not_published(finished: Path) -> None:
    result = RunResult.load(finished)
    task = result.tasks["colours"]
    spoiled = replace(
        task, scores={key: replace(score, withheld="too many failed") for key, score in task.scores.items()}
    )
    spoiled_run = replace(open_run(finished), result=replace(result, tasks={**result.tasks, "colours": spoiled}))
    with pytest.raises(ConfigError, match="task"):
        to_eval_results(spoiled_run, finished / "out")


def test_parquet_holds_scores_and_samples(finished: Path) -> None:
    import pyarrow.parquet as pq

    scores, *samples = export_run(finished, "parquet", finished / "out")
    assert pq.read_table(scores).num_rows > 4
    assert sorted(path.name for path in samples) == ["samples_colours.parquet", "samples_sums.parquet"]
    assert pq.read_table(samples[0]).num_rows == 30


def test_the_verb_takes_who_evaluated_for_one_form_only(finished: Path) -> None:
    for form, code in (("eee", 0), ("csv", 2)):
        with pytest.raises(SystemExit) as left:
            main(["export", str(finished), "--to", form, "--organization", "Us"])
        assert (left.value.code or 0) == code
