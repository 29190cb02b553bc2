"""A storm of SIGKILL: at any moment of a run, from its first line to its last file, over four kinds of runs.

Each kind is killed as often as `KILLS` says, at most 20 times in one directory; then the run is left to its end, its results and samples are compared with those of
a run that nothing disturbed, byte by byte, and the next one begins in an empty directory.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.run.support import CHOICE, GENERATION, GROUP, results_without_times
from tests.scoring.judges.bench import TASK

from assay.results import read_samples

pytestmark = [pytest.mark.wide, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
KILLS = {"dummy": 60, "hf": 40, "server": 60, "judged": 40}
PER_RUN = 20
DOCS = 24
SCORER = 'scorer: {type: judge, template: "{{answer}} Is it {{reference}}?", generation_kwargs: {max_gen_toks: 6}}'


@dataclass
class Launcher:
    process: subprocess.Popen[str]

    def start(self, words: list[str], folder: Path) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        env = {
            "ASSAY_HOME": str(folder / "home"),
            "HF_DATASETS_CACHE": str(folder / "cache"),
            "CI": "true",
            "LAUNCH_LOG": str(folder.with_suffix(".log")),
        }
        self.process.stdin.write(json.dumps({"words": words, "env": env}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    process = _child("launcher.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield Launcher(process)
    process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    process = _child("stub_server.py")
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.communicate("")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.models.hf.conftest import make_network, make_tokenizer

    place = tmp_path_factory.mktemp("tiny")
    make_network("llama").save_pretrained(place)
    make_tokenizer().save_pretrained(place)
    return place


def _child(name: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name(name))],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def prepare(folder: Path, kind: str) -> Path:
    folder.mkdir()
    for name, count in (("train", 6), ("test", DOCS)):
        rows = [{"question": f"{name} {i} + {i * 7 % 5}", "answer": i % 3} for i in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if kind == "judged":
        rows = [{"question": f"{i}?", "answer": str(i)} for i in range(DOCS)]
        (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "both.yaml").write_text(TASK.format(folder=folder, name="both", more=SCORER))
    else:
        (folder / "colours.yaml").write_text(CHOICE.format(folder=folder))
        (folder / "sums.yaml").write_text(GENERATION.format(folder=folder))
        (folder / "both.yaml").write_text(GROUP)
    return folder


def words(folder: Path, kind: str, url: str, tiny: Path) -> list[str]:
    server = ["--model", "local-completions", "--model_args", f"base_url={url},model=ngram,num_concurrent=4"]
    model = {
        "dummy": ["--model", "dummy"],
        "hf": ["--model", "hf", "--model_args", f"pretrained={tiny}", "--device", "cpu"],
        "server": server,
        "judged": [*server, "--role", f"judge=local-chat-completions,base_url={url},model=ngram"],
    }[kind]
    return [
        "run",
        *model,
        "--tasks",
        "both",
        "--include_path",
        str(folder),
        "--run_dir",
        str(folder / "run"),
        "--log_samples",
    ]


def outcome(folder: Path) -> Any:
    files = sorted((folder / "run" / "samples").glob("*.parquet"))
    rows = {file.name: [str(row).replace(str(folder), "FOLDER") for row in read_samples(file)] for file in files}
    lines = {file.name: file.read_bytes() for file in sorted((folder / "run").glob("samples_*.jsonl"))}
    return results_without_times(folder).replace(str(folder), "FOLDER"), rows, {k: len(v) for k, v in lines.items()}


def finish(launcher: Launcher, given: list[str], folder: Path, seconds: float = 300) -> float:
    began = time.monotonic()
    number = launcher.start(given, folder)
    while is_alive(number):
        assert time.monotonic() - began < seconds, folder.with_suffix(".log").read_text()
        time.sleep(0.005)
    return time.monotonic() - began


@pytest.mark.parametrize("kind", KILLS)
def test_killed_at_any_moment_the_results_are_the_same_to_the_byte(
    kind: str, launcher: Launcher, url: str, tiny: Path, tmp_path: Path
) -> None:
    calm = prepare(tmp_path / "calm", kind)
    whole = finish(launcher, words(calm, kind, url, tiny), calm)
    expected = outcome(calm)
    rng, kills, came_through = random.Random(kind), 0, 0
    while kills < KILLS[kind]:
        folder = prepare(tmp_path / f"killed{came_through}", kind)
        given = words(folder, kind, url, tiny)
        for _ in range(PER_RUN):
            number, began = launcher.start(given, folder), time.monotonic()
            ends = began + rng.uniform(0, whole)
            while is_alive(number) and time.monotonic() < ends:
                time.sleep(0.002)
            if not is_alive(number):
                whole = min(whole, time.monotonic() - began)  # the first run of all had everything still to read
                break
            os.kill(number, signal.SIGKILL)
            kills += 1
            while is_alive(number):
                time.sleep(0.002)
        finish(launcher, given, folder)
        assert outcome(folder) == expected, f"{kind}, after {kills} kills"
        came_through += 1
        print(f"{kind}: {kills} kills, {came_through} runs came through", flush=True)
