"""A storm of SIGKILL: at any moment of a run, from its first line to its last file, over four kinds of runs.

Each kind is killed as often as `KILLS` says, at most 20 times in one directory; then the run is left to its end, its results and
samples are compared with those of a run that nothing disturbed, byte by byte, and the next one begins in an empty directory.
`make test` kills one kind a few times, `make test-wide` all of them, 225 times together.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.run.launching import Launcher, python
from tests.run.support import CHOICE, GENERATION, GROUP, results_without_times
from tests.scoring.judges.bench import TASK

pytestmark = pytest.mark.slow

KILLS = {"dummy": 60, "hf": 45, "server": 60, "judged": 60}
FEW = 4
"""In `make test`, of runs that judge, which ask two servers; `test_kill.py` holds a storm over a plain run."""
PER_RUN = 20
DOCS = 24
SCORER = 'scorer: {type: judge, template: "{{answer}} Is it {{reference}}?", generation_kwargs: {max_gen_toks: 6}}'


@pytest.fixture(scope="module")
def heavy() -> Iterator[Launcher]:
    """With all that a run of any kind imports."""
    found = Launcher("aiohttp", "torch", "transformers", "assay.models.hf", "assay.models.openai")
    yield found
    found.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    process = python("stub_server.py")
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
        "judged": [
            *server,
            "--max_unjudged",
            "1",
            "--role",
            f"judge=local-chat-completions,base_url={url},model=ngram",
        ],
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


def environment(folder: Path) -> dict[str, str]:
    return {"ASSAY_HOME": str(folder / "home"), "HF_DATASETS_CACHE": str(folder / "cache"), "CI": "true"}


def outcome(folder: Path) -> dict[str, bytes]:
    """All that a run found, byte by byte: results, samples as Parquet and as JSON lines."""
    run = folder / "run"
    files = [*(run / "samples").glob("*.parquet"), *run.glob("samples_*.jsonl")]
    assert files
    return {"results": results_without_times(folder).encode(), **{file.name: file.read_bytes() for file in files}}


def finish(launcher: Launcher, given: list[str], folder: Path) -> float:
    began = time.monotonic()
    launcher.run(given, environment(folder), folder.with_suffix(".log"))
    return time.monotonic() - began


def test_a_few_kills_while_judging_change_no_byte(launcher: Launcher, url: str, tmp_path: Path) -> None:
    storm("judged", FEW, launcher, url, tmp_path / "none", tmp_path)


@pytest.mark.wide
@pytest.mark.parametrize("kind", KILLS)
def test_killed_at_any_moment_the_results_are_the_same_to_the_byte(
    kind: str, heavy: Launcher, url: str, tiny: Path, tmp_path: Path
) -> None:
    storm(kind, KILLS[kind], heavy, url, tiny, tmp_path)


def storm(kind: str, kills: int, launcher: Launcher, url: str, tiny: Path, tmp_path: Path) -> None:
    folder = tmp_path / "here"  # every run in the same place, so that files that name it are the same too
    given = words(folder, kind, url, tiny)
    prepare(folder, kind)
    whole = finish(launcher, given, folder)
    expected = outcome(folder)
    rng, killed, came_through = random.Random(kind), 0, 0
    while killed < kills:
        folder.rename(tmp_path / f"done{came_through}")
        prepare(folder, kind)
        for _ in range(min(PER_RUN, kills - killed)):
            process, began = launcher.start(given, environment(folder), folder.with_suffix(".log")), time.monotonic()
            ends = began + rng.uniform(0, whole)
            if not process.kill_when(lambda ends=ends: time.monotonic() >= ends):
                whole = min(whole, time.monotonic() - began)  # the first run of all had everything still to read
                break
            killed += 1
        finish(launcher, given, folder)
        assert outcome(folder) == expected, f"{kind}, after {killed} kills"
        came_through += 1
        print(f"{kind}: {killed} kills, {came_through} runs came through", flush=True)
