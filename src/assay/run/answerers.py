"""Who answers the requests of a run: a model behind the response store, or the samples that an earlier run kept.

An answerer fills in the responses of the docs it is given. Everything else of a run (what to ask, what the answers are
worth) is the same for all of them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Lock
from typing import TYPE_CHECKING, Protocol

from assay.errors import ModelError
from assay.instance import Instance, Response
from assay.models import LM, to_response
from assay.request_types import REQUEST_TYPES
from assay.run.interrupt import Interrupted
from assay.run.lengths import say_what_is_too_long
from assay.run.progress import Counts, Progress
from assay.run.units import Unit, restored
from assay.store import request_digest

if TYPE_CHECKING:
    from assay.run.reuse import ModelStore

WINDOW_REQUESTS = 12_288
"""Requests held in memory at once, in all windows. Large enough that prefixes are shared, small enough that memory stays flat."""


class Answerer(Protocol):
    window_requests: int
    """How many requests it likes to see at once."""
    windows_at_once: int
    """How many windows of them may be asked at the same time, each on a thread of its own."""

    def answer(self, units: Sequence[Unit], done: Callable[[Unit], None]) -> None:
        """Fill `resps` of every request of the units' present round; `done` is called for each unit when it is filled."""

    def check(self, units: Sequence[Unit]) -> None:
        """All rounds of these units are over."""

    def notes(self) -> list[str]:
        """What is to be said about the answers when all were given."""

    def cancel(self) -> None:
        """The run ends early: give up what is being asked on other threads."""


class AnswerKeys:
    """Keys of one model's answers in the store."""

    def __init__(self, fingerprint: str) -> None:
        self._base = hashlib.sha256(f"{fingerprint}\0".encode("utf-8", "surrogatepass"))

    def key(self, digest: bytes, draw: int) -> bytes:
        whole = self._base.copy()
        whole.update(digest)
        whole.update(b"%d" % draw)
        return whole.digest()


@dataclass(slots=True)
class _Ask:
    """One request that has to be answered once, and every place that waits for the answer."""

    instance: Instance
    draw: int
    waiting: list[tuple[Unit, Instance, int]] = field(default_factory=list)


