"""What a cluster has room for, and what is said when it has not."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from assay.cluster.connection import Resources, connect, import_ray, plan_replicas
from assay.errors import ConfigError, ModelError

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
        (7, 1.0, "7 replicas need 7 × 1 CPU and 1 GPU, and the cluster has room for 6"),
        (1, 8.0, "no node of the cluster"),
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
    with pytest.raises(ModelError, match="nobody listens"):
        connect(address, 1)
    assert time.monotonic() - began < 30


def test_no_cluster_to_be_found_automatically(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_TMPDIR", "/nonexistent")
    with pytest.raises(ConfigError, match="ray_address"):
        connect("no address", 1)


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'assay-eval\[ray\]'"):
        import_ray()
