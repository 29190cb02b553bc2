"""Task directories of Harbor and terminal-bench: in the sandbox where they need no image, in a container, or refused."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.catalog.agents import harbor
from assay.errors import AssayError
from assay.results import MetricKey, read_samples

from .scripted import Scripted, last_result, results

TOML = """schema_version = "1.4"
[metadata]
difficulty = "easy"
[verifier]
timeout_sec = 60.0
[agent]
timeout_sec = 60.0
[environment]
build_timeout_sec = 600.0
"""
DOCKERFILE = """FROM ubuntu:24.04

# What the agent finds.
WORKDIR /app
COPY numbers.txt notes/ ./
COPY numbers.txt /app/copies/first.txt
"""
INSTRUCTION = "<!-- harbor-canary GUID 0 -->\n\nWrite the sum of /app/numbers.txt to /app/answer.txt.\n"
TEST_SH = """#!/bin/bash
if python3 /tests/right.py /app/answer.txt; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""
RIGHT = "import sys\nfrom pathlib import Path\nsys.exit(Path('/app/answer.txt').read_text().split() != ['6'])\n"
TERMINAL_BENCH = """#!/bin/bash
echo "=== short test summary info ==="
if [ "$(cat /app/answer.txt)" = 6 ]; then echo "PASSED $TEST_DIR/test_outputs.py::test_sum"
else echo "FAILED $TEST_DIR/test_outputs.py::test_sum - assert"; fi
"""


def harbor_dir(root: Path, name: str = "sum", **changed: str) -> Path:
    """A task as its documentation describes it; `changed` replaces files, `_` standing for `/` and `.` by their place."""
    files = {
        "task.toml": TOML,
        "instruction.md": INSTRUCTION,
        "environment/Dockerfile": DOCKERFILE,
        "environment/numbers.txt": "1\n2\n3\n",
        "environment/notes/hint.md": "Add them.\n",
        "tests/test.sh": TEST_SH,
        "tests/right.py": RIGHT,
        "solution/solve.sh": "echo 6 > /app/answer.txt\n",
    }
    for path, text in {**files, **changed}.items():
        if text:
            target = root / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return root / name


def terminal_bench_dir(root: Path, **changed: str) -> Path:
    files = {
        "task.yaml": "instruction: Write 6 to /app/answer.txt.\ndifficulty: easy\nparser_name: pytest\n",
        "Dockerfile": "FROM python:3.13-slim\nWORKDIR /app\n",
        "docker-compose.yaml": "services:\n  client:\n    build: {dockerfile: Dockerfile}\n",
        "run-tests.sh": TERMINAL_BENCH,
        "tests/test_outputs.py": "def test_sum(): ...\n",
        "solution.sh": "echo 6 > /app/answer.txt\n",
    }
    for path, text in {**files, **changed}.items():
        target = root / "bench-sum" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root / "bench-sum"


def commands(*words: str) -> Any:
    def policy(messages: Any, draw: int) -> Any:
        n = results(messages)
        return ("bash", {"command": words[n]}) if n < len(words) else ("submit", {"answer": last_result(messages)})

    return policy


SOLVE = commands("awk '{s+=$1} END {print s}' /app/numbers.txt > /app/answer.txt")


def run(tasks: Path, model: Any, folder: Path, **options: Any) -> Any:
    metadata = {"path": str(tasks), **options.pop("metadata", {})}
    given = {"run_dir": str(folder / "run"), "store": str(folder / "store.sqlite"), "confirm_run_unsafe_code": True}
    result = assay.evaluate(
        model=model if isinstance(model, Scripted) else Scripted(model),
        tasks=["harbor_tasks"],
        metadata=metadata,
        apply_chat_template=True,
        **{**given, **options},
    )
    return result.tasks["harbor_tasks"]


def reward(result: Any) -> float:
    return float(result.scores[MetricKey("reward", "none")].estimate.value)


