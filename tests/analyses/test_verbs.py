"""The verbs as people type them: what appears, and with which exit code."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.analyses.made import flipped, right, write_run
from tests.show.spoiled import write_tasks

from assay.cli.entry import main
from assay.evaluation import evaluate

RNG = np.random.default_rng(5)
BASE = {"easy": {"acc,none": right(RNG, 400, 0.8)}, "hard": {"acc,none": right(RNG, 400, 0.3)}}
BETTER = {name: {"acc,none": flipped(RNG, m["acc,none"], 0.3, 0.01)} for name, m in BASE.items()}
WORSE = {name: {"acc,none": flipped(RNG, m["acc,none"], 0.01, 0.3)} for name, m in BASE.items()}
GROUP = {"all": {"key": "acc,none", "children": {"easy": 0.5, "hard": 0.5}}}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for name, scores in (("base", BASE), ("better", BETTER), ("worse", WORSE)):
        write_run(tmp_path / name, scores, groups=GROUP, model=name)
    return tmp_path


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    shown = capsys.readouterr()
    return int(stop.value.code or 0), shown.out, shown.err


def gate(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """The checks of a gate, a line each, whatever a table would make of them."""
    code, out, err = call(capsys, "gate", *words, "--json")
    if not out:
        return code, out, err
    report = json.loads(out)
    words_of = {"passed": "PASS", "failed": "FAIL", "cannot tell": "CANNOT TELL"}
    lines = [
        f"{words_of[c['outcome']]}  {c['name']} {c['key']}".rstrip() + f": {c['reason']}" for c in report["checks"]
    ]
    return code, "\n".join([*lines, *(f"note: {note}" for note in report["notes"])]), err


def test_compare_prints_a_table_with_verdicts(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "compare", runs / "base", runs / "better")
    assert code == 0
    assert out.count("better") >= 4  # three rows and the title
    assert "corrected (Holm) over 3 rows" in out
    assert "mcnemar" in out


def test_compare_says_why_a_difference_has_no_interval(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A harmonic mean of accuracies near 0 is undefined in many replicates."""
    for name, seed in (("a", 0), ("b", 7)):
        arguments = {"seed": seed}
        evaluate(model="dummy", model_args=arguments, tasks=["demo_capitals"], limit=20, run_dir=str(tmp_path / name))
    _, out, _ = call(capsys, "compare", tmp_path / "a", tmp_path / "b")
    assert "no interval: undefined in" in " ".join(out.split())


def test_compare_lists_flipped_docs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "compare", runs / "base", runs / "worse", "--flips", "2", "-t", "hard")
    lost = int((np.array(WORSE["hard"]["acc,none"]) < np.array(BASE["hard"]["acc,none"])).sum())
    assert f"hard · acc · right → wrong: {lost} docs" in out
    assert f"… and {lost - 2} more" in out
    assert '{"question": "hard-' in out


