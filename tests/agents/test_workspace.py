"""`bash` and `python` in a sandbox of the trajectory's own: files stay between steps, and what is left is judged outside."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from assay.errors import ConfigError, ScoringError
from assay.results import MetricKey

from .scripted import Scripted, last_result, results, run, write_task

TASK = """
task: files
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: agent
doc_to_text: "Put {{word}} into out.txt, in capitals. It stands in in.txt."
agent:
  tools: [bash, python]
  sandbox:
    files: {in.txt: "{{word}}"}
    setup: "mkdir -p made && cp in.txt made/copy.txt"
  limits: {steps: 8}
metric_list:
  - {metric: file_equals, path: out.txt, column: capitals}
  - end_state: !function check.untouched
"""
CHECK = """
def untouched(doc, end_state):
    return end_state.text("in.txt") == end_state.text("made/copy.txt") == doc["word"]
"""
DOCS = [{"word": "sun", "capitals": "SUN"}, {"word": "moon", "capitals": "MOON"}]


def perfect(messages: Any, draw: int) -> Any:
    steps: list[Any] = [
        ("bash", {"command": "tr a-z A-Z < in.txt > /workspace/half.txt; pwd"}),
        ("python", {"code": "open('out.txt', 'w').write(open('half.txt').read())"}),
        ("submit", {"answer": "done"}),
    ]
    return steps[results(messages)]


def score(result: Any, metric: str) -> float:
    return result.tasks["files"].scores[MetricKey(metric, "none")].estimate.value


def test_files_stay_between_steps_and_are_judged_at_the_end(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK, DOCS, check=CHECK)
    result = run(task, Scripted(perfect), tmp_path, confirm_run_unsafe_code=True)
    assert (score(result, "file_equals"), score(result, "end_state")) == (1.0, 1.0)


def test_what_a_command_prints_and_how_it_ends_is_told(tmp_path: Path) -> None:
    said: list[str] = []

    def curious(messages: Any, draw: int) -> Any:
        commands = ["pwd", "echo out; echo err >&2; exit 3", "sleep 60", "cat /etc/shadow", "echo -e 'a\\0b'"]
        said.append(last_result(messages))
        n = results(messages)
        return ("bash", {"command": commands[n]}) if n < len(commands) else ("submit", {"answer": ""})

    task = write_task(tmp_path, TASK.replace("setup:", "seconds: 1\n    setup:"), DOCS[:1], check=CHECK)
    run(task, Scripted(curious), tmp_path, confirm_run_unsafe_code=True)
    assert said[1] == "/workspace\n"
    assert said[2] == "out\nerr\n\n[exit code 3]"
    assert "ended after 1 s" in said[3]
    assert "Permission denied" in said[4]
    assert said[5] == "a\ufffdb\n"


def test_commands_of_a_model_need_a_permission(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK, DOCS, check=CHECK)
    with pytest.raises(ConfigError, match="confirm_run_unsafe_code"):
        run(task, Scripted(perfect), tmp_path)


def test_the_network_needs_another_one(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK.replace("    setup:", "    network: true\n    setup:"), DOCS, check=CHECK)
    with pytest.raises(ConfigError, match="allow_network"):
        run(task, Scripted(perfect), tmp_path, confirm_run_unsafe_code=True)


def test_a_setup_that_fails_is_a_failed_trajectory(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK.replace("cp in.txt", "cp nowhere.txt"), DOCS, check=CHECK)
    result = run(task, Scripted(perfect), tmp_path, confirm_run_unsafe_code=True)
    assert result.tasks["files"].health.failed == 2
    assert any("setup" in reason for reason in result.tasks["files"].health.reasons)


def test_files_outside_the_sandbox_are_refused(tmp_path: Path) -> None:
    task = write_task(tmp_path, TASK.replace("files: {in.txt:", "files: {../in.txt:"), DOCS, check=CHECK)
    with pytest.raises(Exception, match="outside the sandbox"):
        run(task, Scripted(perfect), tmp_path, confirm_run_unsafe_code=True)


# A container engine by its command line: a script that does with directories what an engine does with containers.

ENGINE = r"""#!/bin/bash
echo "$@" >> "{log}"
root="{root}"
case "$1" in
  info) exit 0;;
  run) id=c$RANDOM; mkdir -p "$root/$id/workspace"; echo $id;;
  cp) if [ "$2" = "-" ]; then tar x -C "$root/${{3%%:*}}${{3#*:}}"; else tar c -C "$root/${{2%%:*}}" workspace; fi;;
  exec) id=$2; shift 2; cd "$root/$id/workspace"; exec "$@";;
  rm) rm -r "$root/$3";;
esac
"""


def test_an_image_is_run_by_the_engine_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, root = tmp_path / "log", tmp_path / "containers"
    engine = tmp_path / "bin" / "podman"
    engine.parent.mkdir()
    engine.write_text(ENGINE.format(log=log, root=root))
    engine.chmod(engine.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{engine.parent}:/usr/bin:/bin")
    text = TASK.replace("    setup:", "    image: docker.io/library/debian:12\n    setup:").replace("; pwd", "")
    task = write_task(tmp_path, text.replace("[bash, python]", "[bash]"), DOCS[:1], check=CHECK)

    def policy(messages: Any, draw: int) -> Any:
        steps = [("bash", {"command": "tr a-z A-Z < in.txt > out.txt"}), ("submit", {"answer": "done"})]
        return steps[results(messages)]

    result = run(task, Scripted(policy), tmp_path, confirm_run_unsafe_code=True, sandbox="podman")
    assert (score(result, "file_equals"), score(result, "end_state")) == (1.0, 1.0)
    started = next(line for line in log.read_text().splitlines() if line.startswith("run"))
    for word in ("--network none", "--cap-drop ALL", "no-new-privileges", "--pids-limit", "--memory"):
        assert word in started
    assert started.endswith("docker.io/library/debian:12 sleep infinity")
    assert not list(root.iterdir())


def test_an_image_without_an_engine_is_refused_before_the_first_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    task = write_task(tmp_path, TASK.replace("    setup:", "    image: debian:12\n    setup:"), DOCS, check=CHECK)
    model = Scripted(perfect)
    with pytest.raises(ScoringError, match="docker is not installed; podman is not installed"):
        run(task, model, tmp_path, confirm_run_unsafe_code=True)
    assert model.asked == 0
