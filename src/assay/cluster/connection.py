"""A Ray cluster: the one that is named, the one this process is in, or a small one on this machine."""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from assay.errors import ConfigError, ModelError, install_hint

if TYPE_CHECKING:
    from assay.config import RunConfig

CONNECT_SECONDS = 10.0
_ON_GPUS = ("hf", "huggingface", "hf-auto")
"""Models that compute on a GPU where there is one."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one replica needs."""

    cpus: float
    gpus: float

    def __str__(self) -> str:
        parts = [f"{self.cpus:g} CPU"] if self.cpus else []
        return " and ".join([*parts, *([f"{self.gpus:g} GPU"] if self.gpus else [])]) or "nothing"

    def fits(self, available: dict[str, float]) -> int:
        """How many such replicas fit into these resources of one node."""
        counts = [
            int((available.get(kind, 0.0) + 1e-9) // need)
            for kind, need in (("CPU", self.cpus), ("GPU", self.gpus))
            if need
        ]
        return min(counts, default=1_000_000)


def import_ray() -> Any:
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ConfigError(
            "--executor ray needs the package ray, which is not installed", hint=install_hint("ray")
        ) from error
    return ray


def connect(address: str | None, replicas: int | None) -> bool:
    """Join a cluster, or start one here. True when it was started here, and is to be ended here."""
    ray = import_ray()
    if ray.is_initialized():
        return False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = address or os.environ.get("RAY_ADDRESS")
    if address is None:
        cores = available_cores()
        ray.init(address="local", num_cpus=max(cores, replicas or 1), include_dashboard=False, **quiet)
        return True
    if address not in ("auto", "local"):
        _require_listener(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise ModelError(
            f"could not join a Ray cluster at {address!r}: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            hint="Start one with `ray start --head`, or leave out --ray_address to use only this machine.",
        ) from error
    return False


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def node_resources() -> list[dict[str, float]]:
    """The resources of every node that is alive."""
    return [dict(node["Resources"]) for node in import_ray().nodes() if node["Alive"]]


def _gpus_of_vllm(model_args: Mapping[str, Any], requested: float | None) -> float:
    """It spreads a model over as many GPUs as its arguments say."""
    sizes = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
    needed = float(math.prod(int(model_args.get(name, 1)) for name in sizes))
    if requested is not None and requested < needed and not (needed == 1 and requested > 0):
        raise ConfigError(
            f"gpus_per_replica is {requested:g}, but this model is spread over {needed:g} GPUs",
            hint=f"Leave out --gpus_per_replica, or use --gpus_per_replica {needed:g}.",
        )
    return needed if requested is None else requested


def gpus_needed(config: RunConfig, nodes: list[dict[str, float]]) -> float:
    """What was requested, where it fits the model; else what the model needs.

    Ray hides the GPUs that a replica does not hold, so a model with too few of them would compute on the CPU in silence,
    or not start.
    """
    requested, device = config.gpus_per_replica, str(config.device or config.model_args.get("device") or "")
    if config.model == "vllm":
        return _gpus_of_vllm(config.model_args, requested)
    if requested == 0 and device.startswith("cuda"):
        raise ConfigError(
            f"device is {device}, but gpus_per_replica 0 hides all GPUs from the replicas",
            hint="Leave out --gpus_per_replica, or choose another device.",
        )
    if requested:
        if device == "cpu":
            raise ConfigError(
                f"device is cpu, but each replica should get {requested:g} GPUs",
                hint="Leave out --gpus_per_replica, or choose another device.",
            )
        return requested
    computes = requested is None and config.model in _ON_GPUS and device != "cpu"
    return 1.0 if computes and (device.startswith("cuda") or any(node.get("GPU") for node in nodes)) else 0.0


def plan_replicas(
    replicas: int | None, gpus: float, cpus: float | None, nodes: list[dict[str, float]]
) -> tuple[int, Resources]:
    """How many replicas, and what each takes.

    Not told how many: as many as the GPUs allow, or one per node. Not told how many CPUs: an even share of the smallest
    node for replicas that compute on CPUs, one for those that have a GPU.
    """
    if cpus is None:
        smallest = min((node["CPU"] for node in nodes if node.get("CPU")), default=1.0)
        per_node = -(-(replicas or len(nodes) or 1) // max(1, len(nodes)))
        cpus = 1.0 if gpus else float(max(1, int(smallest) // per_node))
    each = Resources(cpus, gpus)
    if not any(node.get("CPU") or node.get("GPU") for node in nodes):  # they are started when somebody asks for them
        return replicas or 1, each
    room = sum(each.fits(node) for node in nodes)
    if not room:
        raise ConfigError(
            f"a replica needs {each}, but no node in the cluster has that; nodes: {_describe(nodes)}",
            hint="Ask for less with --gpus_per_replica, or add nodes.",
        )
    if replicas is None:
        replicas = room if gpus else max(1, len(nodes))
    if replicas > room:
        raise ConfigError(
            f"{replicas} replicas need {replicas} × {each}, but the cluster has room for {room}; nodes: {_describe(nodes)}",
            hint=f"Use --replicas {room}, or add nodes.",
        )
    return replicas, each


def _describe(nodes: list[dict[str, float]]) -> str:
    return "; ".join(f"{n.get('CPU', 0):g} CPU, {n.get('GPU', 0):g} GPU" for n in nodes) or "none"


def _require_listener(address: str) -> None:
    """A wrong address would keep Ray trying for minutes."""
    parts = urlsplit(address if "://" in address else f"tcp://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise ConfigError(f"--ray_address is {address!r}", hint="Use auto, HOST:PORT, or ray://HOST:PORT.")
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise ModelError(
            f"nothing listens at {address}: {error}",
            hint="Start a cluster with `ray start --head`, check the address, or leave out --ray_address.",
        ) from error
