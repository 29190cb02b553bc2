"""`assay.evaluate` and `assay run`: what users see of a run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.run.support import command, computed, environment, results_without_times, write_benchmark

import assay
from assay.errors import ConfigError
from assay.evaluation import score_again
from assay.finished import export_run
from assay.instance import Response
from assay.models import LM
from assay.results import RunResult, read_samples, unpack_arguments


class Echo(LM):
    """Prefers the last choice, and answers 7; `fail` and `cut` name questions that fail or are cut off."""

    def __init__(self, fail: str = "\0", cut: str = "\0") -> None:
        self.fail, self.cut, self.asked = fail, cut, 0

    def stream(self, request_type: Any, instances: Any, draws: Any, stop: Any = None) -> Any:
        for position, instance in enumerate(instances):
            self.asked += 1
            question = instance.args[0].rsplit("test", 1)[-1]
            if self.fail in question:
                yield position, Response(None, failure="the server said no")
            elif request_type == "generate_until":
                yield position, Response("7 of them", "length" if self.cut in question else "stop")
            else:
                yield position, Response((float(len(instance.args[1])), False))

    def loglikelihood(self, requests: Any) -> Any:
        raise AssertionError("stream is used")

    loglikelihood_rolling = generate_until = loglikelihood

    def fingerprint(self) -> str:
        return f"echo:{self.fail}:{self.cut}"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_benchmark(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def run(bench: Path, model: Any = None, **words: Any) -> RunResult:
    words.setdefault("tasks", ["both"])
    return assay.evaluate(model=model or Echo(), include_path=[str(bench)], **words)


def test_results_are_estimates_by_task_group_and_metric(bench: Path) -> None:
    results = run(bench)
    acc = results["colours"]["acc"]
    assert (acc.value, acc.n) == (1 / 3, 30)
    assert acc.low is not None
    assert acc.low < 1 / 3 < (acc.high or 0)
    assert results["both"]["acc"].value == acc.value
    assert results["sums"]["exact_match,number"].value == 0.0
    assert "colours" in results.table()
    frame = results.to_pandas()
    assert set(frame["name"]) == {"both", "colours", "sums"}


def test_a_metric_under_several_filters_must_be_named_in_full(bench: Path) -> None:
    with pytest.raises(ConfigError, match="several filters"):
        run(bench)["sums"]["exact_match"]


def test_second_run_is_answered_by_the_store(bench: Path) -> None:
    first, second = Echo(), Echo()
    run(bench, first)
    run(bench, second)
    assert first.asked > 0
    assert second.asked == 0


class Counting(Echo):
    """Says how many tokens a continuation has: more of them for the likelier choices."""

    def stream(self, request_type: Any, instances: Any, draws: Any, stop: Any = None) -> Any:
        for position, answer in super().stream(request_type, instances, draws):
            size = len(instances[position].args[1])
            yield position, answer._replace(tokens=(40, size**3 if request_type == "loglikelihood" else 3))


def test_token_counts_are_kept_with_the_samples_and_in_the_store(bench: Path) -> None:
    task = bench / "colours.yaml"
    task.write_text(task.read_text().replace("- metric: acc_norm", "- metric: acc_tokens"))
    first, second = run(bench, Counting(), run_dir=str(bench / "a")), run(bench, Counting(), run_dir=str(bench / "b"))
    for results, directory in ((first, "a"), (second, "b"), (score_again(bench / "a", run_dir=bench / "c"), "c")):
        (row, *_) = read_samples(bench / directory / results.tasks["colours"].sample_file)
        assert json.loads(row["tokens"]) == [[[40, 64]], [[40, 216]], [[40, 125]]]
        assert row["metric:acc"] == 0.0, "green has the highest sum"
        assert row["metric:acc_tokens"] == 1.0, "red has the highest sum a token"
        (row, *_) = read_samples(bench / directory / results.tasks["sums"].sample_file)
        assert json.loads(row["tokens"]) == [[[40, 3], [40, 3]]]


def test_more_draws_ask_only_for_the_new_ones(bench: Path) -> None:
    first, second = Echo(), Echo()
    run(bench, first, tasks=["sums"], repeats=5)
    run(bench, second, tasks=["sums"], repeats=10)
    assert (first.asked, second.asked) == (150, 150)


def test_fresh_asks_again(bench: Path) -> None:
    run(bench)
    again = Echo()
    run(bench, again, fresh=True)
    assert again.asked > 0


def test_failed_requests_are_counted_and_never_scored_as_wrong(bench: Path) -> None:
    results = run(bench, Echo(fail=" 1 +"), tasks=["colours"])
    assert results.tasks["colours"].health.failed == 1
    assert results["colours"]["acc"].n == 29


def test_scores_above_a_health_threshold_are_withheld(bench: Path) -> None:
    results = run(bench, Echo(cut=" 1"), tasks=["sums"], max_truncated=0.01)
    assert results.withheld == ["sums"]
    assert "withheld" in results.table()


def test_run_directory_holds_config_results_and_samples(bench: Path) -> None:
    results = run(bench, run_dir=str(bench / "run"), log_samples=True)
    assert json.loads((bench / "run" / "run.json").read_text())["status"] == "finished"
    assert not (bench / "run" / "progress.json").exists()
    rows = list(read_samples(bench / "run" / results.tasks["sums"].sample_file))
    assert {row["filter"] for row in rows} == {"number", "raw"}
    assert len(rows) == 60
    assert unpack_arguments(rows[0]["arguments"])[0][0].endswith(" =")
    lines = (bench / "run" / "samples_sums.jsonl").read_text().splitlines()
    assert [json.loads(line)["doc_id"] for line in lines] == [*range(30), *range(30)]
    assert RunResult.load(bench / "run") == results


def test_memory_of_requests_is_bounded_by_the_window(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into windows of a few requests, the results are the same bytes."""
    whole = run(bench).to_dict()["results"]
    monkeypatch.setattr("assay.run.answerers.WINDOW_REQUESTS", 7)
    assert run(bench, fresh=True).to_dict()["results"] == whole


