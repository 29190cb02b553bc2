"""What every verb prints as JSON on fixed runs, to the digit: `recorded/NAME.json` holds it.

The runs are made here, by models that answer from a hash of the request, so that nothing but the code can change a
number. After a change that is meant, delete the file, run the test with ASSAY_TEST_RECORD=1 and read what it wrote.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay

RECORDED = Path(__file__).parent / "recorded"

MODELS = {"a": 1, "b": 2, "c": 3}
TASKS = "demo_capitals,demo_arithmetic,demo_prose,demo_grammar"

COMMANDS: dict[str, list[str]] = {
    "compare": ["compare", "a", "b", "--json"],
    "compare_three": ["compare", "a", "b", "c", "--metric", "acc", "--margin", "0.2", "--json"],
    "compare_unpaired": ["compare", "a", "other_shots", "--unpaired", "--json"],
    "rank": ["rank", "a", "b", "c", "--tasks", "demo_capitals_en,demo_grammar", "--json"],
    "rank_group": ["rank", "a", "b", "c", "--tasks", "demo_arithmetic", "--json"],
    "gate": ["gate", "b", "--baseline", "a", "--json"],
    "gate_threshold": ["gate", "a", "--threshold", "0.1", "--tasks", "demo_capitals_en", "--json"],
    "gate_results": ["gate", "b", "--baseline", "a/results.json", "--json"],
    "explain": ["explain", "a", "other_shots", "--task", "demo_capitals_en", "--metric", "acc", "--json"],
    "explain_model": ["explain", "a", "b", "--task", "demo_addition", "--json"],
    "power_runs": ["power", "--effect", "0.05", "--from", "a", "--from", "b", "--json"],
    "power_assumed": ["power", "--effect", "0.02", "--tasks", "demo_capitals_en,demo_addition", "--json"],
    "agreement": ["agreement", "a", "--json"],
    "noise": ["noise", "--model", "dummy", "--tasks", "demo_agreement", "--limit", "20", "--replays", "3", "--run_dir",
              "noise", "--json"],
    "sweep": ["sweep", "--model", "dummy", "--tasks", "demo_agreement", "--styles", "mc,cloze", "--shots", "0,2",
              "--limit", "20", "--run_dir", "swept", "--json"],
    "score": ["score", "a", "--json"],
    "validate": ["validate", "demo_capitals", "--json"],
    "show": ["show", "demo_capitals_en", "--json"],
    "ls": ["ls", "groups", "demo*", "--json"],
    "schema_task": ["schema", "task"],
    "schema_gate": ["schema", "gate"],
    "schema_compare": ["schema", "compare"],
    "ci_explain": ["ci", "--explain", "--file", "assay.yaml", "--json"],
    "ci": ["ci", "--file", "assay.yaml", "--json"],
    "report_csv": ["report", "a", "--format", "csv"],
    "report_md": ["report", "a", "--format", "md"],
    "report_latex": ["report", "a", "--format", "latex"],
    "matrix": ["matrix", "--models", "models.yaml", "--tasks", "demo_agreement", "--limit", "10",
               "--output_path", "matrix", "--json"],
    "lm_eval_compare": ["compare", "exported", "b", "--json"],
    "judge_check": ["judge", "check", "judged", "--json"],
}  # fmt: skip

CI_FILE = """\
models:
  - {name: one, model: dummy, model_args: {seed: 1}}
tasks: [demo_agreement, demo_capitals_en]
baseline: a
rules:
  - "demo_agreement acc: at least 0.2"
  - "demo_capitals_en acc: not worse than 0.1"
budget: {docs: 40}
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    from assay.cli import main

    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return int(stop.value.code or 0), capsys.readouterr().out


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Runs of three models, one of them with other shots, and one in the files of lm-evaluation-harness."""
    folder = tmp_path_factory.mktemp("recorded")
    before = Path.cwd()
    os.chdir(folder)
    try:
        common: dict[str, Any] = {"model": "dummy", "tasks": TASKS.split(","), "limit": 30, "store": "answers"}
        for name, seed in MODELS.items():
            assay.evaluate(**common, model_args={"seed": seed}, run_dir=name)
        assay.evaluate(**common, model_args={"seed": 1}, num_fewshot=1, run_dir="other_shots")
        judge = {"judge": {"model": "dummy", "model_args": {"seed": 4}}}
        open_answers = {**common, "tasks": ["demo_open"]}
        assay.evaluate(**open_answers, model_args={"seed": 1}, roles=judge, run_dir="judged")
        (folder / "assay.yaml").write_text(CI_FILE)
        models = "".join(
            f"- {{name: {name}, model: dummy, model_args: {{seed: {seed}}}}}\n" for name, seed in MODELS.items()
        )
        (folder / "models.yaml").write_text(models)
        from assay.cli import main

        with pytest.raises(SystemExit):
            main(["export", "a", "--to", "lm-eval", "-o", "exported"])
        yield folder
    finally:
        os.chdir(before)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_verb_prints_what_it_printed(name: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = call(capsys, *COMMANDS[name])
    found = {"command": COMMANDS[name], "exit_code": code, "output": plain(out, place)}
    file = RECORDED / f"{name}.json"
    if os.environ.get("ASSAY_TEST_RECORD"):
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    recorded = json.loads(file.read_text(encoding="utf-8"))
    assert found["exit_code"] == recorded["exit_code"]
    assert_same(found["output"], recorded["output"])


def plain(text: str, place: Path) -> Any:
    """The output as values, without what differs from run to run and from machine to machine."""
    text = text.replace(str(place), "<place>").replace(str(Path(assay.__file__).parent), "<assay>")
    try:
        return _without_moments(json.loads(text))
    except ValueError:
        return text.splitlines()


_MOMENTS = {"date", "seconds", "total_evaluation_time_seconds", "environment", "start_time", "end_time", "git_hash",
            "path", "$schema", "$id", "fingerprint", "packages", "pretty_env_info", "store", "model_source"}  # fmt: skip


def _without_moments(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_moments(each) for key, each in value.items() if key not in _MOMENTS}
    if isinstance(value, list):
        return [_without_moments(each) for each in value]
    if isinstance(value, str):
        return re.sub(r"\d{4}-\d\d-\d\dT[\d.:-]+", "<date>", value)
    return value


_UNROUNDED = re.compile(r"\d+\.\d{9,}(?:e-\d+)?")


def assert_same(found: Any, recorded: Any, where: str = "") -> None:
    """Equal, numbers to a part in a billion: sums of floats differ between processors."""
    if isinstance(recorded, float) and isinstance(found, float):
        assert math.isclose(found, recorded, rel_tol=1e-9, abs_tol=1e-12) or (
            found != found and recorded != recorded
        ), where
    elif isinstance(recorded, dict):
        assert isinstance(found, dict), where
        assert list(found) == list(recorded), where
        for key, value in recorded.items():
            assert_same(found[key], value, f"{where}.{key}")
    elif isinstance(recorded, list):
        assert isinstance(found, list), where
        assert len(found) == len(recorded), where
        for at, value in enumerate(recorded):
            assert_same(found[at], value, f"{where}[{at}]")
    elif isinstance(recorded, str) and isinstance(found, str):
        assert _UNROUNDED.sub("#", found) == _UNROUNDED.sub("#", recorded), where
        assert_same(*([float(each) for each in _UNROUNDED.findall(text)] for text in (found, recorded)), where)
    else:
        assert found == recorded, where
