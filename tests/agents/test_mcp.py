"""Tools of MCP servers: a process for each trajectory over stdio, and a server that runs already over HTTP."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ConfigError
from assay.results import MetricKey

from .scripted import Scripted, last_result, results, run, write_task

pytest.importorskip("mcp")
SERVER = Path(__file__).parent / "mcp_server.py"
TASK = """
task: served
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: agent
doc_to_text: "Add {{a}} and {{b}}."
doc_to_target: "{{c}}"
agent:
  tools: [{mcp: %s, seconds: 20}]
metric_list: [exact_match]
"""
DOCS = [{"a": 1, "b": 2, "c": "3"}, {"a": 4, "b": 5, "c": "9"}]


def adding(messages: Any, draw: int) -> Any:
    words = messages[0].content.rstrip(".").split()
    n = results(messages)
    if n < 2:
        return "add", {"n": int(words[1 if n == 0 else 3])}
    return "submit", {"answer": last_result(messages).split()[0]}


def score(result: Any) -> float:
    return result.tasks["served"].scores[MetricKey("exact_match", "none")].estimate.value


def task_with(folder: Path, server: Any) -> str:
    return write_task(folder, TASK % server, DOCS)


def command() -> str:
    return f'["{sys.executable}", "{SERVER}"]'


def test_each_trajectory_has_a_server_of_its_own(tmp_path: Path) -> None:
    assert score(run(task_with(tmp_path, command()), Scripted(adding), tmp_path)) == 1.0
    listed = subprocess.run(["ps", "ax", "-o", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in listed.splitlines() if str(SERVER) in line and f"{os.getpid()}" in line]


@pytest.mark.parametrize(("tool", "seconds", "said"), [("die", 20, "Connection closed"), ("hang", 4, "did not answer")])
def test_a_server_that_dies_or_stops_answering_fails_its_trajectory(
    tmp_path: Path, tool: str, seconds: int, said: str
) -> None:
    task = write_task(tmp_path, (TASK % command()).replace("seconds: 20", f"seconds: {seconds}"), DOCS[:1])
    result = run(task, Scripted(lambda messages, draw: (tool, {})), tmp_path)
    health = result.tasks["served"].health
    assert health.failed == 1
    assert any(said in reason for reason in health.reasons)


def test_what_a_server_declines_is_told_to_the_model(tmp_path: Path) -> None:
    told: list[str] = []

    def policy(messages: Any, draw: int) -> Any:
        if not results(messages):
            return "add", {"n": "many"}
        told.append(last_result(messages))
        return "submit", {"answer": "3"}

    run(write_task(tmp_path, TASK % command(), DOCS[:1]), Scripted(policy), tmp_path)
    assert "valid integer" in told[0]


def test_a_command_that_is_no_server_is_refused_before_the_first_request(tmp_path: Path) -> None:
    model = Scripted(adding)
    with pytest.raises(ConfigError, match="MCP server does not start"):
        run(task_with(tmp_path, '"/bin/true"'), model, tmp_path)
    assert model.asked == 0


@pytest.mark.parametrize(
    ("lie", "how"),
    [
        ("no lie", "right"),
        ("no schema", "refused"),
        ("odd name", "refused"),
        ("no object", "refused"),
        ("twice", "refused"),
        ("a thousand", "refused"),
        ("endless pages", "refused"),
        ("other tools later", "failed"),
        ("no content", "failed"),
        ("no JSON", "failed"),
        ("other id", "failed"),
        ("endless answer", "failed"),
    ],
)
def test_a_server_that_lies_is_refused_or_fails_its_trajectory(tmp_path: Path, lie: str, how: str) -> None:
    liar = f'["{sys.executable}", "{SERVER.with_name("lying_server.py")}", "{lie}", "{tmp_path / "starts"}"]'
    task = write_task(tmp_path, (TASK % liar).replace("seconds: 20", "seconds: 1"), DOCS[:1])
    model = Scripted(lambda m, draw: ("submit", {"answer": last_result(m)}) if results(m) else ("add", {}))
    if how == "refused":
        with pytest.raises(ConfigError):
            run(task, model, tmp_path)
        assert model.asked == 0
        return
    result = run(task, model, tmp_path)
    assert result.tasks["served"].health.failed == (how == "failed")
    assert how == "failed" or score(result) == 1.0


def test_over_http_calls_are_never_repeated(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(SERVER), "http", str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        task = write_task(tmp_path, TASK % f'"http://127.0.0.1:{port}/mcp"', DOCS[:1])

        class Killed(BaseException): ...

        def dying(messages: Any, draw: int) -> Any:
            if results(messages) == 1:
                raise Killed
            return adding(messages, draw)

        with pytest.raises(Killed):
            run(task, Scripted(dying), tmp_path)
        health = run(task, Scripted(adding), tmp_path).tasks["served"].health
        assert health.failed == 1
        assert any("--replay_outside" in reason for reason in health.reasons)
        other = write_task(tmp_path / "other", TASK % f'"http://127.0.0.1:{port}/mcp"', [{"a": 2, "b": 2, "c": "5"}])
        assert score(run(other, Scripted(adding), tmp_path / "other")) == 1.0  # one count for all: 1 + 2 + 2
    finally:
        server.terminate()
        server.wait()
