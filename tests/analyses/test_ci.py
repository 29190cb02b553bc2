"""`assay ci`: rules in a file, docs until they are decided, reports for the build."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
import yaml
from tests.analyses.ci_simulation import CELLS, shares
from tests.analyses.test_verbs import call

from assay import cli
from assay.analyses.ci.rules import RuleEvidence, decide
from assay.analyses.gate import GATE_SCHEMA
from assay.config import CIRule, file_schema, load_ci
from assay.config.ci import OPTION_SECTIONS
from assay.errors import ConfigError
from assay.finished.run import DocColumn
from assay.results import MetricKey

MODEL = """
from assay.models import LM

class Skilled(LM):
    def __init__(self, skill=0.9):
        self.skill = float(skill)

    def fingerprint(self):
        return f"skilled {self.skill}"

    def loglikelihood(self, requests):
        found = []
        for r in requests:
            right = r.doc["rank"] < self.skill * 1000
            chosen = r.doc["a"] if right else 1 - r.doc["a"]
            found.append((-1.0 if r.args[1].strip() == ["red", "blue"][chosen] else -2.0, False))
        return found

    def generate_until(self, requests):
        raise NotImplementedError

    loglikelihood_rolling = generate_until
"""
TASK = """
task: colours
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{q}}"
doc_to_choice: [red, blue]
doc_to_target: "{{a}}"
metric_list: [{metric: acc}]
"""
CI = """models:
  - {{name: skilled, model: "skilled.py:Skilled", model_args: {{skill: {skill}}}}}
tasks: [colours.yaml]
baseline: base
rules:
  - "colours acc: not worse than 0.05"
  - "colours: at least 0.6"
  - "any task: no more than 5 % newly wrong"
budget: {{docs: {docs}}}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "skilled.py").write_text(MODEL)
    (tmp_path / "colours.yaml").write_text(TASK)
    ranks = np.random.default_rng(0).permutation(1000)[:600].tolist()
    docs = [{"q": f"Which colour is {i}?", "a": i % 2, "rank": rank} for i, rank in enumerate(ranks)]
    (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, docs)))
    (tmp_path / "assay.yaml").write_text(CI.format(skill=0.9, docs=600))
    return tmp_path


def test_it_passes_fails_and_cannot_tell_and_writes_its_reports(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "ci", "--record")[0] == 0
    code, out, err = call(capsys, "ci")
    assert (code, "passed: reports in" in out) == (0, True), out + err
    asked = json.loads((here / "assay-ci" / "report.json").read_text())["checks"][0]["n"]
    assert asked < 600  # a model that is the same is decided before all docs are asked
    (here / "assay.yaml").write_text(CI.format(skill=0.5, docs=600))
    code, out, _ = call(capsys, "ci")
    assert code == 1
    assert "newly wrong" in out
    comment = (here / "assay-ci" / "comment.md").read_text()
    assert comment.startswith("### ❌")
    assert "docs newly wrong" in comment
    suite = ElementTree.parse(here / "assay-ci" / "junit.xml").getroot()
    assert next(case.get("name") for case in suite) == "colours acc: not worse than 0.05"
    (here / "assay.yaml").write_text(CI.format(skill=0.88, docs=20))
    code, out, _ = call(capsys, "ci")
    assert code == 4, out
    assert call(capsys, "ci", "--cannot_tell", "pass")[0] == 0
    assert call(capsys, "ci", "--cannot_tell", "fail")[0] == 1


def test_explain_asks_nothing_and_says_what_the_budget_shows(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "ci", "--explain")[0] == 2  # no baseline yet
    call(capsys, "ci", "--record")
    (here / "skilled.py").write_text(MODEL.replace("found = []", "raise RuntimeError"))
    code, out, _ = call(capsys, "ci", "--explain", "--docs", "40")
    out = " ".join(out.split())
    assert code == 0
    assert "40 docs tell a loss of" in out
    assert "the same answers needs 73 docs" in out
    out = " ".join(call(capsys, "ci", "--explain", "--docs", "80")[1].split())
    assert "the same answers passes" in out
    (here / "skilled.py").write_text(MODEL)
    assert call(capsys, "ci", "--docs", "80")[0] == 0


