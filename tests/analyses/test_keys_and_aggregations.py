"""What is known when a number is made travels with it: its filter's name, its aggregation, its direction."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.analyses.made import right, write_run
from tests.analyses.test_verbs import call, gate

from assay.analyses.compare import CompareOptions, compare_runs
from assay.evaluation import evaluate
from assay.finished import RUN_FORMATS, Run, RunFormat, open_run

FORMAT_1 = Path(__file__).parents[1] / "results" / "format1"
RNG = np.random.default_rng(11)
COMMA = "exact_match,strip, then first"
SCORES = {"t": {COMMA: right(RNG, 300, 0.9), "exact_match,raw": right(RNG, 300, 0.2)}}
GROUPS = {"all": {"key": COMMA, "children": {"t": 1.0}}}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name in ("base", "same"):
        write_run(tmp_path / name, SCORES, groups=GROUPS)
    return tmp_path


def test_a_comma_in_a_filters_name_stays_in_the_filters_name(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "compare", runs / "base", runs / "same", "--json", "--html", runs / "page.html")
    assert code == 0
    assert {(row["name"], row["metric"], row["filter"]) for row in json.loads(out)["rows"]} == {
        ("all", "exact_match", "strip, then first"),
        ("t", "exact_match", "strip, then first"),
        ("t", "exact_match", "raw"),
    }
    assert "exact_match (strip, then first)" in (runs / "page.html").read_text()


@pytest.mark.parametrize(
    ("metric", "filters"), [(COMMA, {"strip, then first"}), ("exact_match", {"strip, then first", "raw"})]
)
def test_metrics_under_such_a_filter_can_be_named(
    runs: Path, capsys: pytest.CaptureFixture[str], metric: str, filters: set[str]
) -> None:
    _, out, _ = call(capsys, "compare", runs / "base", runs / "same", "--json", "-m", metric, "-t", "t")
    assert {row["filter"] for row in json.loads(out)["rows"]} == filters


def test_gates_hold_such_numbers_with_and_without_their_name(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("gate", runs / "same", "--baseline", runs / "base", "--margin", "0.02", "--json")
    for named in ((), ("-m", "exact_match"), ("-m", COMMA)):
        code, out, err = call(capsys, *words, *named)
        assert code == 0, err
        checks = {(check["name"], check["key"]) for check in json.loads(out)["checks"]}
        assert {("t", COMMA), ("all", COMMA)} <= checks
    assert call(capsys, *words, "-m", "exact_match,strip")[0] == 2


def test_gates_against_a_results_file_hold_them_too(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = runs / "base" / "results.json"
    code, out, _ = gate(capsys, runs / "same", "--baseline", file, "--margin", "0.2", "-m", COMMA)
    assert (code, out.count("PASS")) == (0, 2)
    data = json.loads(file.read_text())
    (runs / "theirs.json").write_text(json.dumps({"results": data["results"]}))
    code, out, _ = gate(capsys, runs / "same", "--baseline", runs / "theirs.json", "--margin", "0.2")
    assert f"t {COMMA}: " in out


def test_thresholds_of_such_numbers(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    limits = runs / "limits.json"
    for content, expected in (({"t": {COMMA: 0.8}}, 0), ({"t": {"exact_match": 0.8}}, 1), ({"t": {COMMA: 0.99}}, 1)):
        limits.write_text(json.dumps(content))
        code, out, err = gate(capsys, runs / "same", "--baseline", limits)
        assert (code, err) == (expected, "")
        assert f"t {COMMA}: " in out
    words = (runs / "same", "--threshold", "0.8", "--tasks", "t", "--metric", COMMA)
    assert gate(capsys, *words)[0] == 0


def test_power_takes_the_metric_by_its_whole_name(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("power", "--effect", "0.05", "--from", runs / "base", "--json", "--metric", COMMA)
    (plan,) = json.loads(call(capsys, *words)[1])
    assert plan["metric"] == COMMA


# Aggregation

SKEWED = [0.0] * 60 + [0.2] * 11 + [5.0] * 50
MOVED = [value + 1.0 for value in SKEWED]
MEDIAN = {("t", "score,middle"): "median"}


def middle(path: Path, values: list[float], **options: object) -> Path:
    scores = {"t": {"score,middle": values}}
    return write_run(path, scores, reported={("t", "score,middle"): float(np.median(values))}, **options)  # type: ignore[arg-type]


def test_a_filters_own_median_is_compared_as_a_median_on_the_same_docs(tmp_path: Path) -> None:
    runs = [open_run(middle(tmp_path / n, v, aggregations=MEDIAN)) for n, v in (("a", SKEWED), ("b", MOVED))]
    row = compare_runs(runs)[0].row("t", "score")
    assert row is not None
    assert (row.paired, row.notes) == (True, ())
    assert (row.difference.a, row.difference.b) == pytest.approx((np.median(SKEWED), np.median(MOVED)))


def test_thresholds_hold_a_median_against_the_median(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = middle(tmp_path / "a", SKEWED, aggregations=MEDIAN)
    _, out, _ = call(capsys, "gate", run, "--threshold", "1", "--tasks", "t", "--json")
    (check,) = json.loads(out)["checks"]
    assert check["value"] == pytest.approx(float(np.median(SKEWED)))


def test_older_files_are_read_by_the_tasks_config(tmp_path: Path) -> None:
    configs = {"t": {"metric_list": [{"metric": "score", "aggregation": "median"}]}}
    runs = [open_run(middle(tmp_path / n, v, configs=configs)) for n, v in (("a", SKEWED), ("b", MOVED))]
    row = compare_runs(runs)[0].row("t", "score,middle")
    assert row is not None
    assert row.difference.a == pytest.approx(np.median(SKEWED))


TASK = """\
task: lengths
dataset_path: json
dataset_kwargs: {data_files: docs.jsonl}
test_split: train
output_type: generate_until
doc_to_text: "{{text}}"
doc_to_target: "{{text}}"
generation_kwargs: {until: ["."], max_gen_toks: 4}
filter_list:
  - name: strip, then first
    filter: [{function: take_first}]
    metric_list:
      - {metric: !function code.length, aggregation: median, higher_is_better: false}
