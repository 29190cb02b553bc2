"""Labels of people correct a judged score, and their error goes with it, up to groups, comparisons and gates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.scoring.judges.bench import run, write_bench

from assay.analyses.compare import CompareOptions, compare_runs
from assay.analyses.gate import gate_against
from assay.data import doc_hash
from assay.errors import ConfigError, DataError
from assay.evaluation import score_again
from assay.finished import open_run
from assay.results import RunResult, read_samples
from assay.scoring.judges import answer_hash

CORRECT = "scorer: {type: judge}"
DOCS = 120


def label(
    folder: Path, directory: str, people: Callable[[int], bool], every: int = 2, answer: str | None = None
) -> Path:
    """A file of labels on every so many docs of a run, beside it."""
    rows = []
    for row in read_samples(folder / directory / "samples" / "judged.parquet"):
        if row["doc_id"] % every == 0:
            (said,) = json.loads(row["filtered_resps"])
            verdict = "correct" if people(row["doc_id"]) else "incorrect"
            key = answer_hash([answer or said])
            rows.append({"task": "judged", "doc_hash": row["doc_hash"], "answer_hash": key, "verdict": verdict})
    path = folder / f"{directory}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def is_right(i: int) -> bool:
    return i % 3 != 0


def judged_run(folder: Path, directory: str, rule: str = "kind", **words: object) -> RunResult:
    return run(folder, "judged", rule=rule, run_dir=str(folder / directory), **words)


def test_a_judge_that_is_too_kind_is_corrected(tmp_path: Path) -> None:
    """The judge calls all right; people two of three."""
    write_bench(tmp_path, DOCS, judged=CORRECT)
    raw = judged_run(tmp_path, "run")
    labels = label(tmp_path, "run", is_right)
    assert raw["judged"]["correct"].value == 1.0
    assert "judge, unchecked" in raw.table()
    result = score_again(tmp_path / "run", {"labels": [str(labels)]}, run_dir=tmp_path / "checked")
    score = result.tasks["judged"].scores["correct", "none"]
    assert score.estimate.value == pytest.approx(2 / 3)
    assert score.estimate.low is not None and score.estimate.low < 2 / 3 < (score.estimate.high or 0)  # noqa: PT018
    assert score.judge is not None
    assert (score.judge.labels, score.judge.opinion) == (60, 1.0)
    assert score.judge.specificity is not None
    assert score.judge.specificity.value == 0.0
    assert "judge, 60 labels" in result.table()
    again = RunResult.load(tmp_path / "checked").tasks["judged"].scores["correct", "none"]
    assert again == score, "the file says the same"


def test_a_label_for_another_answer_is_not_used_and_counted(tmp_path: Path) -> None:
    write_bench(tmp_path, DOCS, judged=CORRECT)
    judged_run(tmp_path, "run")
    labels = label(tmp_path, "run", is_right, answer="something else")
    result = score_again(tmp_path / "run", {"labels": [str(labels)]})
    assert result["judged"]["correct"].value == 1.0
    assert result.tasks["judged"].health.unused_labels == 60
    assert "50% unused labels" in result.table()


def test_too_few_labels_correct_nothing_and_say_so(tmp_path: Path) -> None:
    write_bench(tmp_path, DOCS, judged=CORRECT)
    judged_run(tmp_path, "run")
    result = score_again(tmp_path / "run", {"labels": [str(label(tmp_path, "run", is_right, every=12))]})
    assert result["judged"]["correct"].value == 1.0
    check = result.tasks["judged"].scores["correct", "none"].judge
    assert check is not None
    assert check.mark == "judge, unchecked (10 labels, fewer than 20)"


def test_the_correction_climbs_to_groups(tmp_path: Path) -> None:
    write_bench(tmp_path, DOCS, judged=CORRECT, other=CORRECT)
    (tmp_path / "both.yaml").write_text(
        "group: both\ntask: [judged, other]\naggregate_metric_list:\n  - {metric: correct, weight_by_size: false}\n"
    )
    run(tmp_path, "both", rule="kind", run_dir=str(tmp_path / "run"))
    labels = label(tmp_path, "run", is_right)
    score = score_again(tmp_path / "run", {"labels": [str(labels)]}).groups["both"].scores["correct", "none"]
    assert score.estimate.value == pytest.approx((2 / 3 + 1) / 2)
    assert (score.estimate.stderr or 0) > 0.01, "the labels' error"
    assert score.judge is not None
    assert score.judge.mark == "judge, unchecked", "one of the two has no labels"


def test_compare_and_gate_carry_the_judges_error(tmp_path: Path) -> None:
    """One judge sees no difference between a good run and a bad one; people do."""
    write_bench(tmp_path, DOCS, judged=CORRECT)
    judged_run(tmp_path, "good", rule="honest")
    judged_run(tmp_path, "kind", rule="kind")
    for name, people in (("good", is_right), ("kind", lambda i: i % 6 == 2)):
        score_again(
            tmp_path / name, {"labels": [str(label(tmp_path, name, people))]}, run_dir=tmp_path / f"{name}_checked"
        )
    a, b = open_run(tmp_path / "good_checked"), open_run(tmp_path / "kind_checked")
    (comparison,) = compare_runs([a, b], CompareOptions())
    (row,) = comparison.rows
    assert row.difference.test == "paired, prediction-powered"
    assert row.difference.a == pytest.approx(a.result["judged"]["correct"].value)
    assert row.difference.b == pytest.approx(b.result["judged"]["correct"].value)
    assert row.difference.estimate.value is not None
    assert row.difference.estimate.value < -0.2
    assert not gate_against(tmp_path / "kind_checked", tmp_path / "good_checked", CompareOptions()).passed
    limits = tmp_path / "limits.json"
    limits.write_text(json.dumps({"judged": {"correct": 0.9}}))
    assert not gate_against(tmp_path / "kind_checked", limits, CompareOptions()).passed
    assert gate_against(tmp_path / "kind", limits, CompareOptions()).passed, "the judge alone would have let it pass"


def test_a_comparison_without_labels_says_that_the_judge_is_unchecked(tmp_path: Path) -> None:
    write_bench(tmp_path, DOCS, judged=CORRECT)
    judged_run(tmp_path, "one", rule="honest")
    judged_run(tmp_path, "two", rule="kind")
    (comparison,) = compare_runs([open_run(tmp_path / "one"), open_run(tmp_path / "two")])
    assert comparison.rows[0].notes == ("A: judge, unchecked", "B: judge, unchecked")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1 is not valid JSON"),
        ('{"doc_hash": "a"}', "line 1 has no answer_hash"),
        ("[1]", "line 1 is not an object"),
    ],
)
def test_a_damaged_file_of_labels_is_named_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    write_bench(tmp_path, judged=CORRECT)
    (tmp_path / "labels.jsonl").write_text(line + "\n")
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, "judged", labels=[str(tmp_path / "labels.jsonl")])


def test_a_label_that_is_no_verdict_is_an_error(tmp_path: Path) -> None:
    write_bench(tmp_path, judged=CORRECT)
    row = {"doc_hash": doc_hash({"question": "1?", "answer": "1"}), "answer_hash": answer_hash(["1"]), "verdict": 7}
    (tmp_path / "labels.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match="7 is not a verdict of this judge"):
        run(tmp_path, "judged", labels=[str(tmp_path / "labels.jsonl")])


def test_until_is_refused_where_labels_correct(tmp_path: Path) -> None:
    write_bench(tmp_path, judged=CORRECT)
    (tmp_path / "labels.jsonl").write_text("")
    with pytest.raises(ConfigError, match="--until"):
        run(tmp_path, "judged", labels=[str(tmp_path / "labels.jsonl")], until="ci=0.1")
