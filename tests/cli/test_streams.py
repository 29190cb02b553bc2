"""Output that cannot be written is not the end of a run, and text of strangers does not steer the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.faulty_server import FaultyServer

from assay.cli.entry import main

TASK = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: docs.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{a}}}}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled(tmp_path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The scores of a run that nothing disturbed."""
    folder = filled(tmp_path_factory.mktemp("sound"))
    assay(folder, *run_words("sound"))
    return scores(folder, "sound")


def filled(tmp_path: Path) -> Path:
    (tmp_path / "plain.yaml").write_text(TASK.format(name="plain"))
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps({"q": f"{i}?", "a": str(i)}) + "\n" for i in range(20)))
    return tmp_path


def assay(folder: Path, *words: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The command as a shell starts it, so that descriptors can be closed as a shell closes them."""
    line = f'exec "$0" -m assay "$@" {shell}'
    return subprocess.run(
        ["bash", "-c", line, sys.executable, *words],
        cwd=folder,
        env={**os.environ, "ASSAY_HOME": str(folder / "home"), **environment},
        capture_output=True,
    )


def run_words(name: str) -> list[str]:
    return ["run", "--model", "dummy", "--tasks", "plain", "--include_path", ".", "--run_dir", name]


BROKEN = {
    "stderr closed": ("2>&-", 0),
    "stderr on a full disk": ("2>/dev/full", 0),
    "stdout closed": (">&-", 0),
    "stdout a pipe that nobody reads": ("> >(exec true)", 0),
    "stdout on a full disk": (">/dev/full", 3),
    "all closed": ("<&- >&- 2>&-", 0),
    "all on a full disk": (">/dev/full 2>/dev/full", 3),
}


def scores(folder: Path, name: str) -> Any:
    return json.loads((folder / name / "results.json").read_text())["results"]


# All streams at once are in `make test-wide`: each is here by itself.
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.wide if case.startswith("all") else ()) for case in BROKEN]
)
def test_a_run_whose_output_cannot_be_written_is_done_and_kept(folder: Path, sound: Any, case: str) -> None:
    redirection, code = BROKEN[case]
    done = assay(folder, *run_words("broken"), shell=redirection)
    assert done.returncode == code
    assert b"Traceback" not in done.stdout + done.stderr
    assert scores(folder, "broken") == sound


def test_a_full_disk_below_stdout_is_said_on_stderr(folder: Path) -> None:
    done = assay(folder, "ls", "tasks", shell=">/dev/full")
    assert done.returncode == 3
    assert b"the output could not be written: No space left on device" in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error(folder: Path) -> None:
    done = assay(folder, "ls", "tasks", shell="| head -1; exit ${PIPESTATUS[0]}")
    # `exec` in a pipeline runs in a part of it, so the status that counts is the first one's.
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 1)
    assert b"Traceback" not in done.stderr


def test_messages_are_never_written_into_a_file_that_got_the_number_of_a_closed_stream(folder: Path) -> None:
    assay(folder, *run_words("broken"), shell="2>&-")
    written = [path for path in (folder / "broken").rglob("*") if path.is_file()]
    assert written
    for path in [*written, *(folder / "home").rglob("*.sqlite*")]:
        if path.is_file() and path.name != "log.txt":
            assert b"computing error bars" not in path.read_bytes()


@pytest.mark.parametrize("environment", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}])
def test_a_terminal_without_unicode_gets_what_it_can_show(folder: Path, environment: dict[str, str]) -> None:
    (folder / "name.yaml").write_text(TASK.format(name="rätsel"), encoding="utf-8")
    (folder / "docs.jsonl").write_text('{"q": "Wie groß? \\ud83d\\ude00", "a": "ß"}\n', encoding="utf-8")
    words = ["run", "--model", "dummy", "--tasks", "name.yaml", "--run_dir", "out", "--write_out", "--log_samples"]
    for verb in (["ls", "--include_path", "."], words):
        done = assay(folder, *verb, **environment)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        assert b"Traceback" not in done.stderr
    assert scores(folder, "out")["rätsel"]


# ---------------------------------------------------------------------- text of strangers

HOSTILE = "x\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\nassay: all is well"
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def in_yaml(text: str) -> str:
    return json.dumps(text)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ASSAY_HOME", str(folder / "home"))

    def call(*words: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main(words)
        printed = capsys.readouterr()
        return printed.out + printed.err

    return call


def tame(text: str) -> bool:
    return "owned" in text and not ACTS.search(text) and not re.search("^assay: all is well", text, re.MULTILINE)


@pytest.mark.parametrize(
    "words",
    [
        ["ls"],
        ["ls", "--json"],
        ["show", "hostile.yaml"],
        ["show", "hostile.yaml", "--json"],
        ["show", "hostile.yaml", "--doc", "0"],
        ["show", "hostile_group.yaml", "--tree"],
        ["validate", "hostile_broken.yaml"],
        ["validate", "hostile_broken.yaml", "--json"],
        ["validate", "hostile.yaml", "-v"],
        ["run", "--model", "dummy", "--tasks", "hostile.yaml", "--write_out", "--run_dir", "out"],
        ["run", "--model", "dummy", "--tasks", "hostile.yaml", "--json"],
        ["run", "--model", "dummy", "--tasks", "hostile.yaml", "--dry_run"],
        ["run", "--model", "dummy", "--tasks", "hostile_broken.yaml"],
    ],
    ids=" ".join,
)
def test_names_and_docs_of_strangers_are_shown_and_not_obeyed(
    folder: Path, said: Callable[..., str], words: list[str]
) -> None:
    text = TASK.replace("task: {name}", f"task: {in_yaml(HOSTILE)}").format()
    (folder / "hostile.yaml").write_text(text + f"description: {in_yaml(HOSTILE)}\nreducer: max\n")
    (folder / "hostile_broken.yaml").write_text(text.replace("hostile", "broken") + "metric_list: [{metric: nope}]\n")
    (folder / "hostile_group.yaml").write_text(f"group: {in_yaml(HOSTILE + 'g')}\ntask: [plain]\n")
    (folder / "docs.jsonl").write_text(json.dumps({"q": HOSTILE, "a": HOSTILE}) + "\n")
    shown = said(*words, "--include_path", ".")
    if "--doc" in words or "--write_out" in words:  # docs are texts of several lines
        assert "owned" in shown
        assert not ACTS.search(shown)
    else:
        assert tame(shown), shown


def test_what_a_server_says_of_an_error_is_shown_and_not_obeyed(folder: Path, said: Callable[..., str]) -> None:
    with FaultyServer(lambda seen, body: "400") as server:
        server.fault = lambda seen, body: f"say:{HOSTILE}"
        words = ["--model", "local-completions", "--model_args", f"base_url={server.url},model=ngram"]
        shown = said("run", *words, "--tasks", "plain.yaml")
    assert tame(shown), shown


def test_imported_results_are_shown_and_not_obeyed(folder: Path, said: Callable[..., str]) -> None:
    source = folder / "imported"
    source.mkdir()
    found = {
        "results": {HOSTILE: {"alias": HOSTILE, "acc,none": 0.5, "acc_stderr,none": 0.1}},
        "configs": {HOSTILE: {"task": HOSTILE}},
        "versions": {HOSTILE: 1},
        "n-shot": {HOSTILE: 0},
        "n-samples": {HOSTILE: {"original": 2, "effective": 2}},
        "higher_is_better": {HOSTILE: {"acc": True}},
        "model_name": HOSTILE,
        "config": {"model": HOSTILE},
    }
    (source / "results_2025-01-01.json").write_text(json.dumps(found))
    shown = said("import", str(source), "--run_dir", str(folder / "made"))
    assert tame(shown), shown
    assert tame(said("report", str(folder / "made"), "--format", "md"))