metadata: {version: 1}
"""
CODE = """\
def length(references, predictions, **kwargs):
    return {"length": float(len(references[0]))}
"""


def test_a_run_records_the_median_of_a_filter_and_compare_repeats_it(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "lengths.yaml").write_text(TASK)
    (tmp_path / "tasks" / "code.py").write_text(CODE)
    lengths = [1, 2, 2, 3, 40, 50, 60]
    lines = [json.dumps({"text": "x" * n + str(i)}) for i, n in enumerate(lengths)]
    (tmp_path / "tasks" / "docs.jsonl").write_text("\n".join(lines))
    for name in ("a", "b"):
        evaluate(
            model="dummy",
            tasks=["lengths"],
            include_path=[str(tmp_path / "tasks")],
            include_defaults=False,
            run_dir=str(tmp_path / name),
            store=str(tmp_path / "store.sqlite"),
        )
    (found,) = compare_runs([open_run(tmp_path / name) for name in ("a", "b")])
    (row,) = found.rows
    assert row.key == ("length", "strip, then first")
    assert (row.difference.a, row.paired, row.notes) == (4.0, True, ())
    assert row.higher_is_better is False


def test_runs_of_earlier_versions_are_compared_with_present_ones(tmp_path: Path) -> None:
    older = open_run(FORMAT_1)
    present = tmp_path / "present"
    shutil.copytree(FORMAT_1, present)
    older.result.save(present)
    (found,) = compare_runs([older, open_run(present)])
    rows = {(row.name, row.filter): row for row in found.rows}
    assert ("strict", "strip, then first") in rows
    assert ("demo_capitals", "none") in rows
    assert all(row.paired and row.difference.estimate.value == 0.0 for row in found.rows)


# Direction


def test_each_filter_has_its_own_direction(tmp_path: Path) -> None:
    low, high = right(RNG, 300, 0.2), right(RNG, 300, 0.8)
    directions = {("t", "rate,wrong"): False, ("t", "rate,right"): True}
    for name, values in (("a", low), ("b", high)):
        write_run(tmp_path / name, {"t": {"rate,wrong": values, "rate,right": values}}, directions=directions)
    (found,) = compare_runs([open_run(tmp_path / "a"), open_run(tmp_path / "b")])
    verdicts = {row.filter: row.verdict.kind for row in found.rows if row.verdict is not None}
    assert verdicts == {"wrong": "worse", "right": "better"}


def test_gates_turn_with_the_direction_of_the_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directions = {("t", "rate,wrong"): False, ("t", "rate,right"): True}
    for name, share in (("a", 0.2), ("b", 0.8)):
        values = right(RNG, 300, share)
        write_run(tmp_path / name, {"t": {"rate,wrong": values, "rate,right": values}}, directions=directions)
    _, out, _ = call(capsys, "gate", tmp_path / "b", "--baseline", tmp_path / "a", "--json")
    passed = {check["key"]: check["result"]["passed"] for check in json.loads(out)["checks"]}
    assert passed == {"rate,wrong": False, "rate,right": True}


# Formats


def test_a_format_from_elsewhere_is_one_entry_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = write_run(tmp_path / "own", SCORES)
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "made.txt").write_text(str(own))

    def read(path: Path) -> Run:
        return open_run((path / "made.txt").read_text())

    monkeypatch.setattr(RUN_FORMATS, "_entries", dict(RUN_FORMATS._entries))
    RUN_FORMATS.add("made", RunFormat(lambda path: (path / "made.txt").is_file(), read))
    (found,) = compare_runs([open_run(own), open_run(tmp_path / "foreign")], CompareOptions(margin=0.05))
    assert {row.filter for row in found.rows} == {"strip, then first", "raw"}