def calls(folder: Path) -> list[str]:
    (file,) = (folder / "run" / "samples").iterdir()
    rows = [json.loads(row["extras"]) for row in read_samples(file)]
    return [call["result"] for row in rows for call in row[0][0]["more"]["trajectory"]["calls"]]


@pytest.mark.parametrize("make", [harbor_dir, terminal_bench_dir])
@pytest.mark.parametrize(("answer", "right"), [("6", 1.0), ("7", 0.0)])
def test_tests_decide_in_the_place_where_the_agent_worked(make: Any, answer: str, right: float, tmp_path: Path) -> None:
    make(tmp_path / "tasks")
    result = run(tmp_path / "tasks", commands(f"cd /app && echo {answer} > answer.txt"), tmp_path)
    assert (reward(result), result.health.failed) == (right, 0)


def test_the_environment_is_what_the_dockerfile_copies(tmp_path: Path) -> None:
    harbor_dir(tmp_path / "tasks")
    look = commands("find /app -type f ! -path '*/.tmp/*' | sort; pwd", "ls /tests /logs /solution /app/.check")
    run(tmp_path / "tasks", look, tmp_path)
    seen, hidden = calls(tmp_path)
    assert seen.split() == ["/app/copies/first.txt", "/app/hint.md", "/app/numbers.txt", "/app"]
    assert hidden.count("cannot access") == 4


def test_a_trajectory_that_was_finished_needs_no_sandbox(tmp_path: Path) -> None:
    harbor_dir(tmp_path / "tasks")
    first = run(tmp_path / "tasks", SOLVE, tmp_path)
    model = Scripted(SOLVE)
    again = run(tmp_path / "tasks", model, tmp_path, run_dir=str(tmp_path / "again"))
    assert (reward(first), reward(again), model.asked) == (1.0, 1.0, 0)


@pytest.mark.parametrize(
    "trick",
    [
        "ln -s / /app/.check",
        "mkdir -p /app/.check/logs/verifier && echo 1 > /app/.check/logs/verifier/reward.txt",
        "ln -s /etc/passwd /app/.check; mkdir -p x; ln -s x /app/.check2",
        "mkdir -p /app/.check/tests && printf 'echo 1 > /logs/verifier/reward.txt' > /app/.check/tests/test.sh",
        "mkfifo /app/.check",
        "(while true; do mkdir -p /app/.check/logs/verifier; echo 1 > /app/.check/logs/verifier/reward.json; done) & sleep 0.1",
        "mkdir /app/.check && chmod 0 /app/.check",
    ],
)
def test_what_an_agent_prepares_for_the_tests_is_gone_when_they_run(trick: str, tmp_path: Path) -> None:
    harbor_dir(tmp_path / "tasks")
    result = run(tmp_path / "tasks", commands(trick), tmp_path)
    assert (reward(result), result.health.failed) == (0.0, 0)


def test_tests_that_decide_nothing_have_failed_and_are_not_wrong(tmp_path: Path) -> None:
    harbor_dir(tmp_path / "tasks", **{"tests/test.sh": "echo no verdict\n"})
    result = run(tmp_path / "tasks", SOLVE, tmp_path)
    assert result.health.failed == 1
    assert any("reward.txt" in reason for reason in result.health.reasons)


def test_tests_that_never_end_have_failed(tmp_path: Path) -> None:
    toml = TOML.replace("timeout_sec = 60.0\n[agent]", "timeout_sec = 0.5\n[agent]")
    harbor_dir(tmp_path / "tasks", **{"task.toml": toml, "tests/test.sh": "#!/bin/bash\nsleep 60\n"})
    result = run(tmp_path / "tasks", SOLVE, tmp_path)
    assert result.health.failed == 1
    assert any("timed out" in reason for reason in result.health.reasons)


