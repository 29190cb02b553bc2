"""A gate fails closed: what is withheld, undefined or missing has not been shown to be good enough."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.analyses.made import right, write_run
from tests.analyses.test_verbs import call, gate

RNG = np.random.default_rng(8)
GOOD = right(RNG, 400, 0.9)
SCORES = {"easy": {"acc,none": GOOD, "acc_norm,none": right(RNG, 400, 0.2)}, "hard": {"acc,none": GOOD}}
GROUP = {"all": {"key": "acc,none", "children": {"easy": 0.5, "hard": 0.5}}}
REASON = "50.0% failed, more than the 10.0% allowed"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "base", SCORES, groups=GROUP)
    write_run(tmp_path / "same", SCORES, groups=GROUP)
    write_run(tmp_path / "spoiled", SCORES, groups=GROUP, withheld={"easy": REASON})
    return tmp_path


def results_file(path: Path, **tasks: dict[str, object]) -> Path:
    entries = {name: {"alias": name, "sample_len": 400, **entry} for name, entry in tasks.items()}
    path.write_text(json.dumps({"results": entries}))
    return path


def test_a_withheld_score_fails_a_threshold_and_so_does_the_group_above_it(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = gate(capsys, runs / "spoiled", "--threshold", "0.1", "--tasks", "easy,all,hard", "-m", "acc")
    assert code == 1
    assert f"FAIL  easy acc,none: withheld: {REASON}" in out
    assert "FAIL  all acc,none: withheld: includes withheld scores: easy" in out
    assert "PASS  hard acc,none" in out


@pytest.mark.parametrize(
    ("new", "base", "words"), [("spoiled", "same", "withheld: "), ("same", "spoiled", "withheld in the baseline: ")]
)
def test_a_withheld_score_on_either_side_fails_against_a_run(
    runs: Path, capsys: pytest.CaptureFixture[str], new: str, base: str, words: str
) -> None:
    code, out, _ = gate(capsys, runs / new, "--baseline", runs / base)
    assert code == 1
    assert f"FAIL  easy acc,none: {words}{REASON}" in out
    assert f"FAIL  all acc,none: {words}includes withheld scores" in out


def test_a_withheld_score_fails_against_a_results_file(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = results_file(runs / "old.json", easy={"acc,none": 0.1, "acc_stderr,none": 0.01})
    assert call(capsys, "gate", runs / "same", "--baseline", file)[0] == 0
    code, out, _ = gate(capsys, runs / "spoiled", "--baseline", file)
    assert code == 1
    assert f"FAIL  easy acc,none: withheld: {REASON}" in out


def test_a_task_or_metric_that_only_the_baseline_has_fails(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(runs / "lacks", {"hard": SCORES["hard"]})
    file = results_file(runs / "old.json", hard={"acc,none": 0.1, "acc_stderr,none": 0.01}, easy={"acc,none": 0.1})
    for baseline in (file, runs / "base"):
        code, out, _ = gate(capsys, runs / "lacks", "--baseline", baseline)
        assert code == 1
        assert "PASS  hard acc,none" in out
        assert "FAIL  easy" in out
    write_run(runs / "one", {"easy": {"acc,none": GOOD}, "hard": SCORES["hard"]}, groups=GROUP)
    code, out, _ = gate(capsys, runs / "one", "--baseline", runs / "base")
    assert code == 1
    assert "FAIL  easy: acc_norm,none is only in the baseline" in out


def test_an_undefined_number_fails_unless_the_baseline_has_none_either(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    no_number = {"all": {"key": "acc,none", "children": {}, "value": None, "undefined": "easy was not scored"}}
    write_run(runs / "undefined", SCORES, groups=no_number)
    file = results_file(runs / "old.json", all={"acc,none": 0.1, "acc_stderr,none": 0.01})
    code, out, _ = gate(capsys, runs / "undefined", "--baseline", file)
    assert code == 1
    assert "FAIL  all acc,none: undefined: easy was not scored" in out
    code, out, _ = gate(capsys, runs / "undefined", "--threshold", "0.1", "-t", "all")
    assert code == 1
    assert "undefined: easy was not scored" in out
    file = results_file(runs / "old.json", all={"acc,none": "N/A"}, hard={"acc,none": 0.1, "acc_stderr,none": 0.01})
    code, out, _ = gate(capsys, runs / "undefined", "--baseline", file)
    assert code == 0
    assert "note: all acc,none: undefined in the baseline" in out


def test_every_metric_that_is_named_is_checked(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (runs / "same", "--threshold", "0.5", "--tasks", "easy")
    code, out, _ = gate(capsys, *words, "-m", "acc", "-m", "acc_norm")
    assert code == 1
    assert "PASS  easy acc,none" in out
    assert "FAIL  easy acc_norm,none" in out
    code, out, _ = gate(capsys, *words)
    assert code == 0
    assert "note: easy: acc,none was checked, but not acc_norm,none" in out


def test_a_metric_that_no_one_has_is_a_wrong_word(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "gate", runs / "same", "--baseline", runs / "base", "-m", "acc", "-m", "acc_nrom")
    assert code == 2
    assert "Did you mean acc_norm?" in err
    assert call(capsys, "gate", runs / "same", "--baseline", runs / "base", "-t", "hard", "-m", "acc_norm")[0] == 2


def test_compare_says_what_is_withheld(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "compare", runs / "base", runs / "spoiled", "--json")
    notes = {row["name"]: row["notes"] for row in json.loads(out)["rows"] if row["metric"] == "acc"}
    assert notes["easy"] == [f"B is withheld: {REASON}"]
    assert notes["all"] == ["B is withheld: includes withheld scores: easy"]
    assert notes["hard"] == []