def test_predict_only_keeps_answers_and_no_scores(bench: Path) -> None:
    results = run(bench, run_dir=str(bench / "run"), predict_only=True, tasks=["sums"])
    assert list(results["sums"]) == []
    assert (bench / "run" / "samples_sums.jsonl").exists()


def test_rescoring_with_an_edited_filter_needs_no_model(bench: Path) -> None:
    run(bench, run_dir=str(bench / "run"))
    task = bench / "sums.yaml"
    task.write_text(task.read_text().replace("([0-9])", "(of them)"))
    again = score_again(bench / "run", run_dir=bench / "again")
    rows = list(read_samples(bench / "again" / again.tasks["sums"].sample_file))
    assert json.loads(rows[0]["filtered_resps"]) == ["of them"]
    assert again.remarks == []


def test_rescoring_leaves_out_docs_whose_requests_would_differ(bench: Path) -> None:
    run(bench, run_dir=str(bench / "run"), tasks=["sums"])
    task = bench / "sums.yaml"
    task.write_text(task.read_text().replace("}} =", "}} is"))
    again = score_again(bench / "run")
    assert "requests would differ for 30 docs" in again.remarks[0]
    assert again.tasks["sums"].health.failed == 30


def test_samples_keep_their_ids_whatever_the_order(bench: Path) -> None:
    results = run(bench, tasks=["colours"], samples={"colours": [4, 1]}, run_dir=str(bench / "run"))
    rows = list(read_samples(bench / "run" / results.tasks["colours"].sample_file))
    assert [(row["doc_id"], json.loads(row["doc"])["question"].split()[1]) for row in rows] == [(1, "1"), (4, "4")]


def test_export_and_import_give_the_same_scores(bench: Path) -> None:
    first = run(bench, run_dir=str(bench / "run"))
    assert all(
        path.stat().st_size
        for form in ("lm-eval", "inspect", "csv", "jsonl")
        for path in export_run(bench / "run", form, bench / form)
    )
    export_run(bench / "lm-eval", "assay", bench / "imported")
    back = RunResult.load(bench / "imported")
    for name in ("colours", "sums", "both"):
        assert {k: back[name][k].value for k in back[name]} == {k: first[name][k].value for k in first[name]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"tasks": ["colour"]}, "colours"),
        ({"tasks": ["zzz*"]}, "zzz"),
        ({"tasks": []}, "no tasks"),
        ({"limit": 0}, "limit is 0"),
        ({"limit": -3}, "limit is -3"),
        ({"samples": {"colours": [99]}, "tasks": ["colours"]}, "99"),
        ({"samples": {"colour": [1]}, "tasks": ["colours"]}, "colours"),
        ({"run_dir": "/proc/nope"}, "cannot write"),
        ({"limit": 5, "samples": {"colours": [1]}}, "cannot be combined"),
    ],
)
def test_wrong_words_say_what_to_do(bench: Path, words: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run(bench, **words)
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_run_directory_of_a_newer_version_is_refused(bench: Path) -> None:
    run(bench, run_dir=str(bench / "run"))
    path = bench / "run" / "run.json"
    path.write_text(path.read_text().replace('"format": 1', '"format": 99'))
    with pytest.raises(ConfigError, match="newer Assay"):
        RunResult.load(bench / "run")


def test_command_line_end_to_end(bench: Path) -> None:
    done = subprocess.run(command(bench), env=environment(bench), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "colours" in done.stdout
    asked = len(computed(bench))
    again = [*command(bench, run="again"), "--config", str(bench / "run" / "run.json")]
    assert subprocess.run(again, env=environment(bench), capture_output=True).returncode == 0
    assert results_without_times(bench, "again") == results_without_times(bench)
    assert len(computed(bench)) == asked


def test_a_config_file_with_an_unknown_key_is_refused(bench: Path) -> None:
    (bench / "run.yaml").write_text("tasks: colours\nlimits: 3\n")
    done = subprocess.run(
        [*command(bench), "--config", str(bench / "run.yaml")], env=environment(bench), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "limits" in done.stderr
    assert "Did you mean limit" in done.stderr
