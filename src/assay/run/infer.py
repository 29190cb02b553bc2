"""From requests to answers: the store first, then the executor, each answer kept as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.instance import Instance, RequestType
from assay.run.executors import Executor
from assay.run.hashes import AnswerKeys, join_digests, request_digest
from assay.run.interrupt import Interrupted
from assay.run.progress import Counts, Progress

if TYPE_CHECKING:
    from assay.models import Answer
    from assay.run.kept import Kept
    from assay.store import ResponseStore, StoredResponse
    from assay.tasks import DocRequests


@dataclass(slots=True)
class Unit:
    """One doc of one task, waiting for the answers to all its requests."""

    task: str
    requests: DocRequests
    pending: int = 0
    asked: str = ""
    """Hash of all its requests."""
    kept: Kept | None = None
    """What an earlier run kept of it, where the answers are that run's."""


@dataclass(slots=True)
class _Ask:
    """One request that has to be answered once, and every place that waits for the answer."""

    instance: Instance
    draw: int
    waiting: list[tuple[Unit, Instance, int]] = field(default_factory=list)


class Inference:
    """Answers units, window by window."""

    def __init__(
        self,
        executor: Executor,
        store: ResponseStore | None,
        fingerprint: str,
        *,
        fresh: bool = False,
        stop: Callable[[], bool] = lambda: False,
        progress: Progress,
        counts: Counts,
    ) -> None:
        self.executor, self.store, self.keys = executor, store, AnswerKeys(fingerprint)
        self.fresh, self.stop, self.progress, self.counts = fresh, stop, progress, counts

    def answer(self, units: Sequence[Unit], done: Callable[[Unit], None]) -> None:
        """Fill `resps` of every instance; `done` is called for each unit when its last answer is there."""
        if self.stop():
            raise self._interrupted()
        asks = self._collect(units)
        for unit in units:
            if not unit.pending:
                done(unit)
        if self.store is not None and not self.fresh:
            self._reuse(asks, done)
        by_type: dict[RequestType, list[tuple[bytes, _Ask]]] = {}
        for key, ask in asks.items():
            by_type.setdefault(ask.instance.request_type, []).append((key, ask))
        for request_type, items in by_type.items():
            self._compute(request_type, items, done)

    def _collect(self, units: Iterable[Unit]) -> dict[bytes, _Ask]:
        """Equal requests are asked once, whichever docs or tasks they belong to."""
        asks: dict[bytes, _Ask] = {}
        for unit in units:
            digests = [request_digest(instance) for instance in unit.requests.instances]
            unit.asked = join_digests(digests)
            for instance, digest in zip(unit.requests.instances, digests):
                draws = instance.repeats
                sampled = draws > 1 and is_sampled(instance)
                instance.resps = [None] * draws
                instance.stop_reasons = [""] * draws
                instance.tokens = [None] * draws
                unit.pending += draws
                for index in range(draws):
                    draw = index if sampled else 0
                    key = self.keys.key(digest, draw)
                    ask = asks.get(key)
                    if ask is None:
                        ask = asks[key] = _Ask(instance, draw)
                    ask.waiting.append((unit, instance, index))
        return asks

    def _reuse(self, asks: dict[bytes, _Ask], done: Callable[[Unit], None]) -> None:
        assert self.store is not None
        found = self.store.get_many(list(asks))
        for key, answer in found.items():
            self._deliver(asks.pop(key), answer, done)
        self.counts.reused += len(found)
        self.progress.update(self.counts)

    def _compute(
        self, request_type: RequestType, items: list[tuple[bytes, _Ask]], done: Callable[[Unit], None]
    ) -> None:
        instances = [ask.instance for _, ask in items]
        draws = [ask.draw for _, ask in items]
        answered = 0
        for position, answer in self._answers(request_type, instances, draws):
            key, ask = items[position]
            answered += 1
            if answer.failure is None:
                self.counts.computed += 1
                if self.store is not None:
                    self.store.put(key, answer.response, answer.stop_reason, answer.tokens)
            else:
                self.counts.failed += 1
            self._deliver(ask, answer, done)
        if answered < len(items):
            if self.stop():
                raise self._interrupted()
            from assay.errors import ModelError

            raise ModelError(f"the model answered {answered} of {len(items)} {request_type} requests")

    def _interrupted(self) -> Interrupted:
        return Interrupted(
            f"stopped: {self.counts.answered} requests answered and kept",
            hint="Run the same command again to go on from here.",
        )

    def _answers(
        self, request_type: RequestType, instances: Sequence[Instance], draws: Sequence[int]
    ) -> Iterator[tuple[int, Answer]]:
        """The executor's answers, up to a stop request. A backend that stops by itself ends after its current pack."""
        stops_itself = getattr(self.executor, "stops_itself", False)
        for item in self.executor.run(request_type, instances, draws):
            yield item
            if self.stop() and not stops_itself:
                return

    def _deliver(self, ask: _Ask, answer: Answer | StoredResponse, done: Callable[[Unit], None]) -> None:
        for unit, instance, index in ask.waiting:
            if answer.failure is not None:
                instance.failure = answer.failure
            else:
                instance.resps[index] = answer.response
                instance.stop_reasons[index] = answer.stop_reason or ""
                instance.tokens[index] = answer.tokens
            unit.pending -= 1
            if not unit.pending:
                done(unit)


def is_sampled(instance: Instance) -> bool:
    """Whether repeated draws differ. Greedy repeats are one computation."""
    if instance.request_type != "generate_until":
        return False
    settings = instance.arguments[1]
    do_sample = settings.get("do_sample")
    return bool(settings.get("temperature")) if do_sample is None else bool(do_sample)