def test_explain_names_no_score_that_cannot_be_and_says_that_clusters_tell_less(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "ci", "--record")
    out = " ".join(call(capsys, "ci", "--explain", "--docs", "2")[1].split())
    assert "2 docs decide on scores below 0.0" in out  # no score is so far above 0.6
    assert "above 1" not in out
    assert "clusters" not in out
    (here / "colours.yaml").write_text(TASK + "cluster: a\n")
    out = " ".join(call(capsys, "ci", "--explain")[1].split())
    assert "docs come in clusters of up to 300, which tell less" in out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("at least 0.6", "above 0.6", r"assay\.yaml:7: the rule 'colours: above 0.6' is not understood"),
        ("budget: {docs: 600}", "budget: {doks: 600}", r"assay\.yaml:9: unknown key 'budget\.doks'"),
        ("not worse than 0.05", "not worse than 5", r"assay\.yaml:6: .* must lie between 0 and 1"),
        ("at least 0.6", "at least 0.6.1", r"assay\.yaml:7: the rule 'colours: at least 0.6.1' is not understood"),
        ("baseline: base", "bazeline: base", r"assay\.yaml:4: unknown key 'bazeline'"),
        (
            "baseline: base",
            "baseline: base\ncompair: {margin: 0.02}",
            r"assay\.yaml:5: unknown key 'compair'(.|\n)*compare",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(here: Path, old: str, new: str, message: str) -> None:
    text = (here / "assay.yaml").read_text()
    (here / "assay.yaml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=message):
        load_ci(here / "assay.yaml")


def test_the_file_may_hold_options_of_other_verbs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (here / "assay.yaml").open("a") as file:
        file.write("compare: {margin: 0.02}\nnoise: {replays: 3}\n")
    config = load_ci(here / "assay.yaml")
    assert (config.baseline, config.noise) == ("base", None)
    jsonschema.validate(yaml.safe_load((here / "assay.yaml").read_text()), file_schema("ci"))
    assert call(capsys, "ci", "--record", "--docs", "8")[0] == 0
    code, out, err = call(capsys, "compare", "base", "base")
    assert code == 0
    assert "margin 0.02" in out + err
    assert "margin" not in call(capsys, "compare", "base", "base", "--margin", "0.03")[2]


def test_a_noise_file_of_the_rules_is_no_section_of_the_verb(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (here / "assay.yaml").open("a") as file:
        file.write("noise: noise.json\n")
    assert load_ci(here / "assay.yaml").noise == "noise.json"
    code, _, err = call(capsys, "noise", "--model", "dummy", "--tasks", "colours.yaml", "--replays", "2", "--json")
    assert code == 0, err


def test_every_verb_with_options_may_have_a_section() -> None:
    sources = Path(cli.__file__).parent.glob("*.py")
    verbs = {verb for file in sources for verb in re.findall(r'option_flags\(\w+, verb="(\w+)"', file.read_text())}
    assert verbs == set(OPTION_SECTIONS)


def test_a_rule_on_an_unknown_task_is_refused_before_anything_is_asked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "assay.yaml").write_text((here / "assay.yaml").read_text().replace("colours: at", "colors: at"))
    code, _, err = call(capsys, "ci", "--record")
    assert code == 2
    assert "colours" in err


def test_paths_in_the_file_are_as_seen_from_it(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert call(capsys, "ci", "--file", "../assay.yaml", "--record", "--docs", "8")[0] == 0
    code, out, err = call(capsys, "ci", "--file", "../assay.yaml", "--docs", "8")
    assert code == 4, out + err


PERPLEXITY = """
task: prose
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: loglikelihood
doc_to_text: "{{q}}"
doc_to_target: "red"
metric_list: [{metric: perplexity}, {metric: acc}]
"""


def test_a_score_that_is_no_mean_is_refused_and_never_checked_as_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The docs' values of a perplexity are log-likelihoods; their mean, −1.5, is not what `at least` is about."""
    (here / "prose.yaml").write_text(PERPLEXITY)
    text = CI.split("tasks:")[0].format(skill=0.9) + "tasks: [prose.yaml]\nrules: ['prose perplexity: at least 2']\n"
    (here / "assay.yaml").write_text(text)
    code, _, err = call(capsys, "ci", "--docs", "20")
    assert code == 2
    assert "prose perplexity,none is not a mean over docs" in " ".join(err.split())
    (here / "prose.yaml").write_text(PERPLEXITY.replace(", {metric: acc}", ""))
    (here / "assay.yaml").write_text(text.replace("prose perplexity", "prose"))
    assert "no score of prose is a mean over docs" in " ".join(call(capsys, "ci", "--docs", "20")[2].split())
    (here / "prose.yaml").write_text(PERPLEXITY)
    (here / "assay.yaml").write_text(text.replace("prose perplexity: at least 2", "prose: at least 0.01"))
    code, out, _ = call(capsys, "ci", "--docs", "20")
    assert re.search(r"prose +acc,none", out)


FILTERED = """
task: names
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: "{{a}}"
metric_list: [{metric: exact_match}]
filter_list:
  - {name: strict, filter: [{function: take_first}]}
  - {name: loose, filter: [{function: take_first}]}
"""


def test_a_metric_under_two_filters_is_checked_under_the_first_and_the_other_is_named(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "names.yaml").write_text(FILTERED)
    rules = "tasks: [names.yaml]\nrules: ['names exact_match: at least 0.5']\n"
    (here / "assay.yaml").write_text(f"models: [{{model: dummy}}]\n{rules}")
    _, out, _ = call(capsys, "ci", "--docs", "20")
    assert "note: names: exact_match,strict was checked, but not exact_match,loose" in out
    (here / "assay.yaml").write_text(f"models: [{{model: dummy}}]\n{rules}".replace("match: at", "match,loose: at"))
    _, out, _ = call(capsys, "ci", "--docs", "20")
    assert "was checked, but not" not in out
    assert "names exact_match,loose: " in out


def test_a_loss_is_relative_where_scores_lie_beyond_one() -> None:
    """As in `assay gate`: 0.05 of a score of about 8 is 0.4."""
    rng = np.random.default_rng(3)
    before = rng.uniform(7, 9, 200)
    ids = np.arange(200, dtype=np.uint64)
    key = MetricKey("grade", "none")
    now, then = (DocColumn(key, ids, None, values, np.arange(200)) for values in (before - 0.2, before))
    evidence = RuleEvidence("t", now, then, {i: i for i in range(200)})
    rule = CIRule.parse("t: not worse than 0.05")
    assert decide(rule, evidence, 0.05, last=True).outcome == "passed"
    worse = RuleEvidence("t", DocColumn(key, ids, None, before - 0.6, np.arange(200)), then, evidence.place)
    assert decide(rule, worse, 0.05, last=True).outcome == "failed"


def test_schemas_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert file_schema("ci")["properties"]["rules"]["items"]["type"] == "string"
    code, out, _ = call(capsys, "schema", "gate")
    assert (code, json.loads(out)) == (0, GATE_SCHEMA)


def column(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> DocColumn:
    keys = np.arange(len(values), dtype=np.uint64) * np.uint64(7919)
    return DocColumn(MetricKey("acc", "none"), keys, None, values, np.arange(len(values)))


def test_looking_often_passes_a_model_at_the_limit_no_more_often_than_allowed() -> None:
    """Sixty models that lose exactly what is not allowed, looked at after 50, 100, … docs and at the end."""
    rng, passed = np.random.default_rng(4), 0
    rule = CIRule.parse("t acc: not worse than 0.1")
    for _ in range(60):
        before = (rng.random(400) < 0.7).astype(np.float64)
        after = np.where(rng.random(400) < 0.1 / 0.7, 0.0, 1.0) * before
        looks = [(n, False) for n in (50, 100, 200, 400)] + [(400, True)]
        found = (
            decide(
                rule, RuleEvidence("t", column(after[:n]), column(before), {i: i for i in range(400)}), 0.05, last=last
            )
            for n, last in looks
        )
        passed += any(check.outcome == "passed" for check in found)
    assert passed <= 8


@pytest.mark.parametrize("number", range(0, len(CELLS), 4))
def test_error_rates_hold_at_the_limit(number: int) -> None:
    """Every fourth cell of `benchmarks/ci_errors.py`, with its seed, and fewer runs."""
    cell, times = CELLS[number], 60
    wrong = shares(cell, times, 28_000 + number)[cell.wrong]
    assert wrong <= cell.allowed + 3 * math.sqrt(cell.allowed / times)


def test_a_baseline_may_be_a_run_of_another_harness(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "ci", "--record")[0] == 0
    assert call(capsys, "export", "base", "--to", "lm-eval", "-o", "theirs")[0] == 0
    rules = (here / "assay.yaml").read_text()
    (here / "assay.yaml").write_text(rules.replace("baseline: base", "baseline: theirs"))
    code, out, err = call(capsys, "ci", "--json")
    assert code == 0, err
    assert json.loads(out)["outcome"] == "passed"
    for file in (here / "theirs").rglob("samples_*"):
        file.unlink()
    code, _, err = call(capsys, "ci")
    assert (code, "has no samples" in err) == (2, True)
