"""What a comparison says above its tasks: docs counted once, units shared, labels on both sides or none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.analyses.made import write_run
from tests.own_files import write_task

import assay
from assay.analyses.compare import CompareOptions, compare
from assay.analyses.compare.task_difference import compare_task
from assay.analyses.gate.engine import GateCheck, gate_against
from assay.finished import DocColumn, open_run
from assay.results import MetricKey
from assay.stats import non_inferiority, paired_difference

EVEN = {"key": "acc,none", "aggregator": "mean", "children": {"one": 0.5, "two": 0.5}}


def two_tasks(
    folder: Path, name: str, seed: int, docs: int = 40, passages: int | None = None, groups: object = None
) -> Path:
    """Two tasks on the same docs, in passages where asked."""
    rng = np.random.default_rng(seed)
    scores = {task: {"acc,none": (rng.random(docs) < 0.6).astype(float).tolist()} for task in ("one", "two")}
    contents = [f"d{i}" for i in range(docs)]
    clusters = None if passages is None else {task: [str(i % passages) for i in range(docs)] for task in scores}
    shared = {task: [f"{task}{c}" for c in contents] if passages else contents for task in scores}
    return write_run(folder / name, scores, docs=shared, clusters=clusters, groups=groups or {"both": EVEN})  # type: ignore[arg-type]


def test_a_group_counts_a_doc_of_two_tasks_once(tmp_path: Path) -> None:
    found = compare(two_tasks(tmp_path, "a", 0), two_tasks(tmp_path, "b", 1))
    assert found.row("both", "acc").difference.estimate.n == 40


@pytest.mark.parametrize("aggregator", ["mean", "harmonic_mean"])
def test_passages_are_the_units_of_groups_above_tasks_that_share_them(tmp_path: Path, aggregator: str) -> None:
    groups = {"both": {**EVEN, "aggregator": aggregator}}
    runs = [two_tasks(tmp_path, name, seed, passages=8, groups=groups) for seed, name in enumerate("ab")]
    assert compare(*runs).row("both", "acc").difference.freedom <= 7


def test_intervals_in_tables_and_files_agree_with_verdicts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a = {f"t{i}": {"acc,none": (rng.random(100) < 0.6).astype(float).tolist()} for i in range(8)}
    b = {t: {"acc,none": np.where(rng.random(100) < 0.25, 1.0, v["acc,none"]).tolist()} for t, v in a.items()}
    found = compare(write_run(tmp_path / "a", a), write_run(tmp_path / "b", b))
    rows = found.to_dict()["rows"]
    for row in rows:
        assert (row["verdict"] == "better") == (row["low"] > 0)
        assert row["level"] > row["alone"]["level"] == 0.95
        assert row["low"] < row["alone"]["low"]
    assert {row["verdict"] for row in rows} >= {"better"}


def judged(values: np.ndarray, labels: np.ndarray | None) -> DocColumn:
    keys = np.arange(len(values), dtype=np.uint64)
    return DocColumn(MetricKey("acc"), keys, None, values, np.arange(len(values)), labels=labels)


@pytest.mark.parametrize("given", [0, 5])
def test_labels_on_one_side_alone_give_no_verdict(given: int) -> None:
    """The labels say that the judge is too kind by .3: a corrected A against a raw B is that error, and no difference."""
    rng = np.random.default_rng(0)
    values = (rng.random(300) < 0.8).astype(float)
    labels = np.where(np.arange(300) < 60, np.where(rng.random(300) < 0.3, 0.0, values), np.nan)
    few = np.where(np.arange(300) < given, labels, np.nan)
    for sides in ((labels, few), (few, labels)):
        found = compare_task(judged(values, sides[0]), judged(values, sides[1]), "mean", CompareOptions(), {}).member
        assert found.difference.estimate.value == 0.0
        assert found.difference.p_value is None
        assert "label at least" in (found.difference.estimate.withheld_reason or "")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two runs with the same answers, and one with others."""
    folder = tmp_path_factory.mktemp("asked")
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        assay.evaluate(
            model="dummy",
            model_args=f"seed={seed}",
            tasks=["demo_arithmetic", "demo_grammar"],
            limit=12,
            run_dir=str(folder / name),
        )
    return {name: folder / name for name in ("one", "again", "other")}


