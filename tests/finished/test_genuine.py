"""Runs that other harnesses wrote themselves (`make_genuine.py`): every number is what their own writer meant."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.analyses.test_verbs import call

from assay.finished import Run, export_run, open_run, open_runs, sample_rows
from assay.finished.inspect.log_files import read_header, samples_by_doc
from assay.finished.run import columns_of
from assay.results import MetricKey
from assay.view.sample_view import present

GENUINE = Path(__file__).parent / "genuine"


def opened(name: str) -> Run:
    return open_run(GENUINE / name)


def values(run: Run, task: str, metric: str) -> list[float | None]:
    found = run.columns(task)[metric, "none"].values
    return [None if np.isnan(value) else float(value) for value in found]


@pytest.mark.parametrize("name", [path.name for path in sorted(GENUINE.iterdir()) if (path / "VERSION").exists()])
def test_every_set_names_the_version_that_wrote_it_and_stays_small(name: str) -> None:
    assert "==" in (GENUINE / name / "VERSION").read_text()
    assert sum(file.stat().st_size for file in GENUINE.rglob("*") if file.is_file()) < 2 * 2**20


# -- inspect ----------------------------------------------------------------------------------------------------------


def test_inspect_logs_of_today_are_compressed_with_zstandard() -> None:
    (log,) = (GENUINE / "inspect/good").glob("*.eval")
    with zipfile.ZipFile(log) as archive:
        assert {info.compress_type for info in archive.infolist()} == {93}
    assert values(opened("inspect/good"), "sums", "match") == [1, 1, 1, 0] * 6


def test_epochs_are_tries_at_a_doc_and_a_scorer_may_give_several_numbers() -> None:
    run = opened("inspect/epochs_b")
    assert values(run, "sums", "match") == pytest.approx([2 / 3] * 6)
    assert values(run, "sums", "facets/right") == pytest.approx([2 / 3] * 6)
    assert values(run, "sums", "facets/length") == [15, 15, 15, 15, 16, 16]
    assert values(run, "sums", "pass@3(match)") == [1] * 6
    assert values(run, "sums", "pass^3(match)") == [0] * 6
    doc = next(iter(run.docs("sums")))
    assert doc.draws == len(doc.responses[0]) == len(doc.conversations) == 3
    assert doc.filtered == ["2", "3", "2"]  # what the scorers took, draw by draw


@pytest.mark.parametrize(
    "name",
    [
        f"{kind}/{path.name}"
        for kind in ("inspect", "inspectevals")
        for path in sorted((GENUINE / kind).iterdir())
        if path.is_dir()
    ],
)
def test_values_that_are_read_without_texts_are_those_of_the_docs(name: str) -> None:
    for run in open_runs(GENUINE / name):
        for task in run.tasks:
            docs, columns = columns_of(run.docs(task)), run.columns(task)
            assert list(docs) == list(columns)
            for key, column in columns.items():
                np.testing.assert_array_equal(column.values, docs[key].values)
                np.testing.assert_array_equal(column.docs, docs[key].docs)
                np.testing.assert_array_equal(column.requests, docs[key].requests)


def test_the_json_form_is_the_same_log() -> None:
    assert values(opened("inspect/json"), "sums", "match") == [1] * 6


def test_errors_are_failed_requests_and_bound_the_score() -> None:
    run = opened("inspect/errors")
    assert values(run, "sums", "match") == [1, 1, None, 1, 1, 0, None, 1]
    health = run.result.tasks["sums"].health
    assert (health.failed, health.docs) == (2, 8)
    assert all("the sandbox of" in reason for reason in health.reasons)
    assert health.bounds["match", "none"] == (5 / 8, 7 / 8)  # type: ignore[index]


def test_limits_are_failed_requests_too() -> None:
    run = opened("inspect/agent")
    assert values(run, "agent", "match") == [1, 1, 1, None, None, None]
    assert run.result.tasks["agent"].health.reasons == {"limit: message 9.0": 3}


def test_a_log_that_did_not_finish_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    run = opened("inspect/stopped")
    assert values(run, "sums", "match")[:4] == [1, 1, 1, 1]
    assert run.result.tasks["sums"].stop_reason == "its log has the status 'error'"
    _, shown, _ = call(capsys, "compare", GENUINE / "inspect/good", GENUINE / "inspect/stopped", "--json")
    assert "B: its log has the status 'error'" in shown


def test_shards_are_one_log_unless_it_was_merged(tmp_path: Path) -> None:
    assert values(opened("inspect/shards"), "shards", "match") == [1, 1, 1, 1, 1, 0]
    shutil.copytree(GENUINE / "inspect/shards", tmp_path / "run")
    (first,) = (tmp_path / "run/run.shards/0").glob("*.eval")
    shutil.copy(first, tmp_path / "run/run.eval")  # in place of the merged log, to see that it is the one that is read
    assert values(open_run(tmp_path / "run"), "shards", "match") == [1, 1, 1]


def test_logs_of_several_models_are_several_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, model in (("good", b"mockllm/strong"), ("bad", b"mockllm/feeble")):
        (log,) = (GENUINE / "inspect" / name).glob("*.eval")
        header = json.dumps(read_header(log)).encode().replace(b"mockllm/model", model)
        with zipfile.ZipFile(tmp_path / f"{name}.eval", "w") as copy:
            copy.writestr("header.json", header)
            for number, epochs in enumerate(samples_by_doc([log]), 1):
                copy.writestr(f"samples/{number}_epoch_1.json", json.dumps(epochs[0]))
    assert [run.result.model_name for run in open_runs(tmp_path)] == ["mockllm/strong", "mockllm/feeble"]
    code, out, err = call(capsys, "rank", tmp_path, "--json")
    assert code == 0, err
    assert [run["score"] for run in json.loads(out)["rankings"][0]["runs"]] == [0.75, 0.25]
    code, _, err = call(capsys, "report", tmp_path)
    assert (code, "mockllm/feeble" in err) == (2, True)


def test_an_older_log_of_a_task_is_not_left_out_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("good", "bad"):
        shutil.copytree(GENUINE / "inspect" / name, tmp_path / name)
    _, shown, _ = call(capsys, "report", tmp_path)
    assert "sums: 2 logs; only the newest is read" in shown
    code, _, err = call(capsys, "rank", tmp_path)
    assert (code, "2 logs; only the newest is read" in err) == (2, True)
    _, shown, _ = call(capsys, "report", GENUINE / "inspect/shards")
    assert "logs; the newest" not in shown


def test_large_samples_in_parts_are_the_same_samples() -> None:
    whole, parts = opened("inspect/large"), opened("inspect/parts")
    assert values(whole, "large", "match") == values(parts, "large", "match") == [1, 1, 1]
    said = [next(iter(run.docs("large"))).conversations[0] for run in (whole, parts)]
    assert [replace(turn, more={}) for turn in said[0]] == [replace(turn, more={}) for turn in said[1]]
    assert [turn.more.keys() for turn in said[0]] == [turn.more.keys() for turn in said[1]]
    assert [turn.role for turn in said[0]] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert said[0][1].tool_calls == ({"id": "c0", "name": "lookup", "arguments": {"key": "k0"}},)
    assert said[0][2].content == "k0 is 42"


# -- Harbor -----------------------------------------------------------------------------------------------------------


def test_trials_of_harbor_are_tries_and_exceptions_are_failed_requests() -> None:
    run = opened("harbor/attempts")
    assert run.result.model_name == "scripted m"
    assert values(run, "adhoc", "reward") == [1, None, 1, 0]
    assert values(run, "adhoc", "pass^2(reward)") == [1, None, 1, 0]
    health = run.result.tasks["adhoc"].health
    assert (health.failed, health.reasons) == (1, {"error: RuntimeError: the agent could not be reached": 2})
    assert health.bounds["reward", "none"] == (0.5, 0.75)  # type: ignore[index]


def test_trajectories_of_harbor_are_conversations() -> None:
    doc = next(iter(opened("harbor/good").docs("adhoc")))
    (said,) = doc.conversations
    assert [turn.role for turn in said] == ["user", "assistant", "tool", "assistant"]
    assert said[1].tool_calls[0]["arguments"] == {"text": "2"}
    assert doc.responses == (("It is 2.",),)


def test_the_viewer_shows_a_conversation_step_by_step() -> None:
    run = opened("harbor/good")
    row = next(sample_rows(run, "adhoc"))
    (response,) = present([row], {}, 0).responses
    assert [turn.role for turn in response.conversation] == ["user", "assistant", "tool", "assistant"]
    assert response.conversation[1].calls[0]["arguments"] == {"text": "2"}
    assert present([next(sample_rows(opened("inspect/good"), "sums"))], {}, 0).responses[0].conversation == ()


# -- nemo-evaluator ---------------------------------------------------------------------------------------------------


def test_infrastructure_errors_of_nemo_evaluator_are_no_wrong_answers() -> None:
    run = opened("nemo/repeats")
    (bundle,) = (GENUINE / "nemo/repeats").glob("eval-*.json")
    told = json.loads(bundle.read_text())["benchmark"]["scores"]["summary"]
    assert (told["n"], told["mean"]) == (12, pytest.approx(0.5))  # with the three that failed among the wrong
    assert run.result.model_name == "scripted"
    assert values(run, "sums", "reward") == [pytest.approx(2 / 3), None, pytest.approx(2 / 3), pytest.approx(2 / 3)]
    assert values(run, "sums", "pass^3(reward)") == [0, None, 0, 0]
    assert run.score("sums", MetricKey("reward", "none")).estimate.value == pytest.approx(2 / 3)  # type: ignore[union-attr]
    health = run.result.tasks["sums"].health
    assert (health.failed, health.reasons) == (1, {"infra_error: the endpoint refused the connection": 3})
    assert health.bounds["reward", "none"] == pytest.approx((0.5, 0.75))  # type: ignore[index]


# -- verifiers --------------------------------------------------------------------------------------------------------


def test_rollouts_of_verifiers_are_tries_and_errors_of_the_provider_are_failed_requests() -> None:
    run = opened("verifiers/rollouts")
    assert run.result.model_name == "scripted"
    assert values(run, "verifiers_logs", "reward") == [
        pytest.approx(2 / 3),
        None,
        pytest.approx(2 / 3),
        pytest.approx(2 / 3),
    ]
    assert values(run, "verifiers_logs", "pass^3(reward)") == [0, None, 0, 0]
    health = run.result.tasks["verifiers_logs"].health
    assert health.failed == 1
    assert list(health.reasons.values()) == [3]
    assert health.bounds["reward", "none"] == pytest.approx((0.5, 0.75))  # type: ignore[index]


def test_traces_of_verifiers_are_conversations() -> None:
    doc = next(iter(opened("verifiers/good").docs("verifiers_logs")))
    (said,) = doc.conversations
    assert [turn.role for turn in said] == ["user", "assistant", "tool", "assistant"]
    assert said[1].tool_calls[0]["name"] == "add"
    assert (said[2].content, doc.responses, doc.target) == ("2", (("It is 2",),), "2")


# -- Every Eval Ever --------------------------------------------------------------------------------------------------


def test_records_of_every_eval_ever_have_scores_and_samples() -> None:
    run = opened("eee/good")
    assert run.result.model_name == "mockllm/model"
    score = run.score("sums", MetricKey("accuracy", "none"))
    assert score is not None
    assert (score.estimate.value, score.higher_is_better) == (0.75, True)
    assert values(run, "sums", "accuracy") == [1, 1, 1, 0] * 6
    (said,) = next(iter(opened("eee/agent").docs("agent"))).conversations
    assert [turn.role for turn in said] == ["user", "assistant", "tool", "assistant"]


def test_its_converter_gives_every_epoch_the_score_of_all_and_they_are_tries_at_one_doc() -> None:
    run = opened("eee/epochs")
    assert values(run, "sums", "accuracy") == pytest.approx([2 / 3] * 6)
    assert next(iter(run.docs("sums"))).draws == 3


def test_a_record_without_its_samples_is_scores_as_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(GENUINE / "eee/good", tmp_path / "run")
    (samples,) = (tmp_path / "run").rglob("*_samples.jsonl")
    samples.unlink()
    run = open_run(tmp_path / "run")
    score = run.score("sums", MetricKey("accuracy", "none"))
    assert score is not None
    assert score.estimate.stderr == pytest.approx(0.0902894)
    assert not run.has("samples")
    code, _, err = call(capsys, "compare", tmp_path / "run", GENUINE / "eee/bad")
    assert (code, "has no samples" in err) == (2, True)


# -- lighteval, eval-framework, OpenAI's evals ------------------------------------------------------------------------


def test_details_of_lighteval() -> None:
    run = opened("lighteval/good")
    assert (run.result.model_name, sum(filter(None, values(run, "sums|0", "em")))) == ("org/scripted", 18)
    doc = next(iter(run.docs("sums|0")))
    assert (doc.doc["query"], doc.target, doc.requests[0].settings) == (
        "What is 16 + 16?",
        "32",
        {"until": ["\n"], "max_gen_toks": 8},
    )
    choices = opened("lighteval/choices")
    assert next(iter(choices.docs("choices|0"))).responses == ((-3.0, -2.0),)
    assert len(next(iter(opened("lighteval/draws").docs("draws|0"))).responses[0]) == 3


def test_repeats_of_eval_framework_are_tries_and_its_errors_are_failed_requests() -> None:
    run = opened("evalframework/repeats")
    (file,) = (GENUINE / "evalframework/repeats").rglob("aggregated_results.json")
    assert json.loads(file.read_text())["Average Accuracy Completion (including Errors)"] == pytest.approx(0.5)
    name = "Accuracy Completion"
    assert values(run, "Sums", name) == [pytest.approx(2 / 3), None, pytest.approx(2 / 3), pytest.approx(2 / 3)]
    assert values(run, "Sums", f"pass@3({name})") == [1, None, 1, 1]
    health = run.result.tasks["Sums"].health
    assert (health.failed, health.reasons) == (1, {"error: ConnectionError: no route": 3})
    choices = opened("evalframework/choices")
    assert values(choices, "Choices", "Accuracy Loglikelihood") == [1, 1, 1, 0] * 2
    assert next(iter(choices.docs("Choices"))).responses == (({"2": -1.0, "3": -2.0},),)


def test_logs_of_openai_evals() -> None:
    run = opened("openai/good")
    (report,) = [json.loads(line) for line in (GENUINE / "openai/good/sums.jsonl").open() if "final_report" in line]
    score = run.score("sums", MetricKey("accuracy", "none"))
    assert score is not None
    assert score.estimate.value == report["final_report"]["accuracy"] == 0.75
    doc = next(iter(run.docs("sums")))
    assert (doc.responses, doc.target, doc.doc["id"]) == ((("2",),), "2", "sums.dev.0")
    facets = opened("openai/facets")
    assert values(facets, "facets", "right") == [1, 1, 1, 0, 1, 1]
    assert values(facets, "facets", "length") == [1, 1, 1, 1, 2, 2]


# -- evals of inspect-evals, with inspect's mock model ----------------------------------------------------------------

EVALS = {
    "gsm8k": ["match"],
    "boolq": ["pattern"],
    "agentdojo": ["user_task_scorer/utility"],
    "agent_threat_bench_memory_poison": ["agent_threat_bench_scorer/utility", "agent_threat_bench_scorer/security"],
    "agent_threat_bench_autonomy_hijack": ["agent_threat_bench_scorer/utility", "agent_threat_bench_scorer/security"],
}


@pytest.mark.parametrize("name", EVALS)
def test_evals_of_inspect_evals_open_with_the_numbers_of_their_header(name: str) -> None:
    run = opened(f"inspectevals/{name}")
    (log,) = (GENUINE / "inspectevals" / name).glob("*.eval")
    told = {
        (f"{each['scorer']}/{each['name']}" if each["name"] != each["scorer"] else each["name"]): next(
            iter(each["metrics"].values())
        )["value"]
        for each in read_header(log)["results"]["scores"]
        if each["metrics"]
    }
    assert list(told) == EVALS[name]
    for metric, value in told.items():
        assert np.mean(values(run, f"inspect_evals/{name}", metric)) == pytest.approx(value)


def test_an_eval_whose_grader_failed_says_so() -> None:
    run = opened("inspectevals/agentic_misalignment")
    assert run.result.tasks["inspect_evals/agentic_misalignment"].stop_reason == "its log has the status 'error'"
    assert run.result.tasks["inspect_evals/agentic_misalignment"].health.failed == 1


@pytest.mark.parametrize("status", ["error", "cancelled", "started"])
def test_a_comparison_says_that_a_log_did_not_end_well(
    status: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(GENUINE / "inspect/json", tmp_path / "log")
    (file,) = (tmp_path / "log").glob("*.json")
    log = json.loads(file.read_text())
    file.write_text(json.dumps({**log, "status": status}))
    for verb in ("compare", "rank"):
        _, said, _ = call(capsys, verb, tmp_path / "log", GENUINE / "inspect/json", "--json")
        assert f"its log has the status '{status}'" in said
        assert "checks" not in said, "nobody looked at it while it ran"


@pytest.mark.parametrize("to", ["inspect", "harbor"])
def test_draws_that_are_written_as_one_sample_are_told(
    to: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    export_run(GENUINE / "inspect/good", to, tmp_path / "one")
    assert "several draws" not in caplog.text
    export_run(GENUINE / "inspect/epochs_b", to, tmp_path / "three")
    assert "sums: several draws a doc are written as one sample" in caplog.text
