"""What a cluster has room for, and what is said when it has not."""

from __future__ import annotations

import socket
import sys
import time
from collections import deque
from typing import Any

import pytest

from assay.cluster.connection import Resources, connect, gpus_needed, import_ray, plan_replicas
from assay.cluster.lm import _Dispatch
from assay.cluster.pool import Died, Worker
from assay.cluster.replica import ShardAnswers
from assay.cluster.shards import Shard
from assay.config import RunConfig
from assay.errors import ConfigError, ModelError
from assay.instance import Instance

NODES = [{"CPU": 8.0, "GPU": 4.0}, {"CPU": 16.0, "GPU": 2.0}]


@pytest.mark.parametrize(
    ("replicas", "gpus", "cpus", "expected"),
    [
        (None, 1.0, None, (6, Resources(1.0, 1.0))),
        (None, 2.0, None, (3, Resources(1.0, 2.0))),
        (None, 4.0, None, (1, Resources(1.0, 4.0))),
        (3, 0.5, None, (3, Resources(1.0, 0.5))),
        (None, 0.0, None, (2, Resources(8.0, 0.0))),
        (4, 0.0, None, (4, Resources(4.0, 0.0))),
        (4, 0.0, 2.0, (4, Resources(2.0, 0.0))),
    ],
)
def test_replicas_are_planned(
    replicas: int | None, gpus: float, cpus: float | None, expected: tuple[int, Resources]
) -> None:
    assert plan_replicas(replicas, gpus, cpus, NODES) == expected


@pytest.mark.parametrize(
    ("replicas", "gpus", "message"),
    [
        (7, 1.0, "7 replicas need 7 × 1 CPU and 1 GPU, but the cluster has room for 6"),
        (1, 8.0, "no node in the cluster"),
    ],
)
def test_what_is_missing_is_said(replicas: int, gpus: float, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_replicas(replicas, gpus, None, NODES)


def test_a_replica_is_on_one_node() -> None:
    assert Resources(1.0, 3.0).fits({"CPU": 8.0, "GPU": 4.0}) == 1
    with pytest.raises(ConfigError, match="room for 1"):
        plan_replicas(2, 3.0, None, NODES)


def test_an_address_nobody_listens_on_is_found_out_quickly() -> None:
    pytest.importorskip("ray")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(ModelError, match="nothing listens"):
        connect(address, 1)
    assert time.monotonic() - began < 30


def test_no_cluster_to_be_found_automatically(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_TMPDIR", "/nonexistent")
    with pytest.raises(ConfigError, match="ray_address"):
        connect("no address", 1)


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match="pip install 'ray"):
        import_ray()


GPUS = [{"CPU": 8.0, "GPU": 4.0}]


@pytest.mark.parametrize(
    ("settings", "nodes", "expected"),
    [
        ({"model": "vllm", "model_args": {"pretrained": "x", "tensor_parallel_size": 2}}, GPUS, 2.0),
        ({"model": "vllm", "model_args": {"pretrained": "x"}, "gpus_per_replica": 0.5}, GPUS, 0.5),
        ({"model": "hf", "model_args": {"pretrained": "x"}}, GPUS, 1.0),
        ({"model": "hf", "model_args": {"pretrained": "x"}, "device": "cpu"}, GPUS, 0.0),
        ({"model": "hf", "model_args": {"pretrained": "x"}, "gpus_per_replica": 2.0}, GPUS, 2.0),
        ({"model": "hf", "model_args": {"pretrained": "x"}}, [{"CPU": 8.0}], 0.0),
        ({"model": "dummy"}, GPUS, 0.0),
        ({"model": "local-completions", "model_args": {"model": "x"}}, GPUS, 0.0),
    ],
)
def test_a_replica_holds_the_gpus_that_its_model_needs(
    settings: dict[str, Any], nodes: list[dict[str, float]], expected: float
) -> None:
    assert gpus_needed(RunConfig(tasks=["x"], **settings), nodes) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "vllm", "model_args": {"tensor_parallel_size": 4}, "gpus_per_replica": 1.0}, "spread over 4 GPUs"),
        ({"model": "vllm", "gpus_per_replica": 0.0}, "spread over 1 GPUs"),
        ({"model": "hf", "device": "cuda:0", "gpus_per_replica": 0.0}, "hides all GPUs"),
        ({"model": "hf", "device": "cpu", "gpus_per_replica": 1.0}, "device is cpu"),
    ],
)
def test_gpus_that_contradict_the_model_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        gpus_needed(RunConfig(tasks=["x"], **settings), GPUS)