@pytest.mark.parametrize("baseline", ["one", "again"])
def test_a_gate_against_identical_answers_passes(asked: dict[str, Path], baseline: str) -> None:
    report = gate_against(asked["one"], asked[baseline], CompareOptions())
    assert report.outcome == "passed"
    assert {check.result.bound for check in report.checks if check.kind == "the same answers"} == {0.0}


def test_a_group_of_tasks_on_the_same_docs_passes_against_itself(tmp_path: Path) -> None:
    docs = [{"q": f"{i}?", "choices": ["a", "b"], "gold": i % 2} for i in range(20)]
    fields = {"output_type": "multiple_choice", "doc_to_text": "q", "doc_to_choice": "choices", "doc_to_target": "gold"}
    for name in ("one", "two"):
        file = write_task(tmp_path, docs, name=name, **fields)
        file.write_text(file.read_text().replace("two.jsonl", "one.jsonl"))
    (tmp_path / "both.yaml").write_text("group: both\ntask: [one, two]\naggregate_metric_list: [{metric: acc}]\n")
    assay.evaluate(model="dummy", tasks=[str(tmp_path / "both.yaml")], run_dir=str(tmp_path / "run"))
    row = compare(tmp_path / "run", tmp_path / "run").row("both", "acc")
    assert (row.difference.estimate.value, row.difference.p_value) == (0.0, 1.0)
    assert gate_against(tmp_path / "run", tmp_path / "run", CompareOptions()).outcome == "passed"


def test_answers_that_differ_are_not_identical_though_their_scores_are(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a", {"t": {"acc,none": [1.0] * 20}})
    assert gate_against(run, run, CompareOptions()).outcome == "cannot tell"  # it has no answers to tell by


def test_pass_at_k_that_a_group_makes_of_draws_is_compared(asked: dict[str, Path]) -> None:
    found = compare(asked["one"], asked["other"])
    row = found.row("demo_arithmetic", "pass@3")
    assert row is not None
    assert [r for r in found.refusals if "not in both runs" in r.reason] == []
    reported = [open_run(asked[name]).score("demo_arithmetic", row.key) for name in ("one", "other")]
    assert (row.difference.a, row.difference.b) == pytest.approx([score.estimate.value for score in reported if score])


def test_a_group_of_one_is_compared_as_its_member(tmp_path: Path) -> None:
    groups = {"alone": {"key": "acc,none", "children": {"one": 1.0}}}
    runs = [two_tasks(tmp_path, name, seed, groups=groups) for seed, name in enumerate("ab")]
    found = compare(*runs)
    assert found.row("alone", "acc").interval == found.row("one", "acc").interval


def test_what_failed_shows_the_bound_that_decides() -> None:
    worse = paired_difference(np.repeat([1.0, 0.0], [300, 100]), np.repeat([1.0, 0.0], [200, 200]))
    result = non_inferiority(worse, 0.05)
    assert not result.passed
    assert not result.unclear
    assert result.deciding_bound == result.best < -0.05
    check = GateCheck("t", MetricKey("acc"), result, "paired", worse.b, worse.a, 400)
    assert f"{result.best:+.4f}" in check.line()


def test_tasks_that_share_a_doc_are_compared_nearly_as_those_that_share_none(tmp_path: Path) -> None:
    """A small task without flips may still flip, also where one of its docs is another task's."""
    rng = np.random.default_rng(0)
    large = (rng.random(400) < 0.6).astype(float).tolist()
    flipped = np.where(rng.random(400) < 0.1, 1 - np.array(large), large).tolist()
    groups, widths = {"both": EVEN}, []
    for shared in (False, True):
        docs = {
            "one": [f"d{i}" for i in range(400)],
            "two": [f"{'d' if shared and i == 0 else 'e'}{i}" for i in range(10)],
        }
        runs = [
            write_run(
                tmp_path / f"{shared}{name}",
                {"one": {"acc,none": values}, "two": {"acc,none": [1.0] * 10}},
                docs=docs,
                groups=groups,
            )
            for name, values in (("a", large), ("b", flipped))
        ]
        found = compare(*runs).row("both", "acc").difference.estimate
        widths.append(found.high - found.low)
    assert widths[1] == pytest.approx(widths[0], rel=0.05)
    assert widths[0] > 0.25