class ModelAnswerer:
    """The store first, then the model; each answer is kept as it arrives."""

    def __init__(
        self,
        lm: LM,
        store: ModelStore | None,
        *,
        fresh: bool = False,
        offline: bool = False,
        shuffle: int | None = None,
        stop: Callable[[], bool] = lambda: False,
        progress: Progress,
        counts: Counts,
    ) -> None:
        self.lm, self.store, self.keys = lm, store, AnswerKeys(lm.fingerprint())
        self.fresh, self.offline, self.stop, self.progress, self.counts = fresh, offline, stop, progress, counts
        self.shuffle = shuffle
        info = lm.info()
        self.windows_at_once = info.streams_at_once
        # Many replicas need more at once, or each would get crumbs.
        self.window_requests = max(WINDOW_REQUESTS // self.windows_at_once, info.window_requests)
        self._lock = Lock()
        self._asked: set[bytes] = set()
        """Keys of requests whose answers are being found now, by any thread."""
        self._found = Condition()

    def answer(self, units: Sequence[Unit], done: Callable[[Unit], None]) -> None:
        if self.stop():
            raise self._interrupted()
        asks = self._collect(units)
        with self._alone(asks):
            self._find(units, asks, done)

    @contextmanager
    def _alone(self, asks: dict[bytes, _Ask]) -> Iterator[None]:
        """While no other thread finds an answer to any of these: what two windows ask is asked once."""
        keys = set(asks)
        with self._found:
            while not self._asked.isdisjoint(keys):
                self._found.wait()
            self._asked |= keys
        try:
            yield
        finally:
            with self._found:
                self._asked -= keys
                self._found.notify_all()

    def _find(self, units: Sequence[Unit], asks: dict[bytes, _Ask], done: Callable[[Unit], None]) -> None:
        for unit in units:
            if not unit.pending:
                done(unit)
        if asks and self.store is not None:
            with self._lock:
                self.store.recognize()
            if not self.fresh:
                self._reuse(asks, done)
        if self.offline:
            self._refuse(asks, done)
            return
        by_type: dict[str, list[tuple[bytes, _Ask]]] = {}
        for key, ask in asks.items():
            by_type.setdefault(ask.instance.request_type, []).append((key, ask))
        say_what_is_too_long(self.lm, [ask.instance for ask in asks.values()], self.progress.message)
        for request_type, items in by_type.items():
            self._compute(request_type, items, done)

    def check(self, units: Sequence[Unit]) -> None:
        pass

    def notes(self) -> list[str]:
        return []

    def cancel(self) -> None:
        self.lm.cancel()

    def _collect(self, units: Iterable[Unit]) -> dict[bytes, _Ask]:
        """Equal requests are asked once, whichever docs or tasks they belong to."""
        asks: dict[bytes, _Ask] = {}
        for unit in units:
            for instance in unit.round:
                digest = request_digest(instance)
                unit.digests.append(digest)
                draws = instance.repeats
                sampled = draws > 1 and is_sampled(instance)
                instance.resps = [None] * draws
                instance.responses = [None] * draws
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
        known = self.store.get_many(list(asks))
        with self._lock:
            for key, answer in known.items():
                ask = asks.pop(key)
                self._deliver(ask, restored(ask.instance.request_type, answer), done)
            self.counts.reused += len(known)
            self.progress.update(self.counts)

    def _refuse(self, asks: dict[bytes, _Ask], done: Callable[[Unit], None]) -> None:
        missing = Response(None, failure="the store has no answer to this request, and --offline asks nothing")
        with self._lock:
            self.counts.failed += len(asks)
            for ask in asks.values():
                self._deliver(ask, missing, done)

    def _compute(self, request_type: str, items: list[tuple[bytes, _Ask]], done: Callable[[Unit], None]) -> None:
        if self.shuffle is not None:
            items = random.Random(self.shuffle).sample(items, len(items))
        instances = [ask.instance for _, ask in items]
        draws = [ask.draw for _, ask in items]
        answered = 0
        for position, answer in stream_answers(self.lm, request_type, instances, draws, self.stop):
            key, ask = items[position]
            answered += 1
            if answer.failure is None and self.store is not None:
                self.store.put(key, answer)
            with self._lock:  # counts and progress are those of all threads
                if answer.failure is None:
                    self.counts.computed += 1
                else:
                    self.counts.failed += 1
                self._deliver(ask, answer, done)
        if answered < len(items):
            if self.stop():
                raise self._interrupted()
            raise ModelError(f"the model answered {answered} of {len(items)} {request_type} requests")

    def _interrupted(self) -> Interrupted:
        return Interrupted(
            f"stopped: {self.counts.answered} requests answered and kept",
            hint="Run the same command again to continue from here.",
        )

    def _deliver(self, ask: _Ask, answer: Response, done: Callable[[Unit], None]) -> None:
        for unit, instance, index in ask.waiting:
            if answer.failure is not None:
                instance.failure = answer.failure
            else:
                instance.resps[index] = answer.answer
                instance.responses[index] = answer
            unit.pending -= 1
            if not unit.pending:
                done(unit)


AT_ONCE = 256
"""Requests that a request type answers itself between two looks at whether the run is to stop."""


def stream_answers(
    lm: LM, request_type: str, instances: Sequence[Instance], draws: Sequence[int], stop: Callable[[], bool]
) -> Iterator[tuple[int, Response]]:
    """Each answer as it is ready: from the model, or as the request type makes it of what the model can do."""
    answer = REQUEST_TYPES[request_type].answer
    if answer is None or callable(getattr(lm, request_type, None)):
        yield from lm.stream(request_type, instances, draws, stop)
        return
    for start in range(0, len(instances), AT_ONCE):
        if stop():
            return
        piece = instances[start : start + AT_ONCE]
        given = answer(lm, piece)
        if len(given) != len(piece):
            raise ModelError(f"{request_type}: {len(given)} answers to {len(piece)} requests")
        for position, each in enumerate(given, start):
            yield position, to_response(request_type, each, request_type)


def is_sampled(instance: Instance) -> bool:
    """Whether repeated draws differ. Greedy repeats are one computation."""
    return REQUEST_TYPES[instance.request_type].is_sampled(instance.arguments)
