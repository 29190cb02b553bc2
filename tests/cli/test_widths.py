"""Sentences of the command line at every width. Tables are in `tests/show`."""

from __future__ import annotations

import pytest

from assay.cli.output import echo, echo_as_is


def test_sentences_are_wrapped_between_words_in_a_window_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = (
        "PASS  capitals acc,none: 0.7857 vs 0.5714 (n = 112, paired), 95% bound on the difference +0.1326, margin -0.01"
    )
    monkeypatch.delenv("COLUMNS", raising=False)
    echo(line)
    assert capsys.readouterr().out == line + "\n", "a file gets it whole"
    monkeypatch.setenv("COLUMNS", "60")
    echo(line)
    shown = capsys.readouterr().out.splitlines()
    assert all(len(part) <= 60 for part in shown)
    assert all(part.startswith("  ") for part in shown[1:])
    assert " ".join(part.strip() for part in shown) == line


def test_what_is_copied_from_the_window_is_not_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "Try: assay run --model hf --model_args pretrained=smollm2-135m --tasks arc_easy --limit 20"
    monkeypatch.setenv("COLUMNS", "60")
    echo_as_is(command)
    assert capsys.readouterr().out == command + "\n"
    echo(
        "note: one that is too long for the line is not broken: /a/path/that/is/longer/than/the/window/is/wide/results.json"
    )
    assert "    " not in capsys.readouterr().out


def test_each_line_of_a_message_keeps_its_indentation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    echo(
        "assay: there is no task, group or tag named 'arc_esy'\n  Did you mean arc_easy, or one of the many others?",
        err=True,
    )
    assert capsys.readouterr().err.splitlines() == [
        "assay: there is no task, group or tag",
        "  named 'arc_esy'",
        "  Did you mean arc_easy, or one of the",
        "  many others?",
    ]
