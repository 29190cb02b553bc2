"""`assay score`: the docs that were asked, with the answers that were given, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.run.test_run import Echo, bench, run  # noqa: F401  `bench` is a fixture
from tests.run.test_until import many

from assay.errors import ConfigError, ScoringError, StoreError
from assay.evaluation import score_again
from assay.results import RunResult, SampleRow, SampleWriter, read_samples
from assay.run.stored import StoredDocs


def healths(results: RunResult) -> dict[str, Any]:
    return {name: task.health for name, task in results.tasks.items()}


def numbers(results: RunResult) -> dict[str, Any]:
    return {name: {key: results[name][key] for key in results[name]} for name in results}


@pytest.mark.parametrize("tasks", [["sums"], ["colours"]])
def test_failed_requests_stay_failed_requests(bench: Path, tasks: list[str]) -> None:  # noqa: F811
    first = run(bench, Echo(fail=" 1"), tasks=tasks, run_dir=str(bench / "run"))
    again = score_again(bench / "run", run_dir=bench / "again")
    third = score_again(bench / "again")
    assert first.tasks[tasks[0]].health.failed == 15
    assert numbers(first) == numbers(again) == numbers(third)
    assert healths(again) == healths(third) == healths(first)


@pytest.mark.parametrize("directory", ["run", "again"])
def test_the_sample_says_why_a_request_failed(bench: Path, directory: str) -> None:  # noqa: F811
    run(bench, Echo(fail=" 1 +"), tasks=["colours"], run_dir=str(bench / "run"))
    score_again(bench / "run", run_dir=bench / "again")
    rows = list(read_samples(bench / directory / "samples" / "colours.parquet"))
    assert {row["doc_id"]: row["failure"] for row in rows if row["failure"]} == {1: "the server said no"}


def test_docs_that_were_left_out_once_are_left_out_again(bench: Path) -> None:  # noqa: F811
    """Such a doc is kept with no answers at all, not with nulls."""
    run(bench, tasks=["colours"], run_dir=str(bench / "run"))
    task = bench / "colours.yaml"
    before = task.read_text()
    task.write_text(before.replace("Q: ", "Question: "))
    score_again(bench / "run", run_dir=bench / "again")
    again = score_again(bench / "again")
    assert again.tasks["colours"].health.failed == 30


def test_a_file_without_reasons_is_read(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path / "t.parquet")
    writer.add(SampleRow(0, "h", "r", "none", "{}", "0", "[]", "[[null]]", "[]"))
    writer.close()
    kept = StoredDocs(tmp_path / "t.parquet").take(0)
    assert kept is not None
    from assay.instance import Instance

    instance = Instance("generate_until", {}, (), 0)
    assert kept.give_answers([instance])
    assert instance.failure == "the request failed"


def test_a_run_until_enough_is_known_is_scored_on_the_docs_it_asked(bench: Path) -> None:  # noqa: F811
    many(bench)
    first = run(bench, tasks=["colours"], until="ci=0.1", run_dir=str(bench / "run"))
    again = score_again(bench / "run")
    assert first["colours"]["acc"].n < 600
    assert numbers(again) == numbers(first)
    assert again["colours"]["acc"].method == "confidence sequence"
    assert healths(again) == healths(first)
    assert again.remarks == first.remarks
    assert [t.task_hash for t in again.tasks.values()] == [t.task_hash for t in first.tasks.values()]


def test_a_run_with_a_control_is_scored_on_the_docs_it_drew(bench: Path) -> None:  # noqa: F811
    many(bench)
    run(bench, tasks=["colours"], run_dir=str(bench / "base"))
    first = run(bench, tasks=["colours"], limit=120, control=str(bench / "base"), run_dir=str(bench / "run"))
    again = score_again(bench / "run")
    assert again["colours"]["acc"].n == 120
    assert numbers(again) == numbers(first)
    assert again.tasks["colours"].health.failed == 0


def test_a_control_run_and_its_part_ask_the_same_of_a_doc(bench: Path) -> None:  # noqa: F811
    many(bench, 100)
    run(bench, tasks=["colours"], run_dir=str(bench / "base"))
    model = Echo()
    run(bench, model, tasks=["colours"], limit=20, control=str(bench / "base"))
    assert model.asked == 0, "the shots are those of the whole, so every answer is in the store"


def test_docs_that_came_or_went_are_named(bench: Path) -> None:  # noqa: F811
    run(bench, tasks=["colours"], run_dir=str(bench / "run"))
    lines = (bench / "test.jsonl").read_text().splitlines(keepends=True)
    more = json.dumps({"question": "new", "answer": 0}) + "\n"
    (bench / "test.jsonl").write_text("".join([*lines, more]))
    assert "did not ask 1 docs (30)" in score_again(bench / "run").remarks[0]
    (bench / "test.jsonl").write_text("".join(lines[:28]))
    again = score_again(bench / "run")
    assert "no longer has 2 docs (28, 29)" in again.remarks[0]
    assert again["colours"]["acc"].n == 28


def test_a_run_is_not_overwritten_by_scores(bench: Path) -> None:  # noqa: F811
    run(bench, tasks=["colours"], run_dir=str(bench / "run"))
    run(bench, tasks=["colours"], run_dir=str(bench / "other"))
    with pytest.raises(ConfigError, match="contains another run"):
        score_again(bench / "run", run_dir=bench / "other")
    assert (bench / "other" / "results.json").exists()
    score_again(bench / "run", run_dir=bench / "scores")
    score_again(bench / "run", run_dir=bench / "scores")


def test_scoring_that_ends_early_leaves_no_part_of_a_file(bench: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr("assay.results.samples.ROWS_PER_GROUP", 4)
    run(bench, run_dir=str(bench / "run"))
    text = "import itertools\ncalls = itertools.count()\n\ndef broken(doc, results):\n    if next(calls) > 10:\n        raise KeyboardInterrupt\n    return {'exact_match': 1.0}\n"
    (bench / "code.py").write_text(text)
    task = bench / "sums.yaml"
    task.write_text(task.read_text() + "process_results: !function code.broken\n")
    with pytest.raises((KeyboardInterrupt, ScoringError)):
        score_again(bench / "run", run_dir=bench / "again")
    assert list((bench / "again" / "samples").iterdir()) == []


def test_a_task_that_was_asked_nothing_is_scored_as_nothing(bench: Path) -> None:  # noqa: F811
    first = run(bench, samples={"sums": []}, run_dir=str(bench / "run"), log_samples=True)
    assert [name for name, task in first.tasks.items() if task.sample_file] == ["colours"]
    assert not (bench / "run" / "samples_sums.jsonl").exists()
    assert numbers(score_again(bench / "run")) == numbers(first)


@pytest.mark.parametrize("config", [{}, {"config": None}, {"config": [1]}, {"config": {"model": 5}}])
def test_a_run_that_does_not_say_how_it_was_made_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match=r"run\.json"):
        score_again(tmp_path)


def test_a_run_whose_file_is_nothing_but_brackets_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match="nested too deeply"):
        score_again(tmp_path)
