"""A real model under test, a real server that judges, and a run that is killed while it judges."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.models.openai.test_real_server import write_model
from tests.run.support import results_without_times
from tests.scoring.judges.bench import TASK

from assay.results import read_samples

xllamacpp = pytest.importorskip("xllamacpp")
pytest.importorskip("gguf")

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
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.port, params.warmup = 2048, 1, 0, False
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
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


@pytest.mark.slow
def test_judging_that_was_killed_goes_on_to_the_same_bytes(url: str, tmp_path: Path) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    for folder in (calm, killed):
        folder.mkdir()
        write_task(folder)
    done = subprocess.run(command(calm, url), env=environment(calm), capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    process = subprocess.Popen(
        command(killed, url), env=environment(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while answers_in(killed / "store.sqlite") < DOCS + 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(command(killed, url), env=environment(killed), capture_output=True, check=False)
    ours, theirs = (results_without_times(folder).replace(str(folder), "FOLDER") for folder in (killed, calm))
    assert ours == theirs
    rows = [list(read_samples(folder / "run" / "samples" / "judged.parquet")) for folder in (killed, calm)]
    assert rows[0] == rows[1]
    asked = json.loads(rows[0][0]["questions"])
    assert {question["role"] for question in asked} == {"judge", "second"}
    assert all(question["resps"] and question["failure"] is None for question in asked)
