"""What runs in other people's builds: the action's step as a script, GitLab's template, the pytest plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.analyses.test_ci import CI, MODEL, TASK

ROOT = Path(__file__).parents[1]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "skilled.py").write_text(MODEL)
    (tmp_path / "colours.yaml").write_text(TASK)
    docs = [{"q": f"Which colour is {i}?", "a": i % 2, "rank": i * 7 % 1000} for i in range(60)]
    (tmp_path / "docs.jsonl").write_text("\n".join(map(json.dumps, docs)))
    rules = CI.format(skill=0.9, docs=60).replace("0.05", "0.2").replace("5 %", "30 %")
    (tmp_path / "assay.yaml").write_text(rules)
    return tmp_path


def run(repository: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    keep = {"PATH", "HOME", "PYTHONPATH", "ASSAY_HOME"}
    environment = {key: value for key, value in os.environ.items() if key in keep} | more
    environment["PYTHONPATH"] = str(ROOT / "src")
    return subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True, timeout=300)


def test_the_step_of_the_action_decides_annotates_and_says_where_the_comment_is(repository: Path) -> None:
    recorded = run(repository, sys.executable, "-m", "assay", "ci", "--record")
    assert recorded.returncode == 0, recorded.stderr
    output, summary = repository / "output", repository / "summary.md"
    github = {
        "ASSAY_PYTHON": sys.executable,
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    step = ("bash", str(ROOT / "integrations/github/gate.sh"))
    done = run(repository, *step, **github)
    assert done.returncode == 0, done.stdout + done.stderr
    assert output.read_text() == f"outcome=passed\ncomment={repository}/assay-ci/comment.md\n"
    text = (repository / "assay.yaml").read_text()
    (repository / "assay.yaml").write_text(text.replace("skill: 0.9", "skill: 0.05"))
    gitlab = {"GITLAB_CI": "true", "CI_PROJECT_DIR": str(repository)}
    done = run(repository, *step, LINK="https://ci.example/7", **github, **gitlab)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "::error title=colours" in done.stderr
    assert "outcome=failed" in output.read_text()
    assert "❌" in summary.read_text()
    assert "https://ci.example/7" in (repository / "assay-ci/comment.md").read_text()
    entries = json.loads((repository / "gl-code-quality-report.json").read_text())
    assert {entry["severity"] for entry in entries} <= {"major", "minor"}
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) >= 1


def noting(program: Path, notes: Path) -> None:
    """A program that writes down where it was called, and with what."""
    program.write_text(f'#!/bin/sh\npwd > {notes}\nprintf "%s\\n" "$@" >> {notes}\n')
    program.chmod(0o755)


def test_the_lines_of_the_gitlab_template_run_in_a_shell(repository: Path) -> None:
    job = yaml.safe_load((ROOT / "integrations/gitlab/assay.gitlab-ci.yml").read_text())[".assay"]
    programs = repository / "programs"
    programs.mkdir()
    noting(programs / "python", repository / "asked")
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    [before] = job["before_script"]
    missing = run(repository, "bash", "-eo", "pipefail", "-c", before, **path)
    assert missing.returncode != 0
    assert "ASSAY_INSTALL: is not set" in missing.stderr
    wheel = "assay-eval[hf,api] @ file:///wheels/assay_eval-0.1.0-py3-none-any.whl"
    assert run(repository, "bash", "-eo", "pipefail", "-c", before, ASSAY_INSTALL=wheel, **path).returncode == 0
    assert (repository / "asked").read_text().splitlines()[1:] == ["-m", "pip", "install", wheel]
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    assert run(repository, sys.executable, "-m", "assay", "ci", "--record").returncode == 0
    shared = {
        **path,
        **job["variables"],
        "GITLAB_CI": "true",
        "CI_PROJECT_DIR": str(repository),
        "CI_JOB_URL": "https://ci.example/3",
    }
    [script] = job["script"]
    decided = run(repository, "bash", "-eo", "pipefail", "-c", script, **shared)
    assert decided.returncode == 0, decided.stderr
    for report in job["artifacts"]["reports"].values():
        assert list(repository.glob(report)), report
    text = (repository / "assay.yaml").read_text()
    (repository / "assay.yaml").write_text(text.replace("docs: 60", "docs: 4"))
    undecided = run(repository, "bash", "-eo", "pipefail", "-c", script, **shared)
    assert undecided.returncode in job["allow_failure"]["exit_codes"]
    mapped = run(repository, "bash", "-eo", "pipefail", "-c", script, **shared | {"ASSAY_CANNOT_TELL": "fail"})
    assert mapped.returncode == 1


def test_every_shell_step_of_the_action_runs_as_it_is_written(repository: Path) -> None:
    """Installing and commenting go to programs that write down what they were asked for."""
    assert run(repository, sys.executable, "-m", "assay", "ci", "--record").returncode == 0
    text = (repository / "assay.yaml").read_text()
    (repository / "assay.yaml").write_text(text.replace("docs: 60", "docs: 4") + "output: reports\n")
    programs = repository / "programs"
    programs.mkdir()
    for name in ("gh", "python"):
        noting(programs / name, repository / f"{name}.asked")
    action = yaml.safe_load((ROOT / "integrations/github/action.yml").read_text())
    install, gate, comment = action["runs"]["steps"]
    shared = {"PATH": f"{programs}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(repository / "output")}
    shared |= {"GITHUB_ACTION_PATH": str(ROOT / "integrations/github"), "GITHUB_ACTIONS": "true"}

    def step(given: dict[str, Any], **values: str) -> subprocess.CompletedProcess[str]:
        assert given["shell"] == "bash"
        assert set(given["env"]) == set(values)
        return run(repository, "bash", "-eo", "pipefail", "-c", given["run"], **shared, **values)

    wanted = action["inputs"]["install"]["default"]
    assert step(install, WANTED=wanted).returncode == 0
    assert (repository / "python.asked").read_text().split() == [str(ROOT), "-m", "pip", "install", ".[hf,api]"]
    shared |= {"ASSAY_PYTHON": sys.executable, "COLUMNS": "40"}
    done = step(gate, FILE="assay.yaml", CANNOT_TELL="pass", LINK="https://ci.example/9")
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = dict(line.split("=", 1) for line in (repository / "output").read_text().splitlines())
    assert outputs == {"outcome": "cannot tell", "comment": f"{repository}/reports/comment.md"}
    assert "::warning title=colours" in done.stderr
    assert step(comment, GH_TOKEN="secret", NUMBER="7", COMMENT=outputs["comment"]).returncode == 0
    asked = (repository / "gh.asked").read_text().split()
    assert asked[1:] == ["pr", "comment", "7", "--edit-last", "--create-if-none", "--body-file", outputs["comment"]]
    (repository / "assay.yaml").write_text("rules: []\n")
    assert step(gate, FILE="assay.yaml", CANNOT_TELL="", LINK="").returncode == 2
    assert (repository / "output").read_text().endswith("outcome=error 2\ncomment=\n")
    assert step(comment, GH_TOKEN="secret", NUMBER="7", COMMENT="").returncode == 0


def test_the_plugin_fails_a_test_with_the_rules_that_do_not_hold(repository: Path) -> None:
    assert run(repository, sys.executable, "-m", "assay", "ci", "--record").returncode == 0
    (repository / "test_it.py").write_text("def test_quality(assay_gate):\n    assert assay_gate().passed\n")
    ask = (sys.executable, "-m", "pytest", "-q", "-p", "assay.pytest_plugin", "-p", "no:cacheprovider", "test_it.py")
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # whether or not the installation has the entry point
    held = run(repository, *ask, **alone)
    assert "1 passed" in held.stdout, held.stdout + held.stderr
    text = (repository / "assay.yaml").read_text()
    (repository / "assay.yaml").write_text(text.replace("skill: 0.9", "skill: 0.05"))
    broken = run(repository, *ask, **alone)
    assert broken.returncode == 1
    assert "FAIL  colours acc,none" in broken.stdout
    (repository / "assay.yaml").write_text(text.replace("docs: 60", "docs: 4"))
    assert "1 skipped" in run(repository, *ask, **alone).stdout
    (repository / "assay.yaml").write_text(text.replace("docs: 60", "docs: 4") + "cannot_tell: pass\n")
    assert "1 failed" in run(repository, *ask, "--assay-cannot-tell", "fail", **alone).stdout
    (repository / "test_it.py").write_text("def test_quality(assay_gate):\n    assay_gate(doks=4)\n")
    mistyped = run(repository, *ask, **alone)
    assert "1 failed" in mistyped.stdout
    assert "doks" in mistyped.stdout
    (repository / "test_it.py").write_text("def test_quality(assay_gate):\n    assay_gate('nowhere.yaml')\n")
    missing = run(repository, *ask, **alone).stdout
    assert "nowhere.yaml" in missing
    assert "src/assay/" not in missing  # no traceback into Assay for what a user can mend


def test_the_plugin_costs_a_start_of_pytest_nothing() -> None:
    code = "import sys, assay.pytest_plugin; print([m for m in sys.modules if m.startswith(('assay.', 'numpy', 'pydantic'))])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "['assay.pytest_plugin']", done.stdout + done.stderr


def test_action_and_template_are_sound() -> None:
    action = yaml.safe_load((ROOT / "integrations/github/action.yml").read_text())
    assert action["runs"]["using"] == "composite"
    assert all("shell" in step for step in action["runs"]["steps"])
    template = yaml.safe_load((ROOT / "integrations/gitlab/assay.gitlab-ci.yml").read_text())
    assert template[".assay"]["allow_failure"]["exit_codes"] == [4]
