"""Small hostilities of the world around a run: names, locks, rights, archives, signals, servers' bookkeeping."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.asking import connect, generations
from tests.models.openai.faulty_server import FaultyServer

from assay import evaluate
from assay.cli.entry import main
from assay.models.openai.wire import in_order
from assay.models.pulling import alone

TASK = """task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: docs.jsonl}}}}
test_split: test
output_type: generate_until
doc_to_text: {text}
doc_to_target: "{{{{a}}}}"
"""
Say = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs.jsonl").write_text('{"q": "x", "a": "y"}\n{"q": "z", "a": "y"}\n')
    (tmp_path / "plain.yaml").write_text(TASK.format(name="plain", text='"{{q}}"'))
    return tmp_path


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def call(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as caught:
            main(words)
        printed = capsys.readouterr()
        return int(caught.value.code or 0), printed.out + printed.err

    return call


@pytest.mark.parametrize(
    "text",
    [
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{% if 1 %}" * 3000 + "x" + "{% endif %}" * 3000,
        "{{ " + "9" * 6000 + " }}",
    ],
    ids=["parentheses", "conditions", "integer"],
)
def test_a_template_that_python_cannot_take_is_a_message(folder: Path, say: Say, text: str) -> None:
    (folder / "odd.yaml").write_text(TASK.format(name="odd", text=json.dumps(text)))
    code, said = say("run", "--model", "dummy", "--tasks", "odd.yaml")
    assert code == 2
    assert "odd.yaml:7" in said or "odd.yaml" in said
    assert "Traceback" not in said


def test_a_name_of_5000_characters_is_run_and_kept(folder: Path, say: Say) -> None:
    (folder / "long.yaml").write_text(TASK.format(name="n" * 5000, text='"{{q}}"'))
    code, said = say("run", "--model", "dummy", "--tasks", "long.yaml", "--run_dir", "out", "--log_samples")
    assert code == 0, said
    assert len(list((folder / "out" / "samples").glob("*.parquet"))) == 1
    assert len(list((folder / "out").glob("samples_*.jsonl"))) == 1
    assert say("score", "out")[0] == 0


def test_a_run_is_readable_by_its_owner_alone(folder: Path) -> None:
    result = evaluate(model="dummy", tasks=["plain.yaml"], run_dir="out")
    assert result.path is not None
    assert stat.S_IMODE(result.path.stat().st_mode) == 0o700
    store = next((folder / "home").rglob("responses.sqlite"))
    assert stat.S_IMODE(store.stat().st_mode) == 0o600


def test_two_runs_into_one_directory_are_refused_with_a_message(folder: Path, say: Say) -> None:
    evaluate(model="dummy", tasks=["plain.yaml"], run_dir="out")
    before = (folder / "out" / "results.json").read_bytes()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom assay.results import RunDirectory\nwith RunDirectory('out').alone():\n"
            "    print('held', flush=True)\n    sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    try:
        code, said = say("run", "--model", "dummy", "--tasks", "plain.yaml", "--run_dir", "out")
        assert code == 2
        assert "another run is active in out" in said
        assert (folder / "out" / "results.json").read_bytes() == before
    finally:
        holder.kill()
        holder.communicate()
    assert say("run", "--model", "dummy", "--tasks", "plain.yaml", "--run_dir", "out")[0] == 0, (
        "a killed one holds nothing"
    )


def test_a_lock_file_that_is_a_link_or_a_pipe_is_not_opened(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "link").symlink_to(victim)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError), alone(tmp_path / name, lambda: None):
            pass
    assert not victim.exists()


def test_who_waits_for_a_lock_is_told_once(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\nfrom pathlib import Path\nfrom assay.models.pulling import alone\n"
            "with alone(Path(sys.argv[1]), lambda: None):\n    print('held', flush=True)\n    time.sleep(1)",
            str(tmp_path / "lock"),
        ],
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    told: list[str] = []
    with alone(tmp_path / "lock", lambda: told.append("waiting")):
        assert told == ["waiting"]
    holder.wait()


def test_a_log_that_unpacks_to_gigabytes_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch, say: Say) -> None:
    monkeypatch.setattr("assay.finished.inspect.archive.MOST", 1 << 20)
    with zipfile.ZipFile(folder / "bomb.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", '{"eval": {"task": "x"}, "pad": "' + "0" * (4 << 20) + '"}')
    code, said = say("compare", "bomb.eval", "bomb.eval")
    assert code == 3
    assert "more than 1 MB" in said


def test_a_log_nested_without_end_is_an_error(folder: Path, say: Say) -> None:
    with zipfile.ZipFile(folder / "deep.eval", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "[" * 100_000)
    code, said = say("compare", "deep.eval", "deep.eval")
    assert code == 3
    assert "Traceback" not in said


@pytest.mark.parametrize(
    "usage",
    ["many", [1], {"prompt_tokens": "x"}, {"prompt_tokens": None}, {"prompt_tokens": {}}, {"prompt_tokens": -5}, 7],
)
def test_what_a_server_says_of_its_use_never_costs_an_answer(usage: Any) -> None:
    class Odd(FaultyServer):
        def complete(self, body: dict[str, Any]) -> dict[str, Any]:
            return {**super().complete(body), "usage": usage}

    with Odd() as server:
        model = connect(server)
        answers = dict(model.stream("generate_until", generations(4), [0] * 4))
        model.close()
    assert [answer.failure for answer in answers.values()] == [None] * 4
    assert model.usage.prompt_tokens == 0


def test_choices_are_read_by_their_index() -> None:
    mixed = {"choices": [{"index": 1, "text": "b"}, {"index": 0, "text": "a"}]}
    assert [choice["text"] for choice in in_order(mixed)["choices"]] == ["a", "b"]
    for odd in ({}, [], {"choices": None}, {"choices": [{"text": "b"}, {"index": 0}]}):
        assert in_order(odd) is odd


def test_show_tokens_neither_runs_nor_asks_about_code_of_a_model(folder: Path, say: Say) -> None:
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text('{"auto_map": {"AutoTokenizer": ["bait.Bait", null]}, "model_type": "x"}')
    (model / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["bait.Bait", null]}}')
    (model / "bait.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_name('RAN').write_text('ran')\nclass Bait: ...\n"
    )
    code, said = say("show", "plain.yaml", "--doc", "0", "--tokens", str(model))
    assert code in (2, 3), said
    assert "Traceback" not in said
    assert not list(folder.rglob("RAN"))


def test_a_run_that_is_told_to_end_leaves_nothing_in_the_temporary_directory(folder: Path) -> None:
    """The sandbox keeps a directory there while programs run."""
    pytest.importorskip("assay.sandbox")
    place = folder / "tmp"
    place.mkdir()
    script = (
        "import sys, time\nfrom assay.cli.entry import exit_on_sigterm\nfrom assay.sandbox import WEAK\n"
        "exit_on_sigterm()\nWEAK.run_programs([('x = 1', 'assert x == 1')])\n"
        "print('ran', flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(place)}, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ran\n"
    assert list(place.iterdir())
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    for _ in range(100):
        if not list(place.iterdir()):
            break
        time.sleep(0.1)
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["{{ 'x' * n }}", "{% for i in range(n) %}x{% endfor %}", "{{ 10 // (n - 1000000000) }}"]
)
def test_a_template_that_fails_on_a_later_doc_names_doc_and_file(folder: Path, say: Say, text: str) -> None:
    rows = [{"n": 10**9 if number == 5 else 3, "a": "y"} for number in range(8)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "later.yaml").write_text(TASK.format(name="later", text=json.dumps(text)))
    code, said = say("run", "--model", "dummy", "--tasks", "later.yaml")
    assert code in (2, 3)
    assert f"{folder / 'later.yaml'}: task later, doc 5: the template" in said
