"""Lines as people know them from lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.cli.entry import main
from assay.compat.lm_eval.flags import INSTEAD, LM_EVAL_FLAGS, NOT_NEEDED


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
    assert f"there is no {flag} here." in shown
    assert INSTEAD[flag] in shown


def test_flags_that_are_not_needed_are_noted_in_one_line_and_the_run_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unneeded = [
        "--use_cache",
        "cache",
        "--verbosity",
        "DEBUG",
        "--max_batch_size",
        "64",
        "--cache_requests",
        "true",
        "--check_integrity",
    ]
    unneeded += ["--show_config", "--hf_hub_log_args", "hub_results_org=me", "push_results_to_hub=True"]
    kept = ("--run_dir", tmp_path / "run", "--store", tmp_path / "store.sqlite")
    assert run("run", "--model", "dummy", *unneeded, "--tasks", "demo_agreement", "--limit", "3", *kept) == 0
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: --")]
    assert [note.split()[1] for note in notes] == [word for word in unneeded if word.startswith("--")]
    assert all("is not needed: " in note for note in notes)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("flag", NOT_NEEDED)
def test_a_flag_and_its_value_may_be_one_word(flag: str) -> None:
    assert LM_EVAL_FLAGS.unneeded([f"{flag}=x", "--tasks", "a"])[0] == ["--tasks", "a"]
    assert LM_EVAL_FLAGS.unneeded(["--tasks", "a", flag])[0] == ["--tasks", "a"]


def test_the_cache_of_requests_may_have_no_value() -> None:
    assert LM_EVAL_FLAGS.unneeded(["--cache_requests", "--limit", "3"])[0] == ["--limit", "3"]


def test_lm_eval_may_name_a_directory_wherever_task_files_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_LM_EVAL_TASKS", raising=False)
    (tmp_path / "theirs.yaml").write_text(
        "task: theirs\ndataset_path: a/b\ntest_split: test\ndoc_to_text: q\ndoc_to_target: a\n"
    )
    assert run("ls", "tasks", "theirs", "--lm_eval", tmp_path) == 0
    assert "theirs" in capsys.readouterr().out
    assert run("show", "--lm_eval", tmp_path, "theirs") == 0
    assert "0.4" in capsys.readouterr().out
    assert run("validate", "--lm_eval", tmp_path, "theirs") == 0
    assert "tasks: 1 loaded" in capsys.readouterr().out
    assert run("validate", "theirs", f"--lm_eval={tmp_path / 'gone'}") == 2
    monkeypatch.setenv("ASSAY_LM_EVAL_TASKS", str(tmp_path))
    assert run("show", "--lm_eval", "theirs") == 0, "what follows is not a directory, so it is the name to show"


def test_names_to_validate_may_follow_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("validate", "--tasks", "demo_agreement,demo_addition") == 0
    assert "tasks: 2 loaded" in capsys.readouterr().out
    assert run("validate", "--tasks", "demo_agreemnt") == 2


def test_subtasks_are_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls", "subtasks", "demo_*") == 0
    shown = capsys.readouterr().out
    assert "demo_agreement" in shown
    assert "demo_grammar" not in shown  # a group
