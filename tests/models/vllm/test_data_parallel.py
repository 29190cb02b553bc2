"""Engines in processes of their own: the same answers from several, each on its own devices; what they write, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models.vllm.asking import ask
from tests.models.vllm.conftest import Load

from assay.errors import ConfigError, ModelError
from assay.models.vllm.engines import Engines, device_groups
from assay.models.vllm.protocol import Request, Start

ARGUMENTS = {
    "model": "x",
    "tokenizer": "x",
    "dtype": "auto",
    "trust_remote_code": False,
    "tensor_parallel_size": 1,
    "seed": 0,
}


def test_devices_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3,5,7")
    assert [group["CUDA_VISIBLE_DEVICES"] for group in device_groups(2, 2)] == ["2,3", "5,7"]
    with pytest.raises(ConfigError, match="needs 6 devices"):
        device_groups(3, 2)


def test_cores_are_shared_out_unless_somebody_said_how(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "VLLM_CPU_OMP_THREADS_BIND"
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 5, 7}, raising=False)
    monkeypatch.delenv(name, raising=False)
    assert [group[name] for group in device_groups(2, 1)] == ["0,1", "2,5,7"]
    assert all(name not in group for group in device_groups(6, 1))
    monkeypatch.setenv(name, "0-3")
    assert all(name not in group for group in device_groups(2, 1))


def test_engines_share_the_requests_and_see_their_own_devices(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    engines = Engines(2, Start(ARGUMENTS, known=tuple(ARGUMENTS)))
    engines.when_ready()
    requests = [Request(tuple(b"The river"), {"max_tokens": n, "temperature": 0.0}) for n in (0, 0, 5, 5, 0)]
    outputs = dict(engines.generate(requests))
    engines.close()
    assert sorted(outputs) == list(range(5))
    assert {outputs[i].text for i in (0, 1, 4)} == {"4", "6"}
    assert outputs[2].text == outputs[3].text
    assert stand_in.read_text().count("shut down") == 2


def test_several_engines_answer_like_one(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    one, two = load(2), load(2, data_parallel_size=2)
    assert two.fingerprint() == one.fingerprint()
    text = "The river Orle begins in a field that nobody would look at twice. " * 3
    requests: dict[str, list[tuple[Any, ...]]] = {
        "loglikelihood": [("The river is", f" wide {i}") for i in range(7)] + [("", "Salt é"), ("x", ""), ("x", text)],
        "loglikelihood_rolling": [(text,), ("",), (text[7:],)],
        "generate_until": [(f"The {w}", {"temperature": 1.0, "max_gen_toks": 9}) for w in ("river", "mill", "", "a")],
    }
    for kind, asked in requests.items():
        instances = [ask(kind, *words) for words in asked]
        draws = list(range(len(asked)))
        found, expected = (dict(model.stream(kind, instances, draws)) for model in (two, one))
        assert found == expected
        assert sorted(found) == draws
    assert two.usage == one.usage


@pytest.mark.parametrize("engines", [1, 2])
def test_an_engine_that_stops_is_an_error_that_says_why_and_where_its_log_is(load: Load, engines: int) -> None:
    model = load(max_length=200, data_parallel_size=engines)  # the stand-in refuses more than 64 tokens
    with pytest.raises(ModelError, match=r"vLLM stopped: AssertionError: too long\n  All that it wrote is in .*\.log"):
        model.generate_until([ask("generate_until", "The river", {"max_gen_toks": 100})])
    model.close()
    assert "Traceback" in "".join(log.read_text() for log in model.logs)


def test_an_engine_that_is_killed_is_an_error_and_what_was_answered_before_is_there(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_DIES", "1")
    model = load(1)
    requests = [ask("loglikelihood", context, " on") for context in ("a river", "the river", "to die")]
    answered: list[int] = []
    with pytest.raises(ModelError, match="vLLM stopped: the stand-in loads x"):  # the last that it wrote
        answered.extend(position for position, _ in model.stream("loglikelihood", requests, [0] * 3))
    with pytest.raises(ModelError, match="vLLM stopped"):
        model.loglikelihood(requests[:1])


def test_an_engine_that_cannot_load_says_why(load: Load) -> None:
    with pytest.raises(ModelError, match="vLLM did not start: RuntimeError: no such weights"):
        load(pretrained="fail")


def test_what_nobody_waits_for_is_forgotten(load: Load) -> None:
    model = load(2)
    requests = [ask("loglikelihood", f"The river {i}", " is") for i in range(40)]
    next(iter(model.stream("loglikelihood", requests, [0] * 40)))
    alone = load(2).loglikelihood(requests[7:9])
    assert model.loglikelihood(requests[7:9]) == alone


def test_an_engine_ends_with_the_run_also_while_it_loads(stand_in: Path, tmp_path: Path) -> None:
    (stand_in.parent / "engine" / "vllm" / "__init__.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    begin = f"""
from assay.models.vllm.engines import Engines
from assay.models.vllm.protocol import Start
Engines(1, Start({ARGUMENTS})).when_ready()"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", begin], env=environment) as run:
        written = wait_for(lambda: ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()) or run.poll())
        run.send_signal(signal.SIGKILL)
    wait_for(lambda: not os.path.exists(f"/proc/{written}") or zombie(written))


def zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(done: Callable[[], Any]) -> Any:
    """What `done` gives as soon as it gives something; pytest's own limit ends a wait for ever."""
    while not (found := done()):
        time.sleep(0.05)
    return found


def test_the_oldest_logs_go(load: Load, stand_in: Path) -> None:
    logs = stand_in.parent / "home" / "logs"
    logs.mkdir(parents=True)
    for number in range(30):
        (logs / f"vllm-2026-01-01T00-00-{number:02}-1-0.log").touch()
    model = load()
    assert len(list(logs.iterdir())) == 20
    assert model.logs[0] == max(logs.iterdir())
    assert "the stand-in loads" in model.logs[0].read_text()
