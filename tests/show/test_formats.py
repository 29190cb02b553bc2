"""Every analysis, and a run's result, in every format: each is rendered, and a number is read back from it."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.show.examples import EXAMPLES, Example, Runs

from assay.cli import main
from assay.errors import ConfigError
from assay.show import OUTPUT_FORMATS, Findings, Format, save

WIDTHS = (60, 80, 100, 120, 160, 200)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("examples"))


def numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def from_json(text: str) -> list[float]:
    return [*numbers_in(json.loads(text))]


def from_csv(text: str) -> list[float]:
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows
    assert len({len(row) for row in rows}) == 1, "every row has every column"
    return [float(cell) for row in rows for cell in row.values() if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", cell or "")]


def from_junit(text: str) -> list[float]:
    suite = ElementTree.fromstring(text)
    cases = suite.findall("testcase")
    assert len(cases) == int(suite.get("tests") or 0)
    return [float(each.get("value") or "nan") for case in cases for each in case.iter("property")]


def words_of(text: str) -> str:
    """What a person reads: no markup, no line breaks inside a number."""
    plain = html.unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", text, flags=re.S))
    return " ".join(plain.replace("\\", "").replace("%25", "%").replace("$+$", "+").split())


MACHINES: dict[str, Callable[[str], list[float]]] = {"json": from_json, "csv": from_csv, "junit": from_junit}


@pytest.mark.parametrize("form", list(OUTPUT_FORMATS))
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_analysis_is_shown_in_every_format_and_its_number_is_there(runs: Runs, name: str, form: str) -> None:
    example: Example = EXAMPLES[name](runs)
    text = example.findings.to(form)
    if form in MACHINES:
        assert any(abs(number - example.number) < 1e-12 for number in MACHINES[form](text)), text[:2000]
    elif form == "annotations" and example.findings.checks:
        assert all(line.startswith(("::error ", "::warning ")) for line in text.splitlines())
        assert re.search(r"\d\.\d{4}", text)
    elif form == "code-quality":
        entries = json.loads(text)
        assert len(entries) == len({entry["fingerprint"] for entry in entries})
        assert all(re.search(r"\d\.\d{4}|in both", entry["description"]) for entry in entries)
    else:
        assert example.text in words_of(text), words_of(text)[:3000]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_nothing_is_lost_or_cut_at_any_width(runs: Runs, name: str, width: int) -> None:
    """Values and notes are always there, whatever the window; nothing touches its edge."""
    example = EXAMPLES[name](runs)
    lines = example.findings.to_text(width).splitlines()
    assert max(map(len, lines)) <= width, [line for line in lines if len(line) > width]
    text = " ".join(" ".join(lines).split())
    assert example.text in text, "\n".join(lines)
    for table in example.findings.tables:
        for row in table.rows:
            missing = [word for word in row.note.split() if word not in "\n".join(lines) and len(word) < 20]
            assert not missing, (row.note, "\n".join(lines))


def test_a_file_is_written_in_the_format_that_its_ending_says(runs: Runs, tmp_path: Path) -> None:
    findings = EXAMPLES["compare"](runs).findings
    for ending, begins in {
        ".html": "<!doctype html>",
        ".md": "### ",
        ".xml": "<?xml",
        ".json": "{",
        ".tex": "%",
    }.items():
        assert save(findings, tmp_path / f"out{ending}").read_text(encoding="utf-8").startswith(begins)
    with pytest.raises(ConfigError, match="names no format"):
        save(findings, tmp_path / "out.docx")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "mrkdown"), "unknown output format 'mrkdown'"),
        (("-o", "page.hmtl"), "names no format"),
        (("-o", "nowhere/page.html"), "there is no directory nowhere"),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_read(
    words: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["compare", "no-such-run", "nor-this", *words])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


def test_a_format_that_a_package_brings_shows_every_analysis(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OUTPUT_FORMATS._entries, "titles", Format(lambda findings: f"= {findings.title}", (".title",)))
    for make in EXAMPLES.values():
        found: Findings = make(runs).findings
        assert found.to("titles") == f"= {found.title}"


def test_text_of_anybody_stays_text_in_every_format() -> None:
    """A task, a model or a doc may be called anything."""
    from assay.show import Column, Table, kinds
    from assay.show.kinds import Name

    hostile = "<script>alert(1)</script>|`x`\x1b]0;t\x07 =cmd() %25::error::\n\\input{x}"
    columns = (Column("task", kinds.NAME, lambda each: Name(each)), Column("n", kinds.COUNT, len))

    class Result:
        def to_dict(self) -> dict[str, str]:
            return {"name": hostile}

    table = Table.of(columns, [hostile], row=lambda each: {"note": each}, title=hostile, notes=(hostile,))
    findings = Findings(hostile, (hostile,), (table,), notes=(hostile,), result=Result())
    for form in OUTPUT_FORMATS:
        text = findings.to(form)
        assert "<script>" not in text or form in ("text", "latex", "csv", "json", "annotations", "code-quality"), form
        assert "\x1b" not in text or form == "csv", form
        assert "\n::error" not in text, form
    set_in_type = [line for line in findings.to_latex().splitlines() if not line.startswith("%")]
    assert not any("\\input" in line.replace("\\textbackslash{}input", "") for line in set_in_type)
    assert ElementTree.fromstring(findings.to_junit()) is not None


def test_findings_without_a_result_of_their_own_are_shown_in_every_format() -> None:
    """As a small package makes them."""
    from assay.show import Column, Table, kinds
    from assay.show.kinds import Name

    columns = (Column("task", kinds.NAME, lambda each: Name(each)), Column("letters", kinds.COUNT, len))
    found = Findings("Lengths", tables=(Table.of(columns, ["gsm8k"]),))
    for form in OUTPUT_FORMATS:
        found.to(form)
    assert json.loads(found.to_json())["tables"] == [[{"task": "gsm8k", "letters": 5, "notes": ""}]]
