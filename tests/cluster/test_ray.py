"""The same run on a cluster: two nodes on this machine, which come and go."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.run.rounds import write_rounds

from assay.cluster.connection import Resources
from assay.cluster.lm import ClusterLM
from assay.cluster.pool import ReplicaPool
from assay.cluster.replica import ModelSpec
from assay.config import RunConfig
from assay.errors import ConfigError, ModelError
from assay.instance import Instance
from assay.results import RunResult
from assay.run import Counts, Quiet, execute
from assay.store import ResponseStore

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

CRASHING = '''
import os, time
from assay.models.dummy import DummyLM


class Crashing(DummyLM):
    """Dies of one request, raises at another, and takes its time."""

    def __init__(self, seconds: float = 0.0, driver: int = 0) -> None:
        super().__init__()
        self.seconds = seconds
        if driver and os.getpid() != driver:
            raise FileNotFoundError("weights.bin is only on the driver")

    def stream(self, request_type, instances, draws, stop=lambda: False):
        for instance in instances:
            if "POISON" in instance.args[0]:
                os._exit(1)
            if "RAISE" in instance.args[0]:
                raise ZeroDivisionError("a bug in the model")
        time.sleep(self.seconds * len(instances))
        yield from super().stream(request_type, instances, draws)
'''


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # A lost node is noticed within a second or two instead of half a minute.
    fast = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500, "health_check_failure_threshold": 3}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "include_dashboard": False,
            "_system_config": fast,
            "object_store_memory": 80_000_000,
        },
    )
    cluster.add_node(num_cpus=8, object_store_memory=80_000_000)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture
def crashing(tmp_path: Path) -> str:
    (tmp_path / "crashing.py").write_text(CRASHING)
    return f"{tmp_path}/crashing.py:Crashing"


def config(tmp_path: Path, name: str, **settings: Any) -> RunConfig:
    defaults = {
        "model": "ngram",
        "tasks": ["demo"],
        "run_dir": str(tmp_path / name),
        "store": str(tmp_path / f"{name}.sqlite"),
        "bootstrap_iters": 50,
        "cpus_per_replica": 1.0,
    }
    return RunConfig(**{**defaults, **settings})


def results(outcome: RunResult) -> bytes:
    """results.json, without what depends on when it ran."""
    found = outcome.to_dict()
    del found["date"], found["total_evaluation_time_seconds"]
    return json.dumps(found, default=str).encode()


def counts(outcome: RunResult) -> dict[str, int]:
    """How many requests were computed, reused or failed, as the run wrote it down."""
    return json.loads((outcome.path / "run.json").read_text())["counts"]


def ask(text: str) -> Instance:
    return Instance("generate_until", {}, (text, {"until": ["."]}), 0)


class Hook(Quiet):
    """Calls once, as soon as some requests have been computed; keeps the messages."""

    def __init__(self, action: Callable[[], None] = lambda: None) -> None:
        self.action: Callable[[], None] | None = action
        self.messages: list[str] = []
        self.replicas = ""

    def update(self, counts: Counts) -> None:
        self.replicas = counts.replicas or self.replicas
        if counts.computed and self.action is not None:
            action, self.action = self.action, None
            action()

    def message(self, text: str) -> None:
        self.messages.append(text)


def test_results_are_the_same_bytes_for_any_number_of_replicas(cluster: Any, tmp_path: Path) -> None:
    local = results(execute(config(tmp_path, "local")))
    for replicas in (1, 3):
        hook = Hook()
        outcome = execute(config(tmp_path, f"ray{replicas}", executor="ray", replicas=replicas), progress=hook)
        assert results(outcome) == local
        assert "replicas" in hook.replicas


def test_turns_and_judges_are_answered_on_a_cluster_too(cluster: Any, tmp_path: Path) -> None:
    write_rounds(tmp_path)
    settings: dict[str, Any] = {
        "model": f"{tmp_path}/noted.py:Noted",
        "model_args": {"log": str(tmp_path / "log.txt")},
        "tasks": ["talk", "judged"],
        "include_path": [str(tmp_path)],
        "roles": {"judge": {"model": f"{tmp_path}/judge.py:Judge", "model_args": {"log": str(tmp_path / "judge.txt")}}},
    }
    local = execute(config(tmp_path, "local", **settings))
    outcome = execute(config(tmp_path, "ray", **settings, executor="ray", replicas=2))
    assert results(outcome) == results(local)
    assert counts(outcome)["computed"] == counts(local)["computed"] == 90, "60 turns and 30 answers to be judged"
    asked = (tmp_path / "judge.txt").read_text().splitlines()
    assert len(asked) == 2 * len(set(asked)), "the judge was asked once in each run"


def test_a_cluster_reads_the_answers_of_a_local_run(cluster: Any, tmp_path: Path) -> None:
    execute(config(tmp_path, "first"))
    outcome = execute(config(tmp_path, "second", store=str(tmp_path / "first.sqlite"), executor="ray", replicas=1))
    assert counts(outcome)["computed"] == 0
    assert counts(outcome)["reused"] > 0


def test_a_node_lost_in_the_middle_and_another_added_change_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from tests.models.hf.conftest import make_tokenizer
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {
        "vocab_size": 512,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    LlamaForCausalLM(LlamaConfig(**sizes, max_position_embeddings=512)).save_pretrained(tmp_path / "tiny")
    make_tokenizer().save_pretrained(tmp_path / "tiny")
    settings: dict[str, Any] = {
        "model": "hf",
        "model_args": {"pretrained": str(tmp_path / "tiny"), "dtype": "float32"},
        "device": "cpu",
        "tasks": ["demo_grammar"],
        "apply_chat_template": True,
    }
    local = execute(config(tmp_path, "local", **settings))
    doomed = cluster.add_node(num_cpus=5, object_store_memory=80_000_000)

    def lose_a_node() -> None:
        cluster.remove_node(doomed, allow_graceful=False)
        cluster.add_node(num_cpus=1, object_store_memory=80_000_000)

    first_model = ReplicaPool.first_model

    def when_both_are_there(pool: ReplicaPool) -> Any:
        wait_for(lambda: len(pool.loaded()) == 2 or bool(pool.wait(())), seconds=300)
        return first_model(pool)

    monkeypatch.setattr(ReplicaPool, "first_model", when_both_are_there)
    hook = Hook(lose_a_node)
    # Five CPUs each: one fits on the doomed node and one on the big one, which has eight.
    outcome = execute(
        config(tmp_path, "ray", **settings, executor="ray", replicas=2, cpus_per_replica=5.0), progress=hook
    )
    assert hook.action is None
    assert counts(outcome)["failed"] == 0
    assert counts(outcome)["computed"] == counts(local)["computed"]
    assert results(outcome) == results(local)
    assert any("lost with its node" in message for message in hook.messages)


def test_a_replica_lost_with_its_node_gives_its_shards_back(cluster: Any, crashing: str) -> None:
    doomed = cluster.add_node(num_cpus=1, resources={"doomed": 1}, object_store_memory=80_000_000)
    messages: list[str] = []
    model = ClusterLM(ModelSpec(crashing, {"seconds": 0.05}), 2, Resources(1.0, 0.0), messages.append)
    wait_for(lambda: bool(model.pool.wait(()) or len(model.pool.loaded()) == 2))
    nodes = {worker.loaded.node_id for worker in model.pool.loaded() if worker.loaded}
    requests = [ask(f"question {i}") for i in range(300)]
    answers: dict[int, Any] = {}
    for position, answer in model.stream("generate_until", requests, [0] * 300):
        if not answers:
            cluster.remove_node(doomed, allow_graceful=False)
        assert position not in answers
        answers[position] = answer
    assert len(answers) == 300
    assert all(answer.failure is None for answer in answers.values())
    if doomed.node_id in nodes:
        assert any("lost with its node" in message for message in messages)
    model.close()


def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "took too long"
        time.sleep(0.02)


def test_a_poisonous_request_is_reported_with_its_shard_and_the_others_are_answered(
    cluster: Any, crashing: str
) -> None:
    messages: list[str] = []
    model = ClusterLM(ModelSpec(crashing, {}), 2, Resources(1.0, 0.0), messages.append)
    requests = [ask(f"question {i:03}{' POISON' if i == 60 else ''}") for i in range(100)]
    answers = dict(model.stream("generate_until", requests, [0] * 100))
    failed = {position for position, answer in answers.items() if answer.failure}
    assert len(answers) == 100
    assert 60 in failed
    assert len(failed) <= 40
    reason = answers[60].failure
    assert reason is not None
    assert re.search(r"its shard of \d+ requests failed on 3 replicas", reason)
    assert re.search(r"\b1 shards set aside", model.status())
    # And it goes on: the next requests are answered by the replacements.
    assert len(model.generate_until([ask("fine")])) == 1
    model.close()


def test_a_model_that_raises_is_not_killed_for_it(cluster: Any, crashing: str) -> None:
    model = ClusterLM(ModelSpec(crashing, {}), 1, Resources(1.0, 0.0))
    answers = dict(model.stream("generate_until", [ask("RAISE")], [0]))
    assert "ZeroDivisionError: a bug in the model" in str(answers[0].failure)
    assert model.pool.started == 1
    assert model.apply_chat_template([{"role": "user", "content": "x"}]) == "<|user|>x<|end|>\n<|assistant|>"
    model.close()


def test_a_model_that_loads_here_and_not_there(cluster: Any, tmp_path: Path, crashing: str) -> None:
    with pytest.raises(ModelError, match=r"(?s)weights.bin is only on the driver.*Every node"):
        execute(config(tmp_path, "x", model=crashing, model_args={"driver": os.getpid()}, executor="ray", replicas=1))


def test_more_replicas_than_there_is_room_for(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"500 replicas .* room for \d+"):
        execute(config(tmp_path, "x", executor="ray", replicas=500))
    with pytest.raises(ConfigError, match="1 CPU and 1 GPU"):
        execute(config(tmp_path, "x", executor="ray", replicas=1, gpus_per_replica=1.0))


def test_a_model_object_cannot_be_sent(cluster: Any, tmp_path: Path) -> None:
    from assay.models import load_model

    with pytest.raises(ConfigError, match="cannot be sent to a cluster"):
        execute(config(tmp_path, "x", executor="ray", replicas=1), model=load_model("dummy"))


def test_a_driver_that_is_killed_and_started_again_computes_only_what_is_missing(
    cluster: Any, tmp_path: Path, crashing: str
) -> None:
    settings = config(
        tmp_path,
        "run",
        model=crashing,
        model_args={"seconds": 0.02},
        tasks=["demo_grammar"],
        executor="ray",
        replicas=1,
        ray_address=cluster.address,
    )
    total = counts(execute(config(tmp_path, "whole", tasks=["demo_grammar"])))["computed"]
    code = "import sys; from assay.config import RunConfig; from assay.run import execute; execute(RunConfig.model_validate_json(sys.argv[1]))"
    driver = subprocess.Popen([sys.executable, "-c", code, settings.model_dump_json()], stderr=subprocess.DEVNULL)
    path = tmp_path / "run.sqlite"
    wait_for(lambda: path.exists() and _kept(path) > 20)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    kept = _kept(path)
    assert 20 < kept < total
    again = execute(settings)
    assert counts(again)["reused"] >= kept
    assert counts(again)["reused"] + counts(again)["computed"] == total


def _kept(path: Path) -> int:
    with ResponseStore(path) as store:
        return len(store)
