"""Every verb that takes a run takes a run of every format, or says which part the format lacks and exits with 2."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.analyses.made import write_run
from tests.analyses.test_verbs import call
from tests.finished.test_genuine import GENUINE

from assay.finished import RUN_FORMATS, open_run
from assay.view.library import Library
from assay.view.queries import SampleQuery
from assay.view.site import Site

GOOD, BAD = [1.0, 1.0, 1.0, 0.0] * 6, [0.0, 1.0, 0.0, 0.0] * 6


def make_table(path: Path, scores: list[float]) -> Path:
    path.mkdir()
    rows = "".join(f"{path.name},d{i},{score}\n" for i, score in enumerate(scores))
    (path / "scores.csv").write_text(f"run,doc,score\n{rows}")
    return path / "scores.csv"


def copy_genuine(harness: str) -> Callable[[Path, list[float]], Path]:
    """What the harness itself wrote for these scores."""

    def copy(path: Path, scores: list[float]) -> Path:
        shutil.copytree(GENUINE / harness / {True: "good", False: "bad"}[scores == GOOD], path)
        return path

    return copy


MAKERS: dict[str, tuple[Callable[[Path, list[float]], Path], str, str]] = {
    "assay": (lambda path, scores: write_run(path, {"t": {"acc,none": scores}}), "t", "acc,none"),
    "lm-eval": (copy_genuine("lmeval"), "sums", "exact_match,strict"),
    "lm-eval 0.5": (copy_genuine("lmeval05"), "sums", "exact_match,strict"),
    "harbor": (copy_genuine("harbor"), "adhoc", "reward,none"),
    "inspect": (copy_genuine("inspect"), "sums", "match,none"),
    "nemo-evaluator": (copy_genuine("nemo"), "sums", "reward,none"),
    "lighteval": (copy_genuine("lighteval"), "sums|0", "em,none"),
    "eee": (copy_genuine("eee"), "sums", "accuracy,none"),
    "eval-framework": (copy_genuine("evalframework"), "Sums", "Accuracy Completion,none"),
    "openai-evals": (copy_genuine("openai"), "sums", "accuracy,none"),
    "verifiers": (copy_genuine("verifiers"), "verifiers_logs", "reward,none"),
    "table": (make_table, "scores", "score,none"),
}


@pytest.fixture(params=MAKERS)
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, Path, str, str]:
    make, task, metric = MAKERS[request.param]
    return request.param, make(tmp_path / "good", GOOD), make(tmp_path / "bad", BAD), task, metric


Runs = tuple[str, Path, Path, str, str]
Capture = pytest.CaptureFixture[str]


def as_json(capsys: Capture, *arguments: object, code: int = 0) -> Any:
    found, out, err = call(capsys, *arguments)
    assert found == code, err
    return json.loads(out)


def test_makers_cover_every_format_that_is_read() -> None:
    assert set(MAKERS) - {"lm-eval 0.5"} == {name for name in RUN_FORMATS if RUN_FORMATS[name].read is not None}


def test_compare(runs: Runs, capsys: Capture) -> None:
    _, good, bad, task, metric = runs
    found = as_json(capsys, "compare", good, bad, "--tasks", task, "--metric", metric, "--json")
    (row,) = found["comparisons"][0]["rows"] if "comparisons" in found else found["rows"]
    assert (row["name"], row["lost"], row["gained"]) == (task, 12, 0)
    assert call(capsys, "compare", good, bad, "--tasks", task, "--flips", "2")[0] == 0


def test_rank(runs: Runs, capsys: Capture) -> None:
    _, good, bad, task, metric = runs
    found = as_json(capsys, "rank", bad, good, "--tasks", task, "--metric", metric, "--json")["rankings"][0]
    assert [run["score"] for run in found["runs"]] == [0.75, 0.25]


def test_gate(runs: Runs, capsys: Capture) -> None:
    _, good, bad, task, metric = runs
    words = ("--tasks", task, "--metric", metric, "--json")
    assert as_json(capsys, "gate", bad, "--baseline", good, *words, code=1)["outcome"] == "failed"
    assert as_json(capsys, "gate", good, "--threshold", "0.5", *words)["outcome"] == "passed"


def test_ci_takes_it_as_a_baseline_or_says_that_it_is_on_other_docs(
    runs: Runs, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, good, _, task, _ = runs
    monkeypatch.chdir(tmp_path)
    its_own = name.startswith("lm-eval")
    data = GENUINE / "lmeval/sums.jsonl" if its_own else tmp_path / "docs.jsonl"
    (tmp_path / "docs.jsonl").write_text('{"n": 1, "answer": "s2"}\n' * 2)
    own = yaml.safe_load((GENUINE / "lmeval/sums.yaml").read_text())
    (tmp_path / "own.yaml").write_text(
        json.dumps({**own, "task": task, "dataset_kwargs": {"data_files": {"test": str(data)}}})
    )
    rule = "any task: not worse than 0.9"
    models = [{"name": "small", "model": "dummy"}]
    file = {"models": models, "tasks": ["own.yaml"], "baseline": str(good), "rules": [rule], "budget": {"docs": 24}}
    (tmp_path / "assay.yaml").write_text(json.dumps(file))
    code, out, err = call(capsys, "ci", "--json")
    if its_own:
        assert (code, json.loads(out)["outcome"]) == (0, "passed"), err
    else:
        assert (code, "none of the docs" in err, str(good) in err) == (2, True, True), err


def test_power(runs: Runs, capsys: Capture) -> None:
    _, good, bad, task, metric = runs
    words = ("--from", good, "--from", bad, "--tasks", task, "--metric", metric, "--effect", "0.1", "--json")
    (plan,) = as_json(capsys, "power", *words)
    assert plan["n"] == 24


def test_explain(runs: Runs, capsys: Capture) -> None:
    _, good, bad, task, metric = runs
    found = as_json(capsys, "explain", good, bad, "--task", task, "--metric", metric, "--json")
    assert found["difference"] == pytest.approx(-0.5)


def test_agreement(runs: Runs, capsys: Capture) -> None:
    name, good, *_ = runs
    if name.startswith("lm-eval"):  # which has two filters
        (both,) = as_json(capsys, "agreement", good, "--tasks", "sums", "--json")
        assert (both["between"], both["value"]) == ("strict / flexible", 1.0)
    else:
        assert call(capsys, "agreement", good)[0] == 2


def test_report(runs: Runs, capsys: Capture, tmp_path: Path) -> None:
    _, good, *_ = runs
    for ending in ("txt", "md", "tex", "csv", "html", "json"):
        code, _, err = call(capsys, "report", good, "-o", tmp_path / f"out.{ending}")
        assert code == 0, err
        assert "0.75" in (tmp_path / f"out.{ending}").read_text()


@pytest.mark.parametrize("to", ["assay", "lm-eval", "inspect", "csv", "jsonl", "parquet", "eee", "harbor"])
def test_export(runs: Runs, capsys: Capture, to: str, tmp_path: Path) -> None:
    _, good, _, task, _ = runs
    code, out, err = call(capsys, "export", good, "--to", to, "-o", tmp_path / "out")
    assert code == 0, err
    if to == "assay":
        assert "0.75" in out
    else:
        assert all(Path(line).stat().st_size for line in out.splitlines())
    if RUN_FORMATS[to].read is not None:
        again = open_run(tmp_path / "out")
        values = {round(float(c.values.mean()), 9) for c in again.columns(task).values() if c.is_numeric}
        assert 0.75 in values


def test_import(runs: Runs, capsys: Capture, tmp_path: Path) -> None:
    _, good, *_ = runs
    code, out, err = call(capsys, "import", good, "--run_dir", tmp_path / "run")
    assert code == 0, err
    assert "0.75" in out


def test_seal_and_judges_say_what_is_missing(runs: Runs, capsys: Capture) -> None:
    _, good, *_ = runs
    for words, said in (
        (("seal", good), "cannot be sealed"),
        (("judge", "check", good), "no judged scores"),
        (("judge", "scale", good), "judged in pairs"),
    ):
        code, _, err = call(capsys, *words)
        assert (code, said in err) == (2, True), err


@pytest.mark.parametrize("as_file", [True, False])
def test_the_viewer_lists_and_opens_it(runs: Runs, tmp_path: Path, as_file: bool, capsys: Capture) -> None:
    name, good, _, task, metric = runs
    if name == "table":
        assert call(capsys, "view", good, "--no-open")[0] == 2
        return
    scratch = tmp_path / "scratch"
    place = next((file for file in good.glob("*.eval")), good) if as_file else good
    site = Site([place], scratch)
    (run,) = site.library.runs()
    summary = site.library.summary(run)
    assert (summary.problem, task in summary.tasks) == (None, True)
    assert not [*scratch.rglob("*.parquet")], "a summary needs only scores"
    result = site.library.results(run)
    assert result is not None
    assert {key.metric: score.estimate.value for key, score in result.tasks[task].scores.items()}[
        metric.partition(",")[0]
    ] == pytest.approx(0.75)
    path = site.library.sample_file(run, task)
    assert path is not None
    page = site.samples.page(site.samples.open(path), SampleQuery(only="wrong", metric=metric.partition(",")[0]))
    assert page.total == 6 * (2 if name.startswith("lm-eval") else 1)
    site.close()


def test_results_without_samples_are_a_baseline_and_a_report_and_nothing_else(tmp_path: Path, capsys: Capture) -> None:
    bare = copy_genuine("lmeval")(tmp_path / "bare", GOOD)
    for file in bare.rglob("samples_*"):
        file.unlink()
    other = copy_genuine("lmeval")(tmp_path / "other", BAD)
    for words in (("compare", bare, other), ("rank", bare, other), ("explain", bare, other), ("agreement", bare)):
        code, _, err = call(capsys, *words)
        assert (code, "has no samples" in err, "--log_samples" in err) == (2, True, True), err
    for to in ("csv", "jsonl", "inspect"):
        assert call(capsys, "export", bare, "--to", to, "-o", tmp_path / "out")[0] == 2
    words = ("--tasks", "sums", "--metric", "exact_match,strict", "--json")
    report = as_json(capsys, "gate", other, "--baseline", bare, *words, code=1)
    assert "only scores" in str(report["notes"])
    assert "0.75" in call(capsys, "report", bare, "--format", "md")[1]


def test_links_out_of_the_directory_are_not_followed(tmp_path: Path) -> None:
    outside = copy_genuine("lmeval")(tmp_path / "outside", GOOD)
    inside = tmp_path / "inside"
    inside.mkdir()
    (log,) = (GENUINE / "inspect/good").glob("*.eval")
    (inside / "log.eval").symlink_to(log)
    (results,) = outside.rglob("results_*")
    shutil.copy(results, inside)
    for file in outside.rglob("samples_*"):
        (inside / file.name).symlink_to(file)
    library = Library([inside], tmp_path / "scratch")
    (run,) = library.runs()
    assert "leads out of inside" in str(library.summary(run).problem)