def test_compare_writes_json_and_a_page(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = runs / "page.html"
    code, out, _ = call(capsys, "compare", runs / "base", runs / "better", runs / "worse", "--json", "--html", page)
    data = json.loads(out)
    assert code == 0
    assert [c["b"]["model"] for c in data["comparisons"]] == ["better", "worse"]
    html = page.read_text()
    assert html.count("<svg") == 6
    assert "no difference larger" not in html
    assert 'class="cell bad" data-of="verdict">worse<' in html
    assert "<script" not in html
    assert "http" not in html.replace("http-equiv", "")


def test_names_from_files_are_escaped_in_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = {"<b>task</b>[red]": BASE["easy"]}
    for name in ("a", "b"):
        write_run(tmp_path / name, scores, model="<i>model</i>[/]")
    code, out, _ = call(capsys, "compare", tmp_path / "a", tmp_path / "b", "--html", tmp_path / "page.html")
    assert code == 0
    assert "<i>model</i>[/]" in out
    assert "<b>task" not in (tmp_path / "page.html").read_text()


def test_compare_of_wrong_words(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "compare", runs / "base")[0] == 2
    code, _, err = call(capsys, "compare", runs / "base", runs / "nowhere")
    assert code == 2
    assert "does not exist" in err
    assert call(capsys, "compare", runs / "base", runs / "better", "--margin", "0")[0] == 2


def test_gate_against_a_run(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "gate", runs / "better", "--baseline", runs / "base", "--margin", "0.01")
    assert code == 0
    assert out.count("PASS") == 3
    assert "gate passed" in out
    code, out, _ = call(capsys, "gate", runs / "worse", "--baseline", runs / "base", "--tasks", "all")
    assert code == 1
    assert re.search(r"FAIL +all +acc,none", out)
    assert "gate FAILED (1 of 1 checks)" in out
    assert "error rate 0.05" in out


def test_gate_fails_where_nothing_can_be_shown(tmp_path: Path, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = {"hard": [f"other {i}" for i in range(400)]}
    write_run(tmp_path / "asked", BETTER, prompts=prompts)
    code, out, _ = gate(capsys, tmp_path / "asked", "--baseline", runs / "base")
    assert code == 1
    assert "FAIL  hard: prompts differ on 400 of 400 docs in common" in out
    write_run(tmp_path / "few", {"easy": {"acc,none": [1.0, 1.0]}}, docs={"easy": ["easy-0", "easy-1"]})
    code, out, _ = call(capsys, "gate", tmp_path / "few", "--baseline", tmp_path / "few")
    assert code == 4
    assert re.search(r"CANNOT TELL +easy +acc,none +1.0000 +1.0000", out)
    assert re.search(r"about [0-9,]+ docs would decide it", " ".join(out.split()))
    assert "gate CANNOT TELL (1 of 1 checks)" in out
    for choice, expected in (("pass", 0), ("fail", 1)):
        words = ("gate", tmp_path / "few", "--baseline", tmp_path / "few", "--cannot_tell", choice)
        assert call(capsys, *words)[0] == expected


def test_a_gate_that_fails_one_check_fails_though_others_cannot_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(3)
    good = right(rng, 400, 0.9)
    few = {"acc,none": good[:30]}
    write_run(tmp_path / "base", {"big": {"acc,none": good}, "small": few})
    write_run(tmp_path / "new", {"big": {"acc,none": right(rng, 400, 0.5)}, "small": few})
    code, out, _ = call(capsys, "gate", tmp_path / "new", "--baseline", tmp_path / "base", "--cannot_tell", "pass")
    assert code == 1
    assert re.search(r"FAIL +big +acc,none", out)
    assert re.search(r"CANNOT TELL +small +acc,none", out)
    assert "gate FAILED (1 of 2 checks)" in out
    code, out, _ = call(capsys, "gate", tmp_path / "new", "--baseline", tmp_path / "base", "-t", "small", "--json")
    report = json.loads(out)
    assert (code, report["outcome"], report["passed"]) == (4, "cannot tell", False)


def test_gate_against_thresholds(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    share = float(np.mean(BASE["easy"]["acc,none"]))
    for limit, expected in ((share - 0.06, 0), (share - 0.01, 4), (share + 0.1, 1)):
        code, out, _ = call(capsys, "gate", runs / "base", "--threshold", limit, "--tasks", "easy")
        assert code == expected
        assert f"threshold {limit:g}" in out
    file = runs / "limits.json"
    file.write_text(json.dumps({"easy": {"acc": 0.5}, "hard": 0.9, "all": {"acc,none": 0.45}}))
    code, out, _ = call(capsys, "gate", runs / "base", "--baseline", file, "--json")
    checks = {c["name"]: c["result"]["passed"] for c in json.loads(out)["checks"]}
    assert (code, checks) == (1, {"easy": True, "hard": False, "all": True})


def test_gate_against_a_results_file_adds_the_errors(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = runs / "published.json"
    entry = {"alias": "easy", "acc,none": 0.5, "acc_stderr,none": 0.02, "sample_len": 400}
    file.write_text(json.dumps({"results": {"easy": entry}}))
    code, out, _ = gate(capsys, runs / "base", "--baseline", file)
    assert code == 0
    assert "unpaired" in out
    file.write_text(json.dumps({"results": {"other": entry}}))
    assert call(capsys, "gate", runs / "base", "--baseline", file)[0] == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[1]", "is not a JSON object"),
        ("{}", "no thresholds"),
        ('{"easy": "high"}', "not a number"),
        ('{"eazy": 0.5}', "no task or group"),
        ('{"easy": {"f1": 0.5}}', "no metric"),
    ],
)
def test_gate_with_a_bad_baseline_file(
    runs: Path, capsys: pytest.CaptureFixture[str], content: str, words: str
) -> None:
    (runs / "bad.json").write_text(content)
    code, _, err = call(capsys, "gate", runs / "base", "--baseline", runs / "bad.json")
    assert code == 2
    assert words in err


def test_gate_needs_something_to_hold_against(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "gate", runs / "base")
    assert code == 2
    assert "--baseline or --threshold" in err
    assert "--tasks" in call(capsys, "gate", runs / "base", "--threshold", "0.5")[2]
    code, _, err = call(capsys, "gate", runs / "base", "--baseline", runs / "gone")
    assert code == 2
    assert "does not exist" in err


def test_power_from_two_runs_uses_their_differences(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("power", "--effect", "0.02", "--from", runs / "base", "--from", runs / "better", "--json")
    code, out, _ = call(capsys, *words)
    plan = {p["task"]: p for p in json.loads(out)}["hard"]
    d = np.array(BETTER["hard"]["acc,none"]) - np.array(BASE["hard"]["acc,none"])
    assert code == 0
    assert plan["noise"]["between"] == pytest.approx(d.var(ddof=1), rel=0.02)
    assert plan["needed"] == pytest.approx(7.849 * d.var(ddof=1) / 0.02**2, rel=0.03)
    assert plan["n"] == 400
    assert plan["detectable"] == pytest.approx(2.8016 * d.std(ddof=1) / 20, rel=0.02)


def test_power_with_repeats_splits_the_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(2, 2, 3000)
    scores = {"t": {"acc,none": (rng.binomial(4, p) / 4).tolist()}}
    for name in "ab":
        draws = {"t": {"acc,none": (rng.binomial(4, p) / 4).tolist()}}
        write_run(tmp_path / name, draws if name == "b" else scores, configs={"t": {"repeats": 4}})
    _, out, _ = call(capsys, "power", "--effect", "0.02", "--from", tmp_path / "a", "--from", tmp_path / "b", "--json")
    (plan,) = json.loads(out)
    assert plan["noise"]["within_a"] == pytest.approx(float((p * (1 - p)).mean()), rel=0.05)
    assert plan["noise"]["between"] < 0.01  # the runs differ by draws only
    assert plan["repeats"] >= 1


def test_power_without_runs_says_what_it_assumes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "power", "--tasks", "demo_agreement", "--effect", "0.05")
    assert code == 0
    assert "correlation 0.5" in out
    assert "785" in out  # (1.96 + 0.84)² · 2 · (1 − 0.5) · 0.25 / 0.05²
    assert "120" in out
    assert "no tasks given" in call(capsys, "power", "--effect", "0.05")[2]


def test_power_from_a_run_without_that_task(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "power", "--effect", "0.02", "--from", runs / "base", "--tasks", "hardd")
    assert code == 2
    assert "Did you mean hard?" in err


def test_sweep_crosses_wordings_and_shots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "sweep",
        "--model",
        "dummy",
        "--tasks",
        "demo_agreement",
        "--styles",
        "mc,cloze",
        "--shots",
        "0,2",
        "--seeds",
        "2",
    )
    kept = ("--limit", "30", "--run_dir", tmp_path / "sweep", "--store", tmp_path / "store.sqlite")
    code, out, _ = call(capsys, *words, *kept, "--json")
    (task,) = json.loads(out)
    assert code == 0
    assert (task["docs"], len(task["conditions"])) == (30, 8)
    assert sum(task["shares"].values()) == pytest.approx(1.0)
    scores = [c["value"] for c in task["conditions"]]
    assert task["low"] == pytest.approx(min(scores))
    assert task["high"] == pytest.approx(max(scores))
    zero_shot = [c["value"] for c in task["conditions"] if c["shots"] == 0 and c["style"] == "mc"]
    assert zero_shot[0] == zero_shot[1]  # no examples, nothing to draw
    code, out, _ = call(capsys, *words, *kept)
    assert "source of variance" in out
    assert "Scores range from" in out


def test_sweep_with_wrong_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "sweep", "--model", "dummy", "--tasks", "demo_agreement", "--shots", "few")
    assert code == 2
    assert "'few' is not a whole number" in err