@pytest.mark.parametrize("nodes", [[], [{"CPU": 0.0, "memory": 1.0}]])
def test_a_cluster_without_nodes_yet_is_asked_for_them(nodes: list[dict[str, float]]) -> None:
    assert plan_replicas(3, 1.0, None, nodes) == (3, Resources(1.0, 1.0))
    assert plan_replicas(None, 0.0, None, nodes) == (1, Resources(1.0, 0.0))


class FakePool:
    """One replica after the other; what each reference comes to is said beforehand."""

    def __init__(self, outcomes: dict[str, Any]) -> None:
        self.outcomes = outcomes
        self.told: list[str] = []
        self.deaths_in_a_row = 0
        self.notify = self.told.append

    def ready(self, references: list[str]) -> set[str]:
        return {reference for reference in references if reference in self.outcomes}

    def fetch(self, reference: str) -> Any:
        return self.outcomes[reference]

    def replace(self, worker: Worker, reason: str) -> bool:
        return False


DEAD = Died("ActorDiedError")
ANSWERED = ShardAnswers([(0, "yes")], None, 1.0, 1.0)


@pytest.mark.parametrize(
    ("outcomes", "blamed", "answered"),
    [
        ({"first": DEAD, "second": DEAD}, 0, []),  # the oldest was being worked on
        ({"first": DEAD}, 0, []),
        (
            {"second": DEAD, "first": ANSWERED},
            1,
            [0],
        ),  # answered, and not fetched yet, when the death of the next was seen
        (
            {"first": Died("ObjectLostError", answer_lost=True), "second": DEAD},
            1,
            [],
        ),  # answered, and lost with the node
        ({"second": Died("ObjectLostError", answer_lost=True), "first": ANSWERED}, None, [0]),
    ],
)
def test_only_the_shard_that_a_dead_replica_worked_on_is_blamed(
    outcomes: dict[str, Any], blamed: int | None, answered: list[int]
) -> None:
    instances = [Instance("generate_until", {}, (f"{at}", {}), 0) for at in range(2)]
    dispatch = _Dispatch(FakePool(outcomes), "generate_until", instances, [0, 0], lambda: False)  # type: ignore[arg-type]
    shards = [Shard([0]), Shard([1])]
    worker = Worker(1, None, None, running=deque(shards))
    dispatch.under_way = {"first": (worker, shards[0]), "second": (worker, shards[1])}
    found = next(iter(outcomes))
    given = [position for position, _ in dispatch._take(*dispatch.under_way.pop(found), outcomes[found])]
    assert given == answered
    assert [bool(shard.deaths) for shard in shards] == [at == blamed for at in range(2)]
    assert sorted(shard.positions[0] for shard in dispatch.returned) == [at for at in range(2) if at not in answered]
    assert not dispatch.under_way


class Actor:
    """Takes what it is given."""

    def __init__(self) -> None:
        self.answer = self

    def remote(self, request_type: str, arguments: list[Any], draws: list[int]) -> str:
        return f"{arguments}"


def test_a_shard_that_was_under_way_at_a_death_is_tried_alone() -> None:
    """A dying replica may take the answer of the shard before with it: of two shards nobody knows which one killed it."""
    instances = [Instance("generate_until", {}, (f"{at}", {}), 0) for at in range(9)]
    pool = FakePool({})
    workers = [Worker(number, Actor(), None) for number in (1, 2)]
    pool.workers = workers
    pool.loaded = lambda: workers
    dispatch = _Dispatch(pool, "generate_until", instances[:0], [], lambda: False)  # type: ignore[arg-type]
    dispatch.instances, dispatch.draws = instances, [0] * 9
    suspect, *others = Shard([0], deaths=["gone"]), Shard([1]), Shard([2]), Shard([3])
    dispatch.returned.extend([others[0], suspect, *others[1:]])
    workers[1].running.append(others[0])
    dispatch.returned.popleft()
    dispatch._hand_out()
    assert list(workers[0].running) == [suspect]
    assert suspect not in workers[1].running
    assert len(workers[1].running) == 2
