"""A model on a Ray cluster. To the rest of the run it is a model like any other.

The driver holds no weights. It cuts requests into shards along the prefix tree and hands them to replicas as they become
free, two to each so that none waits; answers go into the one store as shards come back. A replica that dies gives its
shards back. A shard on which three replicas died is set aside and its requests are reported as failed.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from assay.cluster.connection import (
    Resources,
    connect,
    gpus_needed,
    import_ray,
    node_resources,
    plan_replicas,
)
from assay.cluster.pool import Died, Raised, ReplicaPool, Worker
from assay.cluster.replica import ModelSpec, ShardAnswers
from assay.cluster.shards import Shard, ShardCutter, shard_size
from assay.config import RunConfig
from assay.errors import ConfigError
from assay.instance import Instance, Response
from assay.models import ABILITIES, LM, Capabilities, Identity, ModelInfo, Stop, StreamingLM, Usage, never

SHARDS_PER_REPLICA = 2
DEATHS_PER_SHARD = 3
WINDOW_PER_REPLICA = 2048
"""Requests that a run builds before it sends them, for each replica: shards of a window stay large enough for all."""


class ClusterLM(StreamingLM):
    """Replicas of one model behind the `LM` contract."""

    def __init__(
        self,
        spec: ModelSpec,
        replicas: int,
        resources: Resources,
        notify: Callable[[str], None] = lambda text: None,
        *,
        started_here: bool = False,
    ) -> None:
        self.model_args = spec.model_args
        self.notify = notify
        self.pool = ReplicaPool(spec, replicas, resources, notify)
        self.model = self.pool.first_model()
        self.chat = self.model.info.chat or "text"
        self.replicas = replicas
        self._started_here = started_here
        self._template: bool | str | None = None
        self._set_aside = 0

    # -- the contract ------------------------------------------------------------------------------------------------

    def stream(
        self, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Stop = never
    ) -> Iterator[tuple[int, Response]]:
        dispatch = _Dispatch(self.pool, request_type, instances, draws, stop)
        try:
            yield from dispatch.run()
        finally:
            self._set_aside += dispatch.set_aside
            for worker in self.pool.workers:
                worker.running.clear()

    def apply_chat_template(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True) -> str:
        if (formatter := self._formatter) is not None:
            return str(formatter.apply(messages, add_generation_prompt))
        return str(self.pool.call("apply_chat_template", messages, add_generation_prompt, self._template))

    def chat_template(self, name: bool | str | None = None) -> str | None:
        self._template = name
        formatter = self._formatter
        template = formatter.select(name) if formatter is not None else self.pool.call("chat_template", name)
        return None if template is None else str(template)

    def info(self) -> ModelInfo:
        """That of the model itself; its fingerprint too, so that answers are shared with runs on one machine."""
        return replace(self.model.info, window_requests=WINDOW_PER_REPLICA * self.replicas)

    def capabilities(self, wanted: Collection[str] = ABILITIES, known: Collection[str] = ()) -> Capabilities:
        capabilities: Capabilities = self.pool.call("capabilities", tuple(wanted), tuple(known))
        return capabilities

    def fingerprint(self) -> str:
        return self.model.info.fingerprint

    def identify(self, times: int) -> Identity | None:
        identity: Identity | None = self.pool.call("identify", times)
        return identity

    @property
    def usage(self) -> Usage | None:
        totals = [used for used in [*self.pool.lost_usage, *(w.usage for w in self.pool.workers)] if used]
        if not totals:
            return None
        return Usage(**{name: type(zero)(sum(t[name] for t in totals)) for name, zero in asdict(Usage()).items()})

    def status(self) -> str:
        """One line: who is there, how fast each is, what was lost."""
        there = self.pool.loaded()
        parts = [f"{len(there)}/{len(self.pool.workers)} replicas ({', '.join(map(str, there[:8]))})"]
        parts += [f"{self.pool.lost} lost and replaced"] if self.pool.lost else []
        parts += [f"{self._set_aside} shards set aside"] if self._set_aside else []
        return " · ".join(parts)

    def close(self) -> None:
        self.pool.close()
        if self._started_here:
            import_ray().shutdown()

    @cached_property
    def _formatter(self) -> Any:
        """A copy of the replica's chat template, or None where the driver lacks the packages for it."""
        if self.model.chat is None:
            return None
        try:
            return pickle.loads(self.model.chat)
        except ImportError:
            return None


