"""A real model under test, a real server that judges, and a run that is killed while it judges."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.openai.llama_server import start, write_model
from tests.run.support import results_without_times
from tests.scoring.judges.bench import TASK

import assay
from assay.paths import assay_home
from assay.results import RunResult, read_samples

xllamacpp = pytest.importorskip("xllamacpp")
pytest.importorskip("gguf")

Command = Callable[[Path], list[str]]
DOCS = 12
SCORER = """
scorer:
  type: judge
  judges: [judge, second]
  template: "{{answer}} Is it {{reference}}?"
  generation_kwargs: {max_gen_toks: 6}
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path)
    server = start(path, 2048, at_once=1)
    yield server.listening_address
    del server


def command(folder: Path, url: str) -> list[str]:
    server = f"local-chat-completions,base_url={url},model=tiny"
    words = ["--tasks", "judged", "--include_path", str(folder), "--run_dir", str(folder / "run")]
    roles = ["--role", f"judge={server}", "--role", f"second={server},num_concurrent=1"]
    model = ["--model", "local-completions", "--model_args", f"base_url={url},model=tiny,num_concurrent=1"]
    return [sys.executable, "-m", "assay", "run", *model, *roles, *words, "--store", str(folder / "store.sqlite")]


def write_task(folder: Path) -> None:
    rows = [{"question": f"{i}?", "answer": str(i)} for i in range(DOCS)]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "judged.yaml").write_text(TASK.format(folder=folder, name="judged", more=SCORER))


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "ASSAY_HOME": str(folder / "home"), "HF_DATASETS_CACHE": str(folder / "cache"), "CI": "true"}


def answers_in(store: Path) -> int:
    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=1) as database:
            tables = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
            return max((database.execute(f"select count(*) from {name}").fetchone()[0] for name in tables), default=0)
    except sqlite3.Error:
        return 0


def run_twice(command: Command, calm: Path, killed: Path, answers: int) -> None:
    """Once in peace, and once killed as soon as the store holds so many answers, then with the same command again."""
    done = subprocess.run(command(calm), env=environment(calm), capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    process = subprocess.Popen(
        command(killed), env=environment(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while answers_in(killed / "store.sqlite") < answers and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "run" / "results.json").exists(), "it was killed before it had finished"
    subprocess.run(command(killed), env=environment(killed), capture_output=True, check=False)


def require_same_bytes(calm: Path, killed: Path, task: str) -> list[list[dict[str, Any]]]:
    """What was asked about each doc."""
    ours, theirs = (results_without_times(folder).replace(str(folder), "FOLDER") for folder in (killed, calm))
    assert ours == theirs
    rows = [list(read_samples(folder / "run" / "samples" / f"{task}.parquet")) for folder in (killed, calm)]
    assert rows[0] == rows[1]
    return [json.loads(row["questions"]) for row in rows[0]]


@pytest.mark.slow
def test_judging_that_was_killed_goes_on_to_the_same_bytes(url: str, tmp_path: Path) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    for folder in (calm, killed):
        folder.mkdir()
        write_task(folder)
    run_twice(lambda folder: command(folder, url), calm, killed, DOCS + 3)
    asked = require_same_bytes(calm, killed, "judged")[0]
    assert {question["role"] for question in asked} == {"judge", "second"}
    assert all(question["resps"] and question["failure"] is None for question in asked)


# ---------------------------------------------------------------------- the small real model, where it has been pulled

FEW = 5
SMALL = assay_home() / "models" / "smollm2-135m"
OPEN = """
include: {catalog}/demo/open.yaml
task: open_answers
scorer:
  type: judge
  kind: grade
  scale: {{the answer is correct: 1, the answer is incorrect: 0}}
  judges: [judge, second]
  question: "{{{{question}}}}"
  generation_kwargs: {{max_gen_toks: 16}}
  template: |-
    {{{{question}}}}
    The right answer:
    {{{{reference}}}}
    The answer given:
    {{{{answer}}}}

    Say whether the answer given is right. Reply: The answer is correct. Or: The answer is incorrect.
"""


@pytest.fixture
def small_url() -> Iterator[str]:
    server = start(next(SMALL.rglob("*.gguf")), 4096, at_once=1)
    yield server.listening_address
    del server


@pytest.mark.wide
@pytest.mark.skipif(not SMALL.is_dir(), reason="`assay fetch --model smollm2-135m` was not run")
def test_the_small_model_is_judged_by_a_server_and_by_itself_killed_and_resumed(small_url: str, tmp_path: Path) -> None:
    """It answers through hf. The panel is a llama.cpp server with its 4-bit weights, and hf with its chat template."""
    text = OPEN.format(catalog=Path(assay.__file__).parent / "catalog")

    def small(folder: Path) -> list[str]:
        (folder / "open.yaml").write_text(text)
        judge = f"local-chat-completions,base_url={small_url},model=small,num_concurrent=1"
        roles = ["--role", f"judge={judge}", "--role", f"second=hf,pretrained={SMALL},apply_chat_template=true"]
        words = ["--tasks", "open_answers", "--include_path", str(folder), "--run_dir", str(folder / "run")]
        model = ["--model", "hf", "--model_args", f"pretrained={SMALL}", "--limit", str(FEW)]
        return [sys.executable, "-m", "assay", "run", *model, *roles, *words, "--store", str(folder / "store.sqlite")]

    calm, killed = tmp_path / "calm", tmp_path / "killed"
    calm.mkdir()
    killed.mkdir()
    run_twice(small, calm, killed, FEW + 3)
    asked = [question for of_doc in require_same_bytes(calm, killed, "open_answers") for question in of_doc]
    assert {question["role"] for question in asked} == {"judge", "second"}
    assert all(question["resps"] and question["failure"] is None for question in asked)
    verdicts = [verdict for question in asked for verdict in question["note"]["verdicts"]]
    assert {0.0, 1.0} & set(verdicts), "some replies are verdicts"
    task = RunResult.load(calm / "run").tasks["open_answers"]
    assert {key.metric for key in task.scores} == {"grade", "grade_judge", "grade_second"}
