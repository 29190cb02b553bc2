"""The command itself: verbs, exit codes, and what it does not import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from assay.cli.entry import VERBS, Verb, main
from assay.errors import ConfigError, StoreError


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(words)
    return int(caught.value.code or 0)


def test_help_lists_the_verbs_that_are_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    printed = capsys.readouterr().out
    assert "List tasks, groups, tags, models, metrics or filters." in printed
    assert all(f"\n  {verb} " in printed for verb in ("run", "ls", "show", "validate", "gate"))


def test_a_verb_without_its_module_is_not_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(VERBS, "later", Verb("assay.cli.not_written:command", "Tasks", "Not yet."))
    assert run("--help") == 0
    assert "later" not in capsys.readouterr().out
    assert run("later") == 2


def test_an_unknown_verb_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("validat") == 2
    assert "Did you mean validate?" in capsys.readouterr().err


def test_an_unknown_flag_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ls", "--nope") == 2
    assert "--nope" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "code"), [(ConfigError("a", hint="do b"), 2), (StoreError("a", hint="do b"), 3)])
def test_errors_become_messages_and_exit_codes(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("assay.cli.ls._registered", fail)
    assert run("ls", "models") == code
    assert capsys.readouterr().err == "assay: a\n  do b\n"
    with pytest.raises(type(error)):
        main(["ls", "models", "--debug"])


def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("assay.cli.ls._registered", stop)
    assert run("ls", "models") == 130


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("assay ")


def test_schema_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    for kind in ("task", "group"):
        assert run("schema", kind) == 0
        assert json.loads(capsys.readouterr().out)["properties"]["task"]


@pytest.mark.parametrize("words", [["--help"], ["ls", "--no-defaults"], ["ls", "models"], ["run", "--help"]])
def test_nothing_heavy_is_imported_to_look_around(words: list[str]) -> None:
    program = (
        "import sys\nfrom assay.cli import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'datasets', 'transformers', 'sklearn', 'scipy', 'sacrebleu', 'pyarrow', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    done = subprocess.run(f"{sys.executable} -m assay ls metrics | head -1", shell=True, capture_output=True, text=True)
    assert done.stdout.startswith("name")
    assert "Traceback" not in done.stderr
