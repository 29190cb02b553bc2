"""Runs that other harnesses wrote themselves (`make_genuine.py`): every number is what their own writer meant."""

from __future__ import annotations

import json
import shutil
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.analyses.test_verbs import call

from assay.errors import AssayError
from assay.finished import Run, open_run, sample_rows
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
    assert sum(file.stat().st_size for file in GENUINE.rglob("*")) < 2 * 2**20


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
    assert doc.tries == len(doc.responses[0]) == len(doc.conversations) == 3


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
    _, shown, _ = call(capsys, "compare", GENUINE / "inspect/good", GENUINE / "inspect/stopped")
    assert "B stopped early" in shown


def test_shards_are_one_log_unless_it_was_merged(tmp_path: Path) -> None:
    assert values(opened("inspect/shards"), "shards", "match") == [1, 1, 1, 1, 1, 0]
    shutil.copytree(GENUINE / "inspect/shards", tmp_path / "run")
    (first,) = (tmp_path / "run/run.shards/0").glob("*.eval")
    shutil.copy(first, tmp_path / "run/run.eval")  # in place of the merged log, to see that it is the one that is read
    assert values(open_run(tmp_path / "run"), "shards", "match") == [1, 1, 1]


def test_large_samples_in_parts_are_the_same_samples() -> None:
    whole, parts = opened("inspect/large"), opened("inspect/parts")
    assert values(whole, "large", "match") == values(parts, "large", "match") == [1, 1, 1]
    said = [next(iter(run.docs("large"))).conversations[0] for run in (whole, parts)]
    assert said[0] == said[1]
    assert [turn.role for turn in said[0]] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert said[0][1].tool_calls == ({"name": "lookup", "arguments": {"key": "k0"}},)
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


# -- files that somebody damaged --------------------------------------------------------------------------------------

LOGS = sorted(file for file in (GENUINE / "inspect").rglob("*") if file.suffix in (".eval", ".json"))
LOGS += sorted((GENUINE / "harbor" / "attempts").glob("*/*.json"))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_an_error_or_a_run_and_never_a_traceback(data: st.DataObject, tmp_path: Path) -> None:
    source = data.draw(st.sampled_from(LOGS))
    content = bytearray(source.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    for _ in range(data.draw(st.integers(1, 8))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = tmp_path / source.name
    if "harbor" in source.parts:
        damaged = tmp_path / "job"
        shutil.copytree(source.parents[1], damaged, dirs_exist_ok=True)
        (damaged / source.relative_to(source.parents[1])).write_bytes(content)
    else:
        damaged.write_bytes(content)
    with suppress(AssayError):
        run = open_run(damaged)
        assert all(isinstance(doc.doc_hash, str) for task in run.tasks for doc in run.docs(task))