@pytest.mark.parametrize(
    ("written", "value"),
    [('{"reward": 0.25, "style": 1}', 0.25), ('{"a": 1, "b": 0}', 0.5), ("0.5", 0.5), ('"x"', None), ("{}", None)],
)
def test_rewards_are_read_as_they_are_written(written: str, value: float | None) -> None:
    assert harbor._number(json.loads(written)) == value


def test_paths_are_those_of_the_task_in_all_that_is_stored(tmp_path: Path) -> None:
    """A file that holds its own path must not say where the sandbox was."""
    harbor_dir(tmp_path / "tasks")
    run(tmp_path / "tasks", commands("echo /app/x > answer.txt; cat answer.txt; echo /apple /my/app"), tmp_path)
    (file,) = (tmp_path / "run" / "samples").iterdir()
    (row,) = read_samples(file)
    assert calls(tmp_path) == ["/app/x\n/apple /my/app\n"]
    end = json.loads(row["extras"])[0][0]["more"]["trajectory"]["end_state"]
    assert "/app/x" in json.dumps(end)
    assert "assay-sandbox" not in row["extras"]


# -- images ------------------------------------------------------------------------------------------------------------------

ENGINE = r"""#!/bin/bash
echo "$@" >> "{log}"
root="{root}"
case "$1" in
  info) exit 0;;
  image) grep -qx "$3" "$root/images" 2>/dev/null;;
  build) [ -f "$4/Dockerfile" ] && echo "$3" >> "$root/images";;
  run) id=c$RANDOM; mkdir -p "$root/$id/app"; echo $id;;
  cp) if [ "$2" = "-" ]; then tar x -C "$root/${{3%%:*}}${{3#*:}}"
      else from="$root/${{2%%:*}}${{2#*:}}"; tar c -C "$(dirname "$from")" "$(basename "$from")"; fi;;
  exec) id=$2; shift 2; cd "$root/$id/app"; here="$root/$id"; words=()
      for word in "$@"; do word="${{word//\/tests/$here/tests}}"; words+=("${{word//\/logs/$here/logs}}"); done
      exec "${{words[@]}}";;
  rm) rm -r "$root/$3";;
esac
"""
IN_CONTAINER = (
    '#!/bin/bash\nhere="$(dirname "$0")"; [ "$(cat answer.txt)" = 6 ] && echo 1 > "$here/../logs/verifier/reward.txt"\n'
)


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that does with directories what an engine does with containers; what it was told, line by line."""
    log, script = tmp_path / "log", tmp_path / "bin" / "podman"
    script.parent.mkdir()
    (tmp_path / "containers").mkdir()
    script.write_text(ENGINE.format(log=log, root=tmp_path / "containers"))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    return log


def test_a_task_with_a_dockerfile_of_its_own_runs_in_its_image_which_is_built_once(
    engine: Path, tmp_path: Path
) -> None:
    needs = DOCKERFILE + "RUN mkdir -p /data\n"
    harbor_dir(tmp_path / "tasks", **{"environment/Dockerfile": needs, "tests/test.sh": IN_CONTAINER})
    result = run(tmp_path / "tasks", commands("echo 6 > answer.txt"), tmp_path, sandbox="podman", repeats=2)
    assert (reward(result), result.health.failed) == (1.0, 0)
    told = engine.read_text().splitlines()
    (built,) = [line for line in told if line.startswith("build")]
    image = built.split()[2]
    assert image.startswith("assay-harbor/sum:")
    started = [line for line in told if line.startswith("run")]
    assert len(started) == 2
    for line in started:
        assert "--workdir /app" in line
        assert "--network none" in line  # the task may have it, but the user does not allow it
        assert "--cap-add" not in line
        assert line.endswith(f"{image} sleep infinity")


def test_the_name_of_an_image_is_that_of_what_it_is_built_from(tmp_path: Path) -> None:
    needs = {"environment/Dockerfile": DOCKERFILE + "RUN make\n"}
    one, same = harbor_dir(tmp_path / "a", **needs), harbor_dir(tmp_path / "b", **needs)
    other = harbor_dir(tmp_path / "c", **needs, **{"environment/numbers.txt": "4\n"})
    docs = [harbor.task_of(each) for each in (one, same, other)]
    assert docs[0] == docs[1]
    assert docs[0]["workspace"] != docs[2]["workspace"]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"environment/Dockerfile": DOCKERFILE + "RUN make\n"}, "docker is not installed; podman is not installed"),
        ({"task.toml": TOML + 'docker_image = "python:3.13-slim"\n'}, "a container of python:3.13-slim"),
        ({"tests/test.sh": "apt-get install -y x\n"}, "cannot do without the network"),
        ({"tests/test.sh": "pytest /tests\n"}, "docker is not installed"),
    ],
)
def test_what_cannot_be_had_is_said_before_the_first_request(
    changed: dict[str, str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    harbor_dir(tmp_path / "tasks")
    harbor_dir(tmp_path / "tasks", "other", **changed)
    model = Scripted(SOLVE)
    with pytest.raises(AssayError, match=why):
        run(tmp_path / "tasks", model, tmp_path)
    assert model.asked == 0
    assert reward(run(tmp_path / "tasks", model, tmp_path, metadata={"only": "sandbox"})) == 1.0


UNFIT = {
    "several steps": {"task.toml": TOML + '[[steps]]\nname = "one"\n'},
    "for Windows": {"task.toml": TOML + 'os = "Windows"\n'},
    "a GPU": {"task.toml": TOML + "gpus = 1\n"},
    "MCP servers": {"task.toml": TOML + '[[environment.mcp_servers]]\nname = "x"\nurl = "http://x"\n'},
    "environment variables": {"task.toml": TOML + 'env = {A = "b"}\n'},
    "an environment of their own": {
        "task.toml": TOML.replace("[verifier]", '[verifier]\nenvironment_mode = "separate"')
    },
    "names users": {"task.toml": TOML.replace("[agent]", '[agent]\nuser = "somebody"')},
    "some hosts": {"task.toml": TOML + 'network_mode = "allowlist"\nallowed_hosts = ["a.example"]\n'},
    "several containers": {"environment/docker-compose.yaml": "services: {}\n"},
    "no tests/test.sh": {"tests/test.sh": ""},
    "no instruction": {"instruction.md": "# canary\n"},
    "Invalid value|Expected": {"task.toml": "x = \n"},
}


@pytest.mark.parametrize("why", UNFIT)
def test_tasks_that_ask_for_more_are_refused_with_the_reason_or_left_out(why: str, tmp_path: Path) -> None:
    harbor_dir(tmp_path / "tasks")
    harbor_dir(tmp_path / "tasks", "unfit", **UNFIT[why])
    with pytest.raises(AssayError, match=why):
        run(tmp_path / "tasks", SOLVE, tmp_path)
    assert reward(run(tmp_path / "tasks", SOLVE, tmp_path, metadata={"only": "fit"})) == 1.0


@pytest.mark.parametrize(
    ("dockerfile", "why"),
    [
        ("FROM ubuntu:24.04\nWORKDIR /app\n", ""),
        ("FROM python:3.13-slim\nWORKDIR /srv/x\nCOPY . .\nCMD bash\n", ""),
        ("FROM ghcr.io/a/b:1\nWORKDIR /app\n", "FROM ghcr.io"),
        ("FROM ubuntu\nWORKDIR /app\nRUN apt-get \\\n  install x\n", "RUN apt-get"),
        ("FROM ubuntu\nWORKDIR /app\nCOPY --from=x /y /z\n", "COPY --from"),
        ("FROM ubuntu\nWORKDIR /app\nCOPY numbers.txt /etc/numbers\n", "COPY numbers.txt"),
        ("FROM ubuntu\nWORKDIR /app\nCOPY ../tests/right.py .\n", "COPY ../tests"),
        ("FROM ubuntu\n", "it works in /"),
        ("FROM ubuntu\nWORKDIR /usr/bin\n", "it works in /usr/bin"),
    ],
)
def test_what_the_sandbox_can_do_of_a_dockerfile(dockerfile: str, why: str, tmp_path: Path) -> None:
    folder = harbor_dir(tmp_path, **{"environment/Dockerfile": dockerfile})
    found = harbor.environment(folder / "environment", None, None).needs_image
    assert (why in found) if why else not found


def test_a_link_out_of_the_task_is_refused(tmp_path: Path) -> None:
    folder = harbor_dir(tmp_path / "tasks")
    (folder / "tests" / "secret.txt").symlink_to("/etc/passwd")
    with pytest.raises(AssayError, match="link to somewhere else"):
        run(tmp_path / "tasks", SOLVE, tmp_path)


@pytest.mark.parametrize("name", ["task.toml", "instruction.md", "environment/Dockerfile"])
@pytest.mark.parametrize("kind", ["link", "pipe", "bytes"])
def test_files_that_are_not_the_tasks_own_texts_are_refused(name: str, kind: str, tmp_path: Path) -> None:
    folder = harbor_dir(tmp_path / "tasks")
    (folder / name).unlink()
    if kind == "link":
        (folder / name).symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AssayError, match=r"sum|no directory with task.toml"):
        harbor.docs(str(tmp_path / "tasks"))


TYPES = ("true", "-1", "1e308", '"text"', "[]", "[[1]]", "{}", "{a = 1}", "1979-05-27")


@pytest.mark.parametrize("wrong", TYPES)
@pytest.mark.parametrize(
    "key",
    [
        "task",
        "environment",
        "verifier",
        "agent",
        "steps",
        *(f"environment.{each}" for each in ("docker_image", "workdir", "os", "env", "network_mode", "mcp_servers")),
        *(f"verifier.{each}" for each in ("timeout_sec", "env", "environment_mode")),
        "task.name",
        "agent.user",
    ],
)
def test_wrong_types_are_a_task_that_is_refused_with_the_reason_or_one_that_runs(
    key: str, wrong: str, tmp_path: Path
) -> None:
    folder = harbor_dir(tmp_path / "tasks", **{"task.toml": f"{key} = {wrong}\n"})
    said, docs = "", []
    try:
        docs = harbor.docs(str(tmp_path / "tasks"))["test"]
    except AssayError as error:
        said = str(error)
    assert docs or str(folder) in said
    assert all(isinstance(doc["id"], str) and harbor.workspace(doc).check is not None for doc in docs)


@pytest.mark.parametrize("kind", ["a pipe", "too large"])
def test_what_a_dockerfile_copies_is_a_plain_file(kind: str, tmp_path: Path) -> None:
    folder = harbor_dir(tmp_path)
    (folder / "environment" / "Dockerfile").write_text("FROM ubuntu\nWORKDIR /app\nCOPY odd /app/odd\n")
    if kind == "a pipe":
        os.mkfifo(folder / "environment" / "odd")
    else:
        with (folder / "environment" / "odd").open("wb") as file:
            file.truncate(8 << 30)
    with pytest.raises(AssayError, match=r"odd cannot be read|more than"):
        harbor.docs(str(tmp_path))


def test_no_directory_is_an_error_that_says_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="--metadata path="):
        assay.evaluate(
            model=Scripted(SOLVE), tasks=["harbor_tasks"], apply_chat_template=True, confirm_run_unsafe_code=True
        )
    with pytest.raises(AssayError, match=r"no directory with task.toml"):
        run(tmp_path, SOLVE, tmp_path)
    with pytest.raises(AssayError, match="sandbox, or fit"):
        run(tmp_path, SOLVE, tmp_path, metadata={"only": "fitt"})