class _Dispatch:
    """One call of `stream`: shards out, answers back."""

    def __init__(
        self,
        pool: ReplicaPool,
        request_type: str,
        instances: Sequence[Instance],
        draws: Sequence[int],
        stop: Stop,
    ) -> None:
        self.pool, self.request_type, self.instances, self.draws = pool, request_type, instances, draws
        self.stop = stop
        self.cutter = ShardCutter(instances)
        self.returned: deque[Shard] = deque()
        self.under_way: dict[Any, tuple[Worker, Shard]] = {}
        """In the order in which they were handed out, which for each replica is the order in which they are done."""
        self.set_aside = 0

    def run(self) -> Iterator[tuple[int, Response]]:
        while True:
            self._hand_out()
            if not self.under_way and (self.stop() or not (self.returned or self.cutter.remaining)):
                return
            for reference in self.pool.wait(self.under_way):
                # One that went down with its replica was taken out when the first of them was found.
                if (found := self.under_way.pop(reference, None)) is not None:
                    yield from self._take(*found, self.pool.fetch(reference))

    def _hand_out(self) -> None:
        """Give every replica that has the model work for now and for next."""
        for round_of_work in range(1, SHARDS_PER_REPLICA + 1):
            for worker in self.pool.loaded():
                if self.stop() or len(worker.running) >= round_of_work or _is_alone(worker):
                    continue
                shard = self._next(worker)
                if shard is None:
                    continue
                arguments = [self.instances[i].arguments for i in shard.positions]
                draws = [self.draws[i] for i in shard.positions]
                self.under_way[worker.actor.answer.remote(self.request_type, arguments, draws)] = (worker, shard)
                worker.running.append(shard)

    def _next(self, worker: Worker) -> Shard | None:
        """What to give this replica. A shard that was under way at a death is tried with no other beside it.

        A replica that dies may take with it the answer to the shard before, whose turn it no longer was: of two shards
        nobody knows which one killed it, of one everybody does.
        """
        for at, shard in enumerate(self.returned):
            if not (shard.deaths and worker.running):
                del self.returned[at]
                return shard
        return self.cutter.take(self._size(worker))

    def _size(self, worker: Worker) -> int:
        return shard_size(
            remaining=self.cutter.remaining, replicas=len(self.pool.workers), requests_per_second=worker.rate
        )

    def _take(
        self, worker: Worker, shard: Shard, outcome: ShardAnswers | Died | Raised
    ) -> Iterator[tuple[int, Response]]:
        if isinstance(outcome, Died):
            yield from self._bury(worker, shard, outcome)
            return
        worker.running.remove(shard)
        if isinstance(outcome, Raised):
            yield from self._blame(shard, outcome.reason)
            return
        worker.usage = outcome.usage or {}
        worker.requests += len(shard)
        worker.seconds += outcome.seconds
        worker.processor += outcome.processor
        self.pool.deaths_in_a_row = 0
        for place, *answer in outcome.answers:
            yield shard.positions[place], Response(*answer)

    def _bury(self, worker: Worker, fetched: Shard, death: Died) -> Iterator[tuple[int, Response]]:
        """Give a dead replica's shards back. The oldest that it had not answered was being worked on; the others waited.

        What it had answered is taken first; where an answer was lost with the node, its shard is not to blame.
        """
        lost = [fetched] if death.answer_lost else []
        rest = [reference for reference, (other, _) in self.under_way.items() if other is worker]
        ready = self.pool.ready(rest)
        for reference in rest:
            _, shard = self.under_way.pop(reference)
            outcome = self.pool.fetch(reference) if reference in ready else None
            if outcome is not None and not isinstance(outcome, Died):
                yield from self._take(worker, shard, outcome)
            elif outcome is not None and outcome.answer_lost:
                lost.append(shard)
        unanswered = [shard for shard in worker.running if shard not in lost]
        at_work, waiting = unanswered[:1], unanswered[1:]
        self.returned.extend([*lost, *waiting])
        if self.pool.replace(worker, death.reason):
            self.returned.extend(at_work)
            return
        for shard in at_work:
            yield from self._blame(shard, death.reason)

    def _blame(self, shard: Shard, reason: str) -> Iterator[tuple[int, Response]]:
        """Try the shard elsewhere, and the third time report its requests as failed."""
        shard.deaths.append(reason)
        if len(shard.deaths) < DEATHS_PER_SHARD:
            self.returned.append(shard)
            return
        self.set_aside += 1
        failure = (
            f"set aside: its shard of {len(shard)} requests failed on {len(shard.deaths)} replicas; the last: {reason}"
        )
        self.pool.notify(failure)
        for position in shard.positions:
            yield position, Response(None, failure=failure)


def _is_alone(worker: Worker) -> bool:
    return any(shard.deaths for shard in worker.running)


def _absolute(model: str) -> str:
    """A model in a file is named by a path that means the same in every process of this machine."""
    path, colon, name = model.partition(".py:")
    return f"{Path(path + '.py').resolve()}:{name}" if colon else model


class RayExecutor:
    """What `--executor ray` stands for: the model runs on a cluster."""

    counts_cost = False

    def load(self, config: RunConfig, notify: Callable[[str], None]) -> LM:
        """Start the replicas that the config names; returns when the first has the model."""
        started_here = connect(config.ray_address, config.replicas)
        try:
            nodes = node_resources()
            count, each = plan_replicas(config.replicas, gpus_needed(config, nodes), config.cpus_per_replica, nodes)
            spec = ModelSpec(
                _absolute(config.model), config.model_args, config.device, config.batch_size, config.trust_remote_code
            )
            return ClusterLM(spec, count, each, notify, started_here=started_here)
        except BaseException:
            if started_here:
                import_ray().shutdown()
            raise

    def accept(self, model: object) -> None:
        if not isinstance(model, ClusterLM):
            raise ConfigError("a model object cannot be sent to a cluster", hint="Name it: path/to/file.py:Class.")

    @contextmanager
    def share(
        self, config: RunConfig, models: int, notify: Callable[[str], None]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Several models at once, each with its part of the replicas."""
        started_here = connect(config.ray_address, config.replicas)
        ray = import_ray()
        try:
            gpus = config.gpus_per_replica or 0.0
            replicas, each = plan_replicas(config.replicas, gpus, config.cpus_per_replica, node_resources())
            per_model, at_once = share_out(models, replicas)
            address = ray.get_runtime_context().gcs_address
            notify(f"{at_once} models at once, {per_model} replicas each, on {address}")
            yield at_once, {"ray_address": address, "replicas": per_model, "cpus_per_replica": each.cpus}
        finally:
            ray.shutdown()
            if started_here:
                notify("the local cluster was stopped")


def share_out(models: int, replicas: int) -> tuple[int, int]:
    """(replicas for each model, models at once). Each model is loaded as few times as keeps all replicas busy.

    >>> share_out(models=10, replicas=4), share_out(models=2, replicas=8), share_out(models=3, replicas=8)
    ((1, 4), (4, 2), (2, 3))
    """
    each = max(1, replicas // max(1, models))
    return each, max(1, min(models, replicas // each))
