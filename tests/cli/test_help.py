"""`--help` and wrong arguments in windows of every width."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from assay.cli.entry import VERBS, assay, main

Help = Callable[[str, int], list[str]]


@pytest.fixture
def help_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Help:
    """Not by click's runner, which takes every window for 80 columns wide."""

    def shown(verb: str, width: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        assert not assay.main([verb, "--help"], prog_name="assay", standalone_mode=False)
        return capsys.readouterr().out.splitlines()

    return shown


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("verb", VERBS)
def test_no_line_is_wider_than_the_window(verb: str, width: int, help_of: Help) -> None:
    lines = help_of(verb, width)
    # A list of choices, and a line of YAML, is one word.
    wide = [line for line in lines if len(line) > width and "|" not in line and "{" not in line]
    assert not wide


def test_no_name_is_broken_at_a_hyphen(help_of: Help) -> None:
    text = "\n".join(help_of("compare", 80))
    assert "gl-code-quality-report.json" in text
    for verb in ("run", "ls", "rank"):
        lines = help_of(verb, 80)
        assert not [line for line in lines if line.endswith("-")]


def test_an_example_that_is_too_long_is_continued_as_a_shell_takes_it(help_of: Help) -> None:
    lines = help_of("noise", 80)
    at = next(i for i, line in enumerate(lines) if "--model_args base_url" in line)
    assert lines[at - 1] == "  assay noise --model local-completions \\"
    assert lines[at].startswith("      --model_args base_url=http://127.0.0.1:8000/v1 --tasks gsm8k")


def test_flags_stand_above_what_is_said_of_them_where_there_is_no_room_beside(help_of: Help) -> None:
    lines = help_of("run", 60)
    at = lines.index("  -t, --tasks NAMES")
    assert lines[at + 1].startswith("        Tasks, groups, tags")
    assert any(line.startswith("  -t, --tasks NAMES   ") for line in help_of("run", 80))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["run", "--limt", "3"],
            "assay: no such option '--limt'. Did you mean '--limit'?\n  See `assay run --help`.\n",
        ),
        (["rnu"], "assay: there is no verb 'rnu'. Did you mean run?\n"),
        (["report"], "assay: missing argument 'RUN'.\n  See `assay report --help`.\n"),
    ],
)
def test_a_wrong_argument_is_an_error_like_any_other(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert capsys.readouterr().err == message


def test_a_group_of_verbs_without_a_verb_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["store"])
    both = capsys.readouterr()
    assert (both.out + both.err).startswith("Usage: assay store ")
