"""Answers with control characters and lone surrogates: shown as signs, and never a traceback."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from tests.comparison.test_verbs import call
from tests.report.spoiled import Spoiled, write_tasks

from assay.report import evaluate

HOSTILE = "\x1b]0;pwned\x07 \ud800"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = write_tasks(tmp_path)
    for name, model in (("good", Spoiled()), ("hostile", Spoiled(text=HOSTILE))):
        evaluate(
            model=model,
            tasks=["words"],
            include_path=str(folder),
            run_dir=str(tmp_path / name),
            store=str(tmp_path / "store.sqlite"),
        )
    return tmp_path


def test_flips_show_signs_instead_of_sending_them(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "compare", runs / "good", runs / "hostile", "--flips")
    assert code == 0
    assert "␛]0;pwned␇ U+D800" in out
    assert not {"\x1b", "\x07", "\ud800"} & set(out)


@pytest.mark.parametrize("form", ["inspect", "lm-eval", "csv", "jsonl"])
def test_every_export_takes_them(runs: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    code, out, _ = call(capsys, "export", runs / "hostile", "--to", form, "-o", runs / "out")
    assert code == 0
    if form == "inspect":
        with zipfile.ZipFile(out.strip()) as archive:
            sample = json.loads(archive.read("samples/0_epoch_1.json").decode("utf-8"))
        assert sample["output"]["choices"][0]["message"]["content"] == "\x1b]0;pwned\x07 \ufffd"


def test_an_export_that_cannot_be_written_says_so(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "file").write_text("")
    code, _, err = call(capsys, "export", runs / "good", "--to", "csv", "-o", runs / "file" / "below")
    assert code == 2
    assert "cannot write to" in err
