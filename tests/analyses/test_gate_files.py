"""What a gate writes beside its exit code: a comment, JUnit XML, annotations."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
from tests.analyses.made import right, write_run
from tests.analyses.test_verbs import call, gate

from assay.analyses.compare import COMPARISON_SCHEMA
from assay.analyses.gate import GATE_SCHEMA

RNG = np.random.default_rng(3)
GOOD = right(RNG, 600, 0.9)
FEW = right(RNG, 12, 0.5)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "base", {"easy": {"acc,none": GOOD}, "hard|<b>": {"acc,none": GOOD}, "few": {"acc,none": FEW}})
    worse = [0.0] * 300 + list(GOOD[300:])
    few = [1.0 - FEW[0], *FEW[1:]]
    write_run(tmp_path / "new", {"easy": {"acc,none": GOOD}, "hard|<b>": {"acc,none": worse}, "few": {"acc,none": few}})
    return tmp_path


def test_the_comment_says_the_verdict_the_numbers_and_which_docs_are_newly_wrong(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--markdown", runs / "comment.md", "--link", "https://ci.example/7")
    code, *_ = call(capsys, "gate", runs / "new", "--baseline", runs / "base", "--margin", "0.02", *words)
    assert code == 1
    lines = (runs / "comment.md").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("### ❌ ")
    assert lines[0].endswith(": failed")
    assert lines[2].startswith("gate FAILED (1 of 3 checks)")
    rows = [line.split(" | ")[:2] for line in lines if line.startswith(("| ❌", "| ❔", "| ✅"))]
    assert rows == [["| ❌ FAIL", r"hard\|\<b\>"], ["| ❔ CANNOT TELL", "few"], ["| ✅ PASS", "easy"]]
    lost = sum(GOOD[:300])
    assert f"<details><summary>hard|&lt;b&gt;: {lost:.0f} docs newly wrong, 0 newly right</summary>" in "\n".join(lines)
    assert lines[-1] == "[All of it](https://ci.example/7)"
    assert sum(bool(re.match(r"\| \d+ \|", line)) for line in lines) == 5 + (FEW[0] == 1)


def test_docs_that_are_newly_wrong_under_two_metrics_are_listed_once_with_the_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = [1.0] * 100 + [0.0] * 500
    write_run(tmp_path / "base", {"easy": {"acc,none": GOOD, "acc_norm,none": GOOD, "f1,none": [1.0] * 600}})
    bad = [0.0] * 600
    write_run(tmp_path / "new", {"easy": {"acc,none": bad, "acc_norm,none": bad, "f1,none": other}})
    call(capsys, "gate", tmp_path / "new", "--baseline", tmp_path / "base", "--markdown", tmp_path / "comment.md")
    lines = (tmp_path / "comment.md").read_text(encoding="utf-8").splitlines()
    heads = [line for line in lines if line.startswith("<details>")]
    assert [head.split(": ")[0] for head in heads] == [
        "<details><summary>easy acc,none and acc_norm,none",
        "<details><summary>easy f1,none",
    ]
    assert sum(bool(re.match(r"\| \d+ \|", line)) for line in lines) == 10


def test_junit_has_a_case_a_check_and_tells_failures_from_what_cannot_be_told(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--margin", "0.02", "--junit", runs / "gate.xml")
    call(capsys, "gate", runs / "new", "--baseline", runs / "base", *words)
    suite = ElementTree.parse(runs / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    outcomes = {case.get("classname"): [child.tag for child in case if child.tag != "properties"] for case in suite}
    assert outcomes == {"easy": [], "hard|<b>": ["failure"], "few": ["error"]}
    message = suite.find("testcase/failure")
    assert message is not None
    assert "FAIL  hard|<b> acc,none: " in (message.get("message") or "")


def test_a_workflow_of_github_gets_annotations_and_a_summary(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(runs / "summary.md"))
    _, out, err = call(capsys, "gate", runs / "new", "--baseline", runs / "base", "--margin", "0.02")
    commands = [line for line in (out + err).splitlines() if line.startswith("::")]
    heads = {line.split("::")[1] for line in commands}
    assert heads == {"error title=hard|<b> acc%2Cnone", "warning title=few acc%2Cnone"}
    assert "95%25 bound" in commands[0]
    assert (runs / "summary.md").read_text(encoding="utf-8").startswith("### ❌")


def test_elsewhere_nothing_is_annotated(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    _, out, err = call(capsys, "gate", runs / "new", "--baseline", runs / "base", "--margin", "0.02")
    assert "::" not in out + err


def test_a_comparison_writes_a_comment_and_junit_too(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--markdown", runs / "c.md", "--junit", runs / "c.xml", "--link", "https://ci.example/8")
    code, *_ = call(capsys, "compare", runs / "base", runs / "new", *words)
    assert code == 0
    comment = (runs / "c.md").read_text(encoding="utf-8")
    assert re.search(r"\| hard\\\|\\<b\\> \|.*\| ❌ worse \|", comment)
    assert "docs newly wrong" in comment
    assert comment.endswith("[All of it](https://ci.example/8)\n")
    suite = ElementTree.parse(runs / "c.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    tags = {case.get("classname"): [child.tag for child in case if child.tag != "properties"] for case in suite}
    assert tags["few"] in ([], ["skipped"])


def test_a_comparison_writes_json_that_its_schema_describes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--report", runs / "c.json", "--link", "https://ci.example/8")
    code, *_ = call(capsys, "compare", runs / "base", runs / "new", runs / "base", *words)
    assert code == 0
    found = json.loads((runs / "c.json").read_text(encoding="utf-8"))
    code, out, _ = call(capsys, "schema", "compare")
    jsonschema.Draft202012Validator.check_schema(json.loads(out))
    jsonschema.validate(found, json.loads(out))
    assert [len(each["rows"]) for each in found["comparisons"]] == [3, 3]
    verdicts = {row["name"]: row["verdict"] for row in found["comparisons"][0]["rows"]}
    assert verdicts["hard|<b>"] == "worse"
    found["comparisons"][0]["rows"][0]["verdict"] = "splendid"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, COMPARISON_SCHEMA)


def test_a_flag_of_one_format_writes_it_whatever_the_file_is_called(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--markdown", runs / "comment", "--junit", runs / "results.txt")
    call(capsys, "gate", runs / "new", "--baseline", runs / "base", *words)
    assert (runs / "comment").read_text(encoding="utf-8").startswith("### ")
    assert (runs / "results.txt").read_text(encoding="utf-8").startswith("<?xml")


def test_a_gate_writes_json_that_its_schema_describes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "gate", runs / "new", "--baseline", runs / "base", "--report", runs / "g.json")
    found = json.loads((runs / "g.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(GATE_SCHEMA)
    jsonschema.validate(found, GATE_SCHEMA)
    assert {check["outcome"] for check in found["checks"]} == {"failed", "cannot tell", "passed"}


def test_a_comparison_is_annotated_where_a_build_system_is_around(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, err = call(capsys, "compare", runs / "base", runs / "new")
    assert "::" not in out + err
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(runs / "summary.md"))
    monkeypatch.setenv("GITLAB_CI", "true")
    monkeypatch.setenv("CI_PROJECT_DIR", str(runs))
    code, out, err = call(capsys, "compare", runs / "base", runs / "new")
    assert code == 0
    commands = [line for line in err.splitlines() if line.startswith("::")]
    assert [line.split("::")[1] for line in commands] == ["warning title=hard|<b> acc%2Cnone"]
    assert "❌ worse" in (runs / "summary.md").read_text(encoding="utf-8")
    (entry,) = json.loads((runs / "gl-code-quality-report.json").read_text(encoding="utf-8"))
    assert entry["severity"] == "minor"
    assert entry["description"].startswith("hard|<b> acc,none: worse")


def test_one_doc_and_a_task_that_is_missing_are_said_in_words_that_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "base", {"one": {"acc,none": [1.0]}, "gone": {"acc,none": GOOD}})
    write_run(tmp_path / "new", {"one": {"acc,none": [1.0]}})
    _, out, _ = gate(capsys, tmp_path / "new", "--baseline", tmp_path / "base")
    assert re.search(r"CANNOT TELL +one acc,none: 1\.0000 vs 1\.0000 \(n = 1, paired\)", out)
    assert "1 doc\n" in out, "not 1 docs"
    assert re.search(r"FAIL +gone:", out)


def test_answers_are_shown_as_the_filter_of_the_row_left_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = {"exact_match,strict": GOOD, "exact_match,loose": GOOD}
    write_run(tmp_path / "base", {"sums": scores})
    write_run(tmp_path / "new", {"sums": {key: [0.0] * 600 for key in scores}})
    words = (tmp_path / "base", tmp_path / "new", "--flips", "1", "--markdown", tmp_path / "comment.md")
    _, out, _ = call(capsys, "compare", *words)
    assert "sums · exact_match (strict) · right → wrong" in out
    strict, loose = out.split("sums · exact_match (loose)")
    assert ("by strict  by strict" in strict, "by loose  by loose" in loose) == (True, True)
    comment = (tmp_path / "comment.md").read_text(encoding="utf-8")
    assert comment.count("by loose | by loose") == comment.count("by strict | by strict") == 1
