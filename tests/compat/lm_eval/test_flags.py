"""Lines as people know them from lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.cli.entry import main
from assay.compat.lm_eval.flags import INSTEAD


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    return int(caught.value.code or 0)


def test_no_verb_means_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = ("--run_dir", tmp_path / "run", "--store", tmp_path / "store.sqlite")
    assert run("--model", "dummy", "--tasks", "demo_agreement", "demo_addition", "--limit", "3", *kept) == 0
    assert (tmp_path / "run" / "results.json").is_file()
    assert "demo_addition" in capsys.readouterr().out


@pytest.mark.parametrize("flag", INSTEAD)
def test_a_former_flag_is_answered_with_what_to_type(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("run", flag, "x") == 2
    shown = " ".join(capsys.readouterr().err.split())
    assert f"There is no {flag} here." in shown
    assert INSTEAD[flag] in shown


def test_names_to_validate_may_follow_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("validate", "--tasks", "demo_agreement,demo_addition") == 0
    assert "tasks: 2 loaded" in capsys.readouterr().out
    assert run("validate", "--tasks", "demo_agreemnt") == 2


def test_subtasks_are_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls", "subtasks", "demo_*") == 0
    shown = capsys.readouterr().out
    assert "demo_agreement" in shown
    assert "demo_grammar" not in shown  # a group
