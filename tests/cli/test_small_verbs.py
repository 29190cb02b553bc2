"""Import, store, new and the console: small promises."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.analyses.test_verbs import call

from assay.cli.display import console
from assay.finished.lm_eval.run_files import find_results
from assay.results import RunResult
from assay.run import Counts
from assay.show import progress_line, run_findings

ENTRY = {"alias": "t", "acc,none": 0.5, "acc_stderr,none": 0.1, "sample_len": 4}


def write_results(path: Path, model: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"results": {"t": ENTRY}, "configs": {"t": {}}, "config": {"model": model}, "model_name": model}
    path.write_text(json.dumps(data))


def test_the_newest_results_are_imported_whatever_their_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    write_results(out / "a" / "results_2026-02-01T00-00-00.json", "newer")
    write_results(out / "z" / "results_2026-01-01T00-00-00.json", "older")
    assert find_results(out) == out / "a" / "results_2026-02-01T00-00-00.json"
    monkeypatch.chdir(out)
    code, shown, _ = call(capsys, "import", ".")
    assert code == 0
    assert "newer" in shown
    assert (tmp_path / "out-assay" / "run.json").is_file()
    assert not (out / ".-assay").exists()


def test_the_home_directory_may_be_written_as_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(tmp_path / "none.sqlite") in call(capsys, "store", "--store", "~/none.sqlite", "stats")[2]


def test_a_scaffold_that_cannot_be_written_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = call(capsys, "new", "task", "mine", "-d", tmp_path / "file")
    assert code == 2
    assert "cannot write to" in err


def test_the_live_display_is_as_wide_as_its_own_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert console()._width == 140
    assert console(stderr=True)._width is None  # rich asks the terminal


def test_the_report_is_dated() -> None:
    assert "2023-11-1" in run_findings(RunResult({}, config={"model": "m"}, date=1_700_000_000.0)).to_html()


def test_progress_says_how_many_questions_other_models_have_answered() -> None:
    asked = Counts(docs_total=50, docs_done=20, questions={"judge": (120, 400), "translator": (3, 1_200)})
    assert progress_line(asked, began=0.0).startswith("20/50 docs · judging 120/400 · asking the translator 3/1,200")
    assert "judging" not in progress_line(Counts(docs_total=50), began=0.0)


def test_progress_names_the_task_and_the_time_left_from_the_first_doc_on(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.monotonic() - 10
    assert progress_line(Counts(docs_total=50, sending="arc_easy"), began) == "arc_easy · 0/50 docs"
    first = progress_line(Counts(docs_total=50, docs_done=1, sending="arc_easy and 2 more"), began)
    assert first.startswith("arc_easy and 2 more · 1/50 docs")
    assert first.endswith("left")
    assert "8m" in first
    assert "arc_easy" not in progress_line(Counts(docs_total=50, docs_done=50, sending="arc_easy"), began)


def test_the_bar_of_a_run_has_a_line_of_its_own(tmp_path: Path) -> None:
    """In a real terminal of 80 columns: a bar that does not end its line pushed the time left out of sight."""
    (tmp_path / "slow.py").write_text(SLOW, encoding="utf-8")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "COLUMNS")}
    environment |= {"ASSAY_STORE": str(tmp_path / "store.db"), "TERM": "xterm"}
    arguments = ["--model", "slow.py:Slow", "--tasks", "demo_agreement", "--limit", "12"]
    command = [sys.executable, "-m", "assay", "run", *arguments]
    streams = {"stdin": subprocess.DEVNULL, "stdout": theirs, "stderr": theirs}
    ran = subprocess.Popen(command, cwd=tmp_path, env=environment, **streams)
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # the other end is closed when the run ends
        while part := os.read(ours, 65536):
            seen += part
    assert ran.wait() == 0
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert re.search(r"━\s*[\r\n]+\s*demo_agreement · \d+/12 docs", shown)


SLOW = """
import time
from assay.models import LM

class Slow(LM):
    def loglikelihood(self, instances):
        for _ in instances:
            time.sleep(0.05)
            yield -1.0, False

    def loglikelihood_rolling(self, instances):
        return [-1.0 for _ in instances]

    def generate_until(self, instances):
        return ["x" for _ in instances]
"""
