"""The replicas as the driver sees them: started, loading, at work, lost and replaced."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.cluster.connection import Resources, import_ray
from assay.cluster.replica import LoadedModel, LoadFailure, ModelSpec, Replica
from assay.cluster.shards import Shard
from assay.errors import AssayError, ModelError

DEATHS_IN_A_ROW = 12
TELL_AFTER_SECONDS = 20.0
GIVE_UP_AFTER_SECONDS = 600.0
"""How long to wait for room in the cluster while no replica is there at all."""


@dataclass(frozen=True, slots=True)
class Died:
    """The replica's process or node is gone."""

    reason: str
    answer_lost: bool = False
    """It had answered, and the answer went with its node."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The model raised, and the replica is still there."""

    reason: str


@dataclass(eq=False, slots=True)
class Worker:
    """One replica."""

    number: int
    actor: Any
    load: Any
    """Reference to the outcome of loading the model."""
    loaded: LoadedModel | None = None
    running: deque[Shard] = field(default_factory=deque)
    """Oldest first: the actor works on the first, the others wait in its queue."""
    usage: Mapping[str, float] = field(default_factory=dict)
    requests: int = 0
    seconds: float = 0.0
    processor: float = 0.0

    @property
    def rate(self) -> float | None:
        """Requests a second, once it has answered any."""
        return self.requests / self.seconds if self.seconds > 0 else None

    def __str__(self) -> str:
        tokens = self.usage.get("computed_tokens", 0) + self.usage.get("generated_tokens", 0)
        count, unit = (tokens, "tokens/s") if tokens else (self.requests, "requests/s")
        return f"{count / self.seconds:,.0f} {unit}" if self.seconds else "idle"