def swept(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: object) -> list[dict[str, object]]:
    kept = ("--run_dir", tmp_path / "sweep", "--store", tmp_path / "store.sqlite", "--json")
    code, out, err = call(capsys, "sweep", "--model", "dummy", *words, *kept)
    assert code == 0, err
    found: list[dict[str, object]] = json.loads(out)
    return found


def test_sweep_of_a_group_looks_at_its_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = swept(capsys, tmp_path, "--tasks", "demo_grammar", "--shots", "0,1", "--limit", "10")
    assert [task["task"] for task in found] == ["demo_agreement", "demo_reflexives"]


def test_sweep_takes_a_task_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tasks(tmp_path)
    (task,) = swept(capsys, tmp_path, "--tasks", tmp_path / "one.yaml", "--shots", "0,1")
    assert (task["task"], task["docs"]) == ("one", 8)


def test_sweep_counts_num_fewshot_as_its_shots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--tasks", "demo_agreement", "--styles", "mc,cloze", "--num_fewshot", "1", "--limit", "10")
    (task,) = swept(capsys, tmp_path, *words)
    assert {c["shots"] for c in task["conditions"]} == {1}  # type: ignore[attr-defined]
    code, _, err = call(capsys, "sweep", "--model", "dummy", *words, "--shots", "0")
    assert code == 2
    assert "--num_fewshot" in err


def test_sweep_finds_a_variant_that_cannot_be_before_asking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("sweep", "--model", "dummy", "--tasks", "demo_agreement,demo_addition", "--styles", "mc")
    code, _, err = call(capsys, *words, "--run_dir", tmp_path / "sweep")
    assert code == 2
    assert "demo_addition has no choices" in err
    assert not (tmp_path / "sweep").exists()
