"""`assay ci` with budgets of minutes and cost, several models, several tasks, and a noise file."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.analyses.test_ci import MODEL, TASK
from tests.analyses.test_verbs import call
from tests.models.openai.faulty_server import FaultyServer

from assay.analyses.ci import execution
from assay.analyses.noise_file import NoiseFile, ScoreNoise
from assay.finished import open_run

SLOW = MODEL.replace("found = []", "found = []\n        open('clock', 'a').write('x' * len(requests))")
"""Every request takes a second of a clock that the test reads: two a doc."""
QUESTIONS = """
task: questions
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{q}}"
generation_kwargs: {until: ["."], max_gen_toks: 8}
metric_list: [{metric: exact_match}]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    (tmp_path / "skilled.py").write_text(SLOW)
    (tmp_path / "colours.yaml").write_text(TASK)
    (tmp_path / "shades.yaml").write_text(TASK.replace("task: colours", "task: shades"))
    (tmp_path / "questions.yaml").write_text(QUESTIONS)
    ranks = np.random.default_rng(0).permutation(1000)[:600].tolist()
    docs = [{"q": f"Which colour is {i}?", "a": i % 2, "rank": rank} for i, rank in enumerate(ranks)]
    (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, docs)))
    return tmp_path


@pytest.fixture
def clock(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = here / "clock"
    path.write_text("")
    monkeypatch.setattr(execution, "time", SimpleNamespace(monotonic=lambda: float(path.stat().st_size)))
    return path


def write_ci(
    here: Path, *skills: float, rules: list[str], tasks: tuple[str, ...] = ("colours.yaml",), **more: Any
) -> None:
    models = [
        {"name": f"model-{skill:g}", "model": "skilled.py:Skilled", "model_args": {"skill": skill}} for skill in skills
    ]
    text = {"models": models, "tasks": list(tasks), "baseline": "base", "rules": rules, **more}
    (here / "assay.yaml").write_text(json.dumps(text))  # JSON is YAML


def report(here: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((here / "assay-ci" / "report.json").read_text())
    return found


def recorded(here: Path, capsys: pytest.CaptureFixture[str], **how: Any) -> None:
    write_ci(here, 0.9, rules=["any task: no more than 50 % newly wrong"], **how)
    assert call(capsys, "ci", "--record")[0] == 0


CLOSE = ["colours acc: not worse than 0.005"]
"""A rule that 600 docs of a model that loses two of them do not decide."""


def test_minutes_end_it_between_two_looks_with_cannot_tell_and_the_reason(
    here: Path, clock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(here, capsys)
    write_ci(here, 0.897, rules=CLOSE, budget={"minutes": 5})
    began = clock.stat().st_size
    code, out, err = call(capsys, "ci")
    assert code == 4, out + err
    n = report(here)["checks"][0]["n"]
    assert 75 <= n <= 150  # five minutes are 150 docs
    assert clock.stat().st_size - began <= 300
    assert "note: the budget of 5 minutes ended it" in out


def test_time_that_one_model_leaves_is_for_the_others(
    here: Path, clock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(here, capsys)
    write_ci(here, 0.1, 0.897, rules=CLOSE, budget={"minutes": 10})
    began = clock.stat().st_size
    code, out, _ = call(capsys, "ci")
    assert code == 1, out  # what failed outweighs what cannot be told
    checks = {check["name"]: check for check in report(here)["checks"]}
    assert checks["model-0.1 · colours"]["outcome"] == "failed"
    assert checks["model-0.897 · colours"]["outcome"] == "cannot tell"
    assert 150 < checks["model-0.897 · colours"]["n"] <= 300  # half of ten minutes are 150 docs
    assert clock.stat().st_size - began <= 600


def test_a_model_that_no_time_is_left_for_cannot_be_told(
    here: Path, clock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "skilled.py").write_text(SLOW.replace("* len(requests)", "* 60 * len(requests)"))
    recorded(here, capsys)
    write_ci(here, 0.897, 0.89, rules=CLOSE, budget={"minutes": 1})
    code, out, _ = call(capsys, "ci")
    assert code == 4
    last = report(here)["checks"][-1]
    assert (last["name"], last["n"], last["key"]) == ("model-0.89 · colours", 0, "")
    assert re.search(r"CANNOT TELL +model-0.89 · colours +.*the budget allows no doc", " ".join(out.split()))
    assert "model-0.89: the budget of 1 minute allows no doc" in out


def priced(here: Path, server: FaultyServer, cost: float, *names: str) -> None:
    args = {"base_url": server.url, "num_concurrent": 4, "price_out": 1e6}
    models = [
        {"name": name, "model": "local-chat-completions", "model_args": {**args, "model": name}} for name in names
    ]
    rules = ["questions: at least 0.001"]  # none is right, which 600 docs do not show
    text = {"models": models, "tasks": ["questions.yaml"], "rules": rules, "budget": {"cost": cost}}
    (here / "assay.yaml").write_text(json.dumps(text))


@pytest.mark.parametrize(("cost", "least"), [(400, 48), (60, 8)])
def test_cost_ends_it_with_what_it_bought_and_is_never_passed(
    here: Path, capsys: pytest.CaptureFixture[str], cost: float, least: int
) -> None:
    """An answer costs 5; while it is under way 8 are set aside."""
    with FaultyServer() as server:
        priced(here, server, cost, "ngram")
        code, out, err = call(capsys, "ci")
    assert code == 4, out + err
    assert report(here)["checks"][0]["n"] >= least
    assert 5 * len(server.bodies) <= cost
    assert f"the budget of a cost of {cost} ended it" in out


def test_models_share_the_cost(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FaultyServer() as server:
        priced(here, server, 400, "ngram", "other")
        code, out, err = call(capsys, "ci")
    assert code == 4, out + err
    asked = Counter(body["model"] for body in server.bodies)
    assert 5 * sum(asked.values()) <= 400
    assert min(asked["ngram"], asked["other"]) >= 20
    # Not one answer of a model stands in for the other's.
    assert {check["n"] > 0 for check in report(here)["checks"]} == {True}


def test_a_cost_that_buys_no_answer_decides_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FaultyServer() as server:
        priced(here, server, 7, "ngram")
        code, out, err = call(capsys, "ci")
    assert (code, len(server.bodies)) == (4, 0), out + err
    assert "the budget of a cost of 7 allows no doc" in out


def test_a_cost_without_prices_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(here, capsys)
    write_ci(here, 0.9, rules=["colours: at least 0.5"], budget={"cost": 3})
    code, _, err = call(capsys, "ci")
    assert code == 2
    assert "needs the model's prices" in err


def test_two_models_are_held_to_one_baseline_and_their_newly_wrong_docs_are_shown_apart(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(here, capsys)
    rules = ["colours acc: not worse than 0.05", "any task: no more than 10 % newly wrong"]
    write_ci(here, 0.9, 0.4, rules=rules)
    code, out, _ = call(capsys, "ci")
    assert code == 1
    outcomes = [(check["name"], check["rule"], check["outcome"]) for check in report(here)["checks"]]
    assert outcomes == [
        (f"model-{skill} · colours", rule, outcome)
        for skill, outcome in ((0.9, "passed"), (0.4, "failed"))
        for rule in rules
    ]
    comment = (here / "assay-ci" / "comment.md").read_text()
    assert "model-0.4 · colours:" in comment
    assert "docs newly wrong" in comment
    assert "summary>model-0.9" not in comment
    assert "model-0.9: docs asked: colours" in out


def test_any_task_is_a_check_of_each_and_only_open_tasks_are_asked_on(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = ("colours.yaml", "shades.yaml")
    recorded(here, capsys, tasks=tasks)
    rules = ["any task: no more than 10 % newly wrong", "shades acc: not worse than 0.005"]
    write_ci(here, 0.897, rules=rules, tasks=tasks)
    code, _, _ = call(capsys, "ci")
    assert code == 4
    checks = report(here)["checks"]
    assert [(check["name"], check["outcome"]) for check in checks] == [
        ("colours", "passed"),
        ("shades", "passed"),
        ("shades", "cannot tell"),
    ]
    note = report(here)["notes"][0]
    assert "shades 600 of 600" in note
    assert "colours 600" not in note


@pytest.mark.parametrize(
    ("in_file", "words", "code"),
    [(None, (), 4), ("pass", (), 0), ("fail", (), 1), ("pass", ("--cannot_tell", "fail"), 1)],
)
def test_what_cannot_be_told_counts_as_the_file_says_unless_the_command_says_otherwise(
    here: Path, capsys: pytest.CaptureFixture[str], in_file: str | None, words: tuple[str, ...], code: int
) -> None:
    recorded(here, capsys, budget={"docs": 30})
    more = {} if in_file is None else {"cannot_tell": in_file}
    write_ci(here, 0.897, rules=CLOSE, budget={"docs": 30}, **more)
    assert call(capsys, "ci", *words)[0] == code


def test_a_task_that_no_rule_is_about_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ci(here, 0.9, rules=["colours: at least 0.5"], tasks=("colours.yaml", "shades.yaml"))
    code, _, err = call(capsys, "ci", "--record")
    assert code == 2
    assert "no rule is about the task 'shades'" in err


def test_a_task_of_one_doc_is_asked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "docs.jsonl").write_text((here / "docs.jsonl").read_text().splitlines()[0])
    recorded(here, capsys)
    write_ci(here, 0.9, rules=["colours: at least 0.5"])
    assert call(capsys, "ci")[0] == 4
    assert "colours 1 of 1" in report(here)["notes"][0]


def test_docs_that_are_few_more_are_still_asked(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(here, capsys)
    write_ci(here, 0.897, rules=CLOSE, budget={"docs": 66})
    assert call(capsys, "ci")[0] == 4
    assert report(here)["checks"][0]["n"] == 66


def test_names_that_would_share_a_directory_are_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = [{"name": name, "model": "skilled.py:Skilled"} for name in ("a/b", "a:b")]
    text = {"models": models, "tasks": ["colours.yaml"], "rules": ["colours: at least 0.5"]}
    (here / "assay.yaml").write_text(json.dumps(text))
    code, _, err = call(capsys, "ci")
    assert code == 2
    assert "'a/b' and 'a:b' would be kept in one directory" in err


def noisy(model: str, name: str = "colours", deviation: float = 0.03) -> NoiseFile:
    row = ScoreNoise(name, "task", "acc,none", 600, (0.87, 0.9, 0.93, 0.9, 0.9), deviation**2, 4.0, 0.0)
    return NoiseFile(model, tuple({"server": None} for _ in range(5)), (row,))


@pytest.mark.parametrize("rule", ["colours acc: not worse than 0.06", "colours acc: at least 0.85"])
def test_serving_noise_may_leave_open_what_docs_alone_decide(
    here: Path, capsys: pytest.CaptureFixture[str], rule: str
) -> None:
    recorded(here, capsys)
    write_ci(here, 0.9, rules=[rule])
    code, out, _ = call(capsys, "ci")
    assert code == 0, out
    model = open_run(here / "assay-ci" / "model-0.9" / "look-1").result.model_name
    noisy(model).save(here / "noise.json")
    write_ci(here, 0.9, rules=[rule], noise="noise.json")
    code, out, _ = call(capsys, "ci")
    assert code == 4, out
    assert "serving noise was measured on" not in out
    # A server that hardly moves changes nothing.
    noisy(model, deviation=0.0005).save(here / "noise.json")
    assert call(capsys, "ci")[0] == 0
    code, out, _ = call(capsys, "ci", "--explain")
    assert code == 0


def test_noise_of_another_model_or_of_other_tasks_is_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(here, capsys)
    noisy("another model", name="elsewhere").save(here / "noise.json")
    write_ci(here, 0.9, rules=["colours acc: not worse than 0.06"], noise="noise.json")
    code, out, _ = call(capsys, "ci")
    assert code == 0
    assert "serving noise was measured on another model, this is" in out
    assert "colours: noise.json does not have it, so no serving noise is included" in out
    write_ci(here, 0.9, rules=["colours acc: not worse than 0.06"], noise="nowhere.json")
    assert call(capsys, "ci")[0] == 2


def test_explain_says_when_serving_noise_hides_the_rule(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(here, capsys)
    noisy("any").save(here / "noise.json")
    write_ci(here, 0.9, rules=["colours acc: not worse than 0.06"], noise="noise.json")
    _, out, _ = call(capsys, "ci", "--explain", "--json")
    assert [each["needed"] for each in json.loads(out)] == [None]


def test_a_benchmark_whose_floor_is_too_high_fails(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Gold alternates, so each label is right for half of the docs; the longer colour is always the same one."""
    recorded(here, capsys)
    rules = ["colours acc: at least 0.5"]
    for allowed, code, passed in (("0.1 above chance", 0, [True, True]), ("0.2", 1, [True, False])):
        write_ci(here, 0.9, rules=rules, floors={"longest": allowed})
        assert call(capsys, "ci")[0] == code
        assert [check["outcome"] == "passed" for check in report(here)["checks"]] == passed
    write_ci(here, 0.9, rules=rules, floors={"longest": "low"})
    assert call(capsys, "ci")[0] == 2


def test_a_benchmark_is_tested_without_a_rule_about_models(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for allowed, code in (("0.1 above chance", 0), ("0.2", 1)):
        write_ci(here, 0.9, rules=[], floors={"longest": allowed}, baseline=None)
        assert call(capsys, "ci")[0] == code
        (check,) = report(here)["checks"]
        assert check["rule"].startswith("floor longest")
        assert f"{check['value']:.4f} (n = {check['n']}), 95% bound" in check["reason"]
    write_ci(here, 0.9, rules=[], baseline=None)
    assert call(capsys, "ci")[0] == 2