class ReplicaPool:
    """Keeps as many replicas as were requested, as far as the cluster lets it."""

    def __init__(self, spec: ModelSpec, count: int, resources: Resources, notify: Callable[[str], None]) -> None:
        self.spec, self.resources, self.notify = spec, resources, notify
        self.ray = import_ray()
        self._actor_class = self.ray.remote(max_restarts=0, max_task_retries=0)(Replica)
        self.started = self.lost = self.deaths_in_a_row = 0
        self.lost_usage: list[Mapping[str, float]] = []
        self.model: LoadedModel | None = None
        self._none_since = time.monotonic()
        self._told = False
        self._failures: list[str] = []
        self.workers = [self._start() for _ in range(count)]

    def first_model(self) -> LoadedModel:
        """Wait for the first replica that has the model; raise when none can have it."""
        while self.model is None:
            self.wait(())
        return self.model

    def wait(self, shards: Iterable[Any]) -> list[Any]:
        """Those of `shards` that are back, in their order, within a second or so.

        Replicas that finish loading are taken in on the way.
        """
        shards = list(shards)
        loading = {worker.load: worker for worker in self.workers if worker.loaded is None}
        references = [*shards, *loading]
        if not references:
            reason = f": {self._failures[-1]}" if self._failures else ""
            raise ModelError(
                f"no replica could load the model{reason}",
                hint="Every node must be able to load it: same files, same packages. All answers so far are kept.",
            )
        done, _ = self.ray.wait(references, num_returns=1, timeout=1.0)
        if done:
            done, _ = self.ray.wait(references, num_returns=len(references), timeout=0)
        for reference in done:
            if reference in loading:
                self._take_in(loading[reference])
        self._watch_for_shortage()
        back = set(done)
        return [reference for reference in shards if reference in back]

    def ready(self, references: Sequence[Any]) -> set[Any]:
        """Those that have come to an end, now."""
        return set(self.ray.wait(references, num_returns=len(references), timeout=0)[0]) if references else set()

    def fetch(self, reference: Any) -> Any:
        """The value, or `Died`, or `Raised`. What Assay itself raises ends the run, as it does without a cluster."""
        errors = self.ray.exceptions
        try:
            return self.ray.get(reference)
        except errors.RayTaskError as error:
            if isinstance(error.cause, AssayError):
                raise error.cause from error
            return Raised(f"{type(error.cause).__name__}: {error.cause}")
        except errors.RayError as error:
            lost = isinstance(error, errors.ObjectLostError)
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            return Died(f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}", lost)

    def replace(self, worker: Worker, reason: str) -> bool:
        """Put another in its place. Whether it went with its machine, which is nobody's fault, or alone."""
        self.workers.remove(worker)
        self.lost += 1
        self.lost_usage.append(worker.usage)
        self.ray.kill(worker.actor)
        self.deaths_in_a_row += 1
        if self.deaths_in_a_row >= DEATHS_IN_A_ROW:
            raise ModelError(
                f"{self.deaths_in_a_row} replicas were lost in a row without an answer; the last: {reason}",
                hint="All answers so far are kept. Check the nodes' memory and Ray's logs.",
            )
        self.workers.append(self._start())
        alive = {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}
        with_node = worker.loaded is not None and worker.loaded.node_id not in alive
        self.notify(
            f"replica {worker.number} was lost {'with its node' if with_node else f'({reason})'}; starting another"
        )
        return with_node

    def loaded(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.loaded is not None]

    def call(self, method: str, *arguments: Any) -> Any:
        """A small question to whoever has the model."""
        self.first_model()
        for worker in self.loaded():
            outcome = self.fetch(getattr(worker.actor, method).remote(*arguments))
            if isinstance(outcome, Raised):
                raise ModelError(outcome.reason)
            if not isinstance(outcome, Died):
                return outcome
        raise ModelError("no replica is left to ask", hint="Run the same command again.")

    def close(self) -> None:
        for worker in self.workers:
            self.ray.kill(worker.actor)
        self.workers = []

    def _start(self) -> Worker:
        # Spread over the nodes: replicas side by side would share one machine's memory bandwidth, and die with it.
        options = {"num_cpus": self.resources.cpus, "num_gpus": self.resources.gpus, "scheduling_strategy": "SPREAD"}
        actor = self._actor_class.options(**options).remote(self.spec)
        self.started += 1
        return Worker(self.started, actor, actor.load.remote())

    def _take_in(self, worker: Worker) -> None:
        """The outcome of a load: a model, a reason why not, or a replica that died of it."""
        outcome = self.fetch(worker.load)
        if isinstance(outcome, Died):
            self.replace(worker, outcome.reason)
            return
        if (
            isinstance(outcome, LoadedModel)
            and self.model is not None
            and outcome.info.fingerprint != self.model.info.fingerprint
        ):
            outcome = LoadFailure(outcome.node, "its model differs from that of the first replica")
        if isinstance(outcome, LoadedModel):
            worker.loaded = outcome
            self.model = self.model or outcome
            return
        reason = f"on {outcome.node}: {outcome.error}" if isinstance(outcome, LoadFailure) else str(outcome)
        self._failures.append(reason)
        self.workers.remove(worker)
        if self.workers:
            self.notify(f"replica {worker.number} could not load the model {reason}")

    def _watch_for_shortage(self) -> None:
        """Say what is missing when the cluster has no room, and do not wait for ever."""
        now = time.monotonic()
        if self.loaded():
            self._none_since, self._told = now, False
            return
        waited = now - self._none_since
        free = self.ray.available_resources()
        need = f"a replica needs {self.resources}; free in the cluster: {free.get('CPU', 0):g} CPU, {free.get('GPU', 0):g} GPU"
        if waited > TELL_AFTER_SECONDS and not self._told:
            self._told = True
            self.notify(
                f"no replica was ready after {waited:.0f} s: the model is still loading, or there is no room ({need})"
            )
        if waited > GIVE_UP_AFTER_SECONDS and not Resources.fits(self.resources, free):
            raise ModelError(
                f"no replica after {waited:.0f} s: {need}",
                hint="Add nodes, or ask for less; all answers so far are kept.",
            )
