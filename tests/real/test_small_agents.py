"""Real small models as agents, with tools as text, SmolLM2-135M through `hf` and Qwen2.5-Coder-1.5B through llama.cpp's own
server: killed, resumed, looked at and compared. What they score is their own affair."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.real.test_small_chat_model import MODEL
from tests.run.launching import Launcher

import assay
from assay.finished import open_run
from assay.instance import Instance, Message
from assay.models import load_model
from assay.paths import assay_home
from assay.results import read_samples
from assay.view.sample_view import present

SMALL = assay_home() / "models" / "smollm2-135m"
CALCULATOR = Path(assay.__file__).parent / "catalog" / "demo" / "agent" / "calculator.yaml"
KILLS = 3
TASK = f"""
include: {CALCULATOR}
task: sums
agent:
  tools: [!function assay.catalog.demo.agent.tools.calculate, !function assay.catalog.demo.agent.tools.quick_estimate]
  limits: {{steps: 3}}
metric_list: [steps, tokens]
"""

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    found = Launcher("aiohttp", "torch", "transformers", "gguf", "assay.models.hf", "assay.models.openai")
    yield found
    found.close()


@pytest.fixture
def server() -> Iterator[str]:
    pytest.importorskip("xllamacpp")
    script = Path(__file__).with_name("serve.py")
    with subprocess.Popen(
        [sys.executable, str(script), str(MODEL)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip() + "/v1"
        process.terminate()


def words(folder: Path, model: list[str]) -> list[str]:
    flags = ["--apply_chat_template", "--limit", "2", "--gen_kwargs", "max_gen_toks=80"]
    return [
        "run",
        *model,
        "--tasks",
        str(folder / "sums.yaml"),
        *flags,
        "--run_dir",
        str(folder / "run"),
        "--store",
        str(folder / "store.sqlite"),
    ]


def finish(launcher: Launcher, folder: Path, model: list[str], kills: int = 0, whole: float = 0.0) -> float:
    environment = {"CI": "true"}
    log, rng, began = folder / "log.txt", random.Random(folder.name), time.monotonic()
    for _ in range(kills):
        process = launcher.start(words(folder, model), environment, log)
        ends = time.monotonic() + rng.uniform(0.2, 1) * whole
        process.kill_when(lambda ends=ends: time.monotonic() >= ends)
    launcher.run(words(folder, model), environment, log)
    return time.monotonic() - began


def trajectories(folder: Path) -> list[dict[str, Any]]:
    """Of each doc, without measured times."""
    (file,) = (folder / "run" / "samples").iterdir()
    found = [json.loads(row["extras"])[0][0]["more"]["trajectory"] for row in read_samples(file)]
    return [untimed(each) for each in found]


def untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: untimed(each) for key, each in value.items() if key != "seconds"}
    return [untimed(each) for each in value] if isinstance(value, list) else value


def same_after_kills(launcher: Launcher, tmp_path: Path, model: list[str], text: str) -> Path:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
        (folder / "sums.yaml").write_text(text)
    seconds = finish(launcher, whole, model)
    finish(launcher, cut, model, KILLS, seconds)
    expected = trajectories(whole)
    assert len(expected) == 2
    assert trajectories(cut) == expected
    (row, *_) = assay.compare(str(whole / "run"), str(cut / "run"), metric="steps").rows
    assert row.difference.estimate.value == 0.0
    (file,) = (cut / "run" / "samples").iterdir()
    sample = present(list(read_samples(file)), {"output_type": "agent"}, 0)
    assert "assistant" in [turn.role for turn in sample.responses[0].conversation]
    assert open_run(cut / "run").result.tasks["sums"].health.failed == 0
    return whole


@pytest.mark.skipif(not SMALL.is_dir(), reason="`assay fetch --model smollm2-135m` was not run")
def test_through_hf(launcher: Launcher, tmp_path: Path) -> None:
    model = ["--model", "hf", "--model_args", "pretrained=smollm2-135m,dtype=float32", "--device", "cpu"]
    whole = same_after_kills(launcher, tmp_path, model, TASK + "tool_protocol: text\n")
    requests = [request for each in trajectories(whole) for request in requests_of(each)]
    lm = load_model("hf", {"pretrained": "smollm2-135m", "dtype": "float32", "device": "cpu"})
    distinct = lm.count_tokens(
        "generate_until",
        [Instance("generate_until", {}, (lm.to_context(each, True), {}), 0) for each in requests],
    )
    lm.close()
    spent = json.loads((whole / "run" / "run.json").read_text())["counts"]
    assert spent["tokens_computed"] <= 1.02 * distinct
    assert spent["tokens_asked"] > 1.5 * distinct, "each step's request extends the last"


def requests_of(trajectory: dict[str, Any]) -> Iterator[tuple[Message, ...]]:
    """What the model was sent at each step."""
    said = [Message.from_dict(each) for each in trajectory["conversation"]]
    for place, message in enumerate(said):
        if message.role == "assistant":
            yield tuple(said[:place])


@pytest.mark.skipif(not MODEL.is_file(), reason=f"the model is not at {MODEL}; `make test-real` fetches it")
def test_through_a_server(launcher: Launcher, server: str, tmp_path: Path) -> None:
    arguments = f"base_url={server},model=qwen,num_concurrent=1"
    # It writes its calls into fences, whatever it is offered, and this server does not read those as calls.
    text = TASK + "tool_protocol: text\n"
    whole = same_after_kills(launcher, tmp_path, ["--model", "local-chat-completions", "--model_args", arguments], text)
    # It answers in words first, and submits when it is shown how.
    assert [each["ended"] for each in trajectories(whole)] == ["submitted"] * 2
