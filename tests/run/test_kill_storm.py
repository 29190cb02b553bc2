"""A storm of SIGKILL: at any moment of a run, from its first line to its last file, over six kinds of runs.

Each kind is killed as often as `KILLS` says, at most 20 times in one directory; then the run is left to its end, its results and
samples are compared with those of a run that nothing disturbed, byte by byte, and the next one begins in an empty directory.
`make test` kills one kind a few times, `make test-wide` all of them, 305 times together.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.run.launching import Launcher, python
from tests.run.support import CHOICE, GENERATION, GROUP, results_without_times
from tests.scoring.judges.bench import TASK

from assay.paths import assay_home
from assay.results import read_samples

pytestmark = pytest.mark.slow

KILLS = {"dummy": 60, "hf": 45, "server": 60, "judged": 60, "agents": 60, "small": 20}
"""`small` is the real small model, which `assay fetch --model smollm2-135m` brings."""
FEW = 4
"""In `make test`, of runs that judge, which ask two servers, and of agents; `test_kill.py` holds a storm over a plain run."""
PER_RUN = 20
SMALL = assay_home() / "models" / "smollm2-135m"
DOCS = 24
SCORER = 'scorer: {type: judge, template: "{{answer}} Is it {{reference}}?", generation_kwargs: {max_gen_toks: 6}}'
AGENTS = """
task: both
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/docs.jsonl}}}}
test_split: test
output_type: agent
doc_to_text: "Count to {{{{n}}}}."
generation_kwargs: {{do_sample: true, temperature: 1.0}}
agent:
  tools: [bash, !function tools.Counter]
  sandbox: {{files: {{n.txt: "{{{{n}}}}"}}, seconds: 20}}
metric_list: [steps, {{end_state: !function tools.counted}}, {{metric: file_equals, path: out.txt, column: out}}]
"""
TOOLS = """
import time
from assay.instance import Response
from assay.models import LM, Capabilities, ModelInfo
import json

class Counter:
    def __init__(self):
        self.n = 0

    def add(self) -> str:
        "Add one."
        time.sleep(0.02)
        self.n += 1
        return str(self.n)

def counted(doc, end_state):
    return end_state.tools["Counter"]["n"] == doc["n"]

class Agent(LM):
    chat = "messages"

    def info(self):
        return ModelInfo("agent", capabilities=Capabilities(tools=True))

    def fingerprint(self):
        return "agent"

    def generate_until(self, requests):
        time.sleep(0.02)
        return [self.answer(request.args[0], request.draw) for request in requests]

    def answer(self, messages, draw):
        wanted = int(messages[0].content.split()[-1].rstrip("."))
        done = sum(message.role == "tool" for message in messages)
        name, arguments = ("add", {{}}) if done % 2 else ("bash", {{"command": f"echo {{done}} {{draw}} >> log; pwd; cat log"}})
        if done == 2 * wanted:
            name, arguments = "bash", {{"command": "wc -l < log > out.txt"}}
        if done > 2 * wanted:
            name, arguments = "submit", {{"answer": messages[-2].content}}
        return Response("", tokens=(9, 3), tool_calls=({{"id": str(done), "type": "function",
                        "function": {{"name": name, "arguments": json.dumps(arguments)}}}},))

    def loglikelihood(self, requests): ...

    def loglikelihood_rolling(self, requests): ...
"""


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
    elif kind == "agents":
        rows = [{"n": i % 4 + 1, "out": str(i % 4 + 1)} for i in range(DOCS // 3)]
        (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "both.yaml").write_text(AGENTS.format(folder=folder))
        (folder / "tools.py").write_text(TOOLS.format())
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
        "small": [
            "--model",
            "hf",
            "--model_args",
            f"pretrained={next(SMALL.glob('*.gguf'), SMALL)}",
            "--device",
            "cpu",
        ],
        "server": server,
        "judged": [
            *server,
            "--max_unjudged",
            "1",
            "--role",
            f"judge=local-chat-completions,base_url={url},model=ngram",
        ],
        "agents": [
            "--model",
            f"{folder}/tools.py:Agent",
            "--apply_chat_template",
            "--confirm_run_unsafe_code",
            "--repeats",
            "2",
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
    """All that a run found, byte by byte: results, samples as Parquet and as JSON lines. Of agents, all but measured times."""
    run = folder / "run"
    files = [*(run / "samples").glob("*.parquet"), *run.glob("samples_*.jsonl")]
    assert files
    found = {"results": results_without_times(folder).encode(), **{file.name: file.read_bytes() for file in files}}
    if not (folder / "tools.py").exists():
        return found
    rows = [row for file in files if file.suffix == ".parquet" for row in read_samples(file)]
    for row in rows:
        row["extras"] = untimed(json.loads(row["extras"]))
    lines = [json.loads(line) for file in files if file.suffix == ".jsonl" for line in file.read_text().splitlines()]
    return {"results": found["results"], "rows": repr(rows).encode(), "lines": repr(untimed(lines)).encode()}


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: untimed(each) for key, each in value.items() if key != "seconds"}
    return [untimed(each) for each in value] if isinstance(value, list) else value


def finish(launcher: Launcher, given: list[str], folder: Path) -> float:
    began = time.monotonic()
    launcher.run(given, environment(folder), folder.with_suffix(".log"))
    return time.monotonic() - began


@pytest.mark.parametrize("kind", ["judged", "agents"])
def test_a_few_kills_change_no_byte(kind: str, launcher: Launcher, url: str, tmp_path: Path) -> None:
    storm(kind, FEW, launcher, url, tmp_path / "none", tmp_path)


@pytest.mark.wide
@pytest.mark.parametrize("kind", KILLS)
def test_killed_at_any_moment_the_results_are_the_same_to_the_byte(
    kind: str, heavy: Launcher, url: str, tiny: Path, tmp_path: Path
) -> None:
    if kind == "small" and not SMALL.is_dir():
        pytest.skip("`assay fetch --model smollm2-135m` was not run")
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
