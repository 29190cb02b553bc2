"""Every table of the command line at every width: nothing touches the edges, and values and notes are always there."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

import assay
from assay.analyses.compare import comparison_table
from assay.cli.matrix import matrix_tables
from assay.cli.output import echo, echo_as_is
from assay.results import RunResult
from assay.show import screen_table
from assay.show.fitted import FittedTable

TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: q
doc_to_target: a
filter_list:
  - name: strict-match-of-the-last-number
    filter: [{{function: regex, regex_pattern: '#### never (x+)'}}, {{function: take_first}}]
metric_list: [{{metric: exact_match}}]
"""
NAME = "word_problems_for_schools_of_the_county"
MODELS = ["a-model-with-a-long-name", "another-model-with-a-long-name", "the-third-of-the-models"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[RunResult]:
    folder = tmp_path_factory.mktemp("widths")
    (folder / "docs.jsonl").write_text("".join(json.dumps({"q": f"{i}?", "a": str(i)}) + "\n" for i in range(20)))
    (folder / "t.yaml").write_text(TASK.format(name=NAME, folder=folder))
    return [
        assay.evaluate(
            model="dummy",
            model_args={"seed": seed},
            tasks=[NAME],
            include_path=[str(folder)],
            include_defaults=False,
            run_dir=str(folder / f"run{seed}"),
            store=str(folder / "store.db"),
        )
        for seed in (0, 1)
    ]


def printed(table: FittedTable, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(table)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text.splitlines()


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_table_loses_a_value_or_a_note(results: list[RunResult], width: int) -> None:
    cells = {(model, NAME): results[0] for model in MODELS}
    wide, tall = matrix_tables(cells, MODELS, [NAME])
    tables = {
        "report": screen_table(results[0]),
        "compare": comparison_table(assay.compare(*results)),
        "matrix": wide if wide.fits(width - 2) else tall,
    }
    for name, table in tables.items():
        lines = printed(table, width)
        assert all(line.startswith(" ") and len(line) < width for line in lines if line), (name, lines)
        text = " ".join(" ".join(lines).split())
        assert "0.0000" in text, (name, text)
        assert "…" not in text or width < 200, (name, text)
        if name != "compare":
            assert "100% unparsed" in text, (name, text)
    assert "undecided" in " ".join(printed(tables["compare"], width)) or "same" in " ".join(
        printed(tables["compare"], width)
    )


def test_the_matrix_stands_upright_where_there_is_no_room_for_its_models(results: list[RunResult]) -> None:
    wide, tall = matrix_tables({(model, NAME): results[0] for model in MODELS}, MODELS, [NAME])
    assert not wide.fits(78)
    assert wide.fits(198)
    lines = printed(tall, 80)
    assert sum("0.0000 ± 0.0000" in line for line in lines) == len(MODELS)
    assert "a-model-with-a-long-name" in "\n".join(printed(tall, 120))


def test_the_matrix_cuts_no_task_for_the_sake_of_a_long_model(results: list[RunResult]) -> None:
    model = "a-model-whose-name-alone-takes-half-of-a-window"
    wide, tall = matrix_tables({(model, NAME): results[0]}, [model], [NAME])
    assert not wide.fits(78), "its task would lose its middle"
    assert wide.fits(118)
    assert tall.fits(118)


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
