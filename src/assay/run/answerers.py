"""Who answers the requests of a run: a model behind the response store, or the samples that an earlier run stored.

An answerer fills in the responses of the docs it is given. Everything else of a run (what to request, what the answers are
worth) is the same for all of them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from threading import Condition, Lock
from typing import Protocol

from assay.config import RunConfig
from assay.errors import ModelError
from assay.instance import Instance, Response
from assay.models import LM, TIMES_AT_FIRST, Identity, difference, to_response
from assay.request_types import REQUEST_TYPES
from assay.run.doc_work import DocWork, restored
from assay.run.needs import say_what_is_too_long
from assay.run.progress import Counts, Interrupted, Progress
from assay.secret_texts import mask
from assay.store import AnswerOrigin, ResponseStore, request_digest

WINDOW_REQUESTS = 12_288
"""Requests held in memory at once, in all windows. Large enough that prefixes are shared, small enough that memory stays flat."""


class Answerer(Protocol):
    window_requests: int
    """How many requests it likes to see at once."""
    windows_at_once: int
    """How many windows of them may be sent at the same time, each on a thread of its own."""
    takes_steps: bool
    """Whether conversations are answered step by step; else they are given whole, as an earlier run stored them."""

    def answer(self, docs: Sequence[DocWork], done: Callable[[DocWork], None]) -> None:
        """Fill `resps` of every request of the docs' present round; `done` is called for each doc when it is filled."""

    def check(self, docs: Sequence[DocWork]) -> None:
        """All rounds of these docs are over."""

    def notes(self) -> list[str]:
        """What is to be said about the answers when all were given."""

    def cancel(self) -> None:
        """The run ends early: give up what other threads are sending."""


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
class _Request:
    """One request that has to be answered once, and every place that waits for the answer."""

    instance: Instance
    draw: int
    waiting: list[tuple[DocWork, Instance, int]] = field(default_factory=list)


class ModelAnswerer:
    """The store first, then the model; each answer is stored as it arrives."""

    takes_steps = True

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
        self._in_flight: set[bytes] = set()
        """Keys of requests whose answers are being found now, by any thread."""
        self._found = Condition()

    def answer(self, docs: Sequence[DocWork], done: Callable[[DocWork], None]) -> None:
        if self.stop():
            raise self._interrupted()
        requests = self._collect(docs)
        with self._alone(requests):
            self._find(docs, requests, dict(requests), done)

    @contextmanager
    def _alone(self, requests: dict[bytes, _Request]) -> Iterator[None]:
        """While no other thread finds an answer to any of these: what two windows request is sent once."""
        keys = set(requests)
        with self._found:
            while not self._in_flight.isdisjoint(keys):
                self._found.wait()
            self._in_flight |= keys
        try:
            yield
        finally:
            with self._found:
                self._in_flight -= keys
                self._found.notify_all()

    def _find(
        self,
        docs: Sequence[DocWork],
        requests: dict[bytes, _Request],
        window: Mapping[bytes, _Request],
        done: Callable[[DocWork], None],
    ) -> None:
        for work in docs:
            if not work.pending:
                done(work)
        if requests and self.store is not None:
            with self._lock:
                self.store.recognize()
            if not self.fresh:
                self._reuse(requests, done)
        if self.offline:
            self._refuse(requests, done)
            return
        by_type: dict[str, list[tuple[bytes, _Request]]] = {}
        for key, request in window.items():
            by_type.setdefault(request.instance.request_type, []).append((key, request))
        say_what_is_too_long(self.lm, [request.instance for request in requests.values()], self.progress.message)
        for request_type, items in by_type.items():
            self._compute(request_type, items, requests.keys(), done)

    def check(self, docs: Sequence[DocWork]) -> None:
        pass

    def notes(self) -> list[str]:
        return [str(mask(note)) for note in self.lm.notes()]

    def cancel(self) -> None:
        self.lm.cancel()

    def _collect(self, docs: Iterable[DocWork]) -> dict[bytes, _Request]:
        """Equal requests are sent once, whichever docs or tasks they belong to."""
        requests: dict[bytes, _Request] = {}
        for work in docs:
            for instance in work.round:
                digest = request_digest(instance)
                work.digests.append(digest)
                draws = instance.repeats
                sampled = (draws > 1 or instance.draw > 0) and is_sampled(instance)
                instance.resps = [None] * draws
                instance.responses = [None] * draws
                work.pending += draws
                for index in range(draws):
                    draw = instance.draw + index if sampled else 0
                    key = self.keys.key(digest, draw)
                    request = requests.get(key)
                    if request is None:
                        request = requests[key] = _Request(instance, draw)
                    request.waiting.append((work, instance, index))
        return requests

    def _reuse(self, requests: dict[bytes, _Request], done: Callable[[DocWork], None]) -> None:
        assert self.store is not None
        known = self.store.get_many(list(requests))
        with self._lock:
            for key, answer in known.items():
                request = requests.pop(key)
                self._deliver(request, restored(request.instance.request_type, answer), done)
            self.counts.reused += len(known)
            self.progress.update(self.counts)

    def _refuse(self, requests: dict[bytes, _Request], done: Callable[[DocWork], None]) -> None:
        missing = Response(None, failure="the store has no answer to this request, and --offline asks nothing")
        with self._lock:
            self.counts.failed += len(requests)
            for request in requests.values():
                self._deliver(request, missing, done)

    def _compute(
        self,
        request_type: str,
        items: list[tuple[bytes, _Request]],
        keys: Collection[bytes],
        done: Callable[[DocWork], None],
    ) -> None:
        """Compute the answers with these keys, of all requests of a type in a window."""
        if self.shuffle is not None:
            items = random.Random(self.shuffle).sample(items, len(items))
        missing = [position for position, (key, _) in enumerate(items) if key in keys]
        if not missing:
            return
        instances = [request.instance for _, request in items]
        draws = [request.draw for _, request in items]
        answered = 0
        for position, answer in stream_answers(self.lm, request_type, instances, draws, self.stop, missing):
            key, request = items[position]
            answer = mask(answer)  # a server may repeat what was sent with a request
            answered += 1
            if answer.failure is None and self.store is not None:
                self.store.put(key, answer)
            with self._lock:  # counts and progress are those of all threads
                if answer.failure is None:
                    self.counts.computed += 1
                else:
                    self.counts.failed += 1
                self._deliver(request, answer, done)
        if answered < len(missing):
            if self.stop():
                raise self._interrupted()
            raise ModelError(f"the model answered {answered} of {len(missing)} {request_type} requests")

    def _interrupted(self) -> Interrupted:
        hint = "Run the same command again to continue from here."
        if self.fresh:
            hint = (
                "With --fresh the same command asks everything again; without it, a run continues with what is stored."
            )
        return Interrupted(f"stopped: {self.counts.answered} requests answered and kept", hint=hint)

    def _deliver(self, request: _Request, answer: Response, done: Callable[[DocWork], None]) -> None:
        for work, instance, index in request.waiting:
            if answer.failure is not None:
                instance.failure = answer.failure
            else:
                instance.resps[index] = answer.answer
                instance.responses[index] = answer
            work.pending -= 1
            if not work.pending:
                done(work)


AT_ONCE = 256
"""Requests that a request type answers itself between two looks at whether the run is to stop."""


def stream_answers(
    lm: LM,
    request_type: str,
    instances: Sequence[Instance],
    draws: Sequence[int],
    stop: Callable[[], bool],
    missing: Sequence[int] | None = None,
) -> Iterator[tuple[int, Response]]:
    """Each answer as it is ready: from the model, or as the request type makes it of what the model can do.

    `missing` are the positions to be answered, where others of the same window have their answers.
    """
    answer = REQUEST_TYPES[request_type].answer
    if answer is None or callable(getattr(lm, request_type, None)):
        if missing is None or len(missing) == len(instances):
            yield from lm.stream(request_type, instances, draws, stop)
        else:
            yield from lm.stream_missing(request_type, instances, draws, missing, stop)
        return
    places = range(len(instances)) if missing is None else missing
    for start in range(0, len(places), AT_ONCE):
        if stop():
            return
        piece = [instances[place] for place in places[start : start + AT_ONCE]]
        given = answer(lm, piece)
        if len(given) != len(piece):
            raise ModelError(f"{request_type}: {len(given)} answers to {len(piece)} requests")
        for index, each in enumerate(given, start):
            yield places[index], to_response(request_type, each, request_type)


def is_sampled(instance: Instance) -> bool:
    """Whether repeated draws differ. Greedy repeats are one computation."""
    return REQUEST_TYPES[instance.request_type].is_sampled(instance.arguments)


class ModelStore:
    """Answers of one model, stored and found again.

    The fingerprint is in every key. A model behind an address may have become another one under the same fingerprint; it
    is probed when something is first requested of it, and only answers that were given by a model with the same probes are seen.
    """

    def __init__(
        self, store: ResponseStore, lm: LM, config: RunConfig, *, run: str, model: str, notify: Callable[[str], None]
    ) -> None:
        self.store, self.lm, self.config, self.notify = store, lm, config, notify
        self._run, self._model = run, model
        self._how = ""
        """How it is known that stored answers are this model's, or why none are."""
        self.is_another = False
        """Whether the store has answers from this address, and none of them by what answers there now."""

    def recognize(self) -> None:
        """Find out whose answers may be reused, and what new ones will be known by. Asks the model its probes, once."""
        _ = self._origin

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, Response]:
        return self.store.get_many(keys, self._origin)

    def put(self, key: bytes, response: Response) -> None:
        self.store.put(key, response, self._origin)

    @cached_property
    def _origin(self) -> AnswerOrigin:
        fingerprint = self.lm.fingerprint()
        facts, trusted = self._recognized(fingerprint)
        if self.config.fresh:
            trusted = set()
        return self.store.begin(run=self._run, model=self._model, fingerprint=fingerprint, facts=facts, trusted=trusted)

    def _recognized(self, fingerprint: str) -> tuple[str | None, set[int] | None]:
        """What the model is known by, and the origins whose answers are its own; None where the fingerprint says it."""
        stored = {} if self.config.fresh else self.store.facts_of(fingerprint)
        if self.config.offline:
            self._how = "not checked: --offline" if stored else ""
            latest = list(stored.values())[-1:]
            # Never the answers of two models in one score: those of the last one.
            return None, {origin for origin, facts in stored.items() if facts in latest} if stored else None
        probed = self.lm.identify(1 if stored else TIMES_AT_FIRST)
        if probed is None:
            return None, None
        facts, trusted = self._compared(probed, stored)
        if self.config.reuse == "always":
            self._how = "not checked: --reuse always"
            return facts, None
        return facts, trusted

    def _compared(self, probed: Identity, stored: dict[int, str]) -> tuple[str | None, set[int]]:
        if not probed.is_known:
            self._how = (
                "the server does not answer the probes that identify its model; --reuse always reuses everything"
            )
            return None, set()
        reasons: dict[str, str | None] = {text: _reason(text, probed) for text in set(stored.values())}
        if reasons and None not in reasons.values():
            # A server may vary more than was seen so far: know its spread on this side too before it is called another.
            probed = probed.joined(self.lm.identify(TIMES_AT_FIRST - 1) or probed)
            reasons = {text: _reason(text, probed) for text in reasons}
        same = {origin for origin, text in stored.items() if reasons[text] is None}
        if same:
            self._how = "same probes"
            return stored[min(same)], same
        if stored:
            self.is_another = True
            why = reasons[stored[max(stored)]]
            self._how = f"another model answers now: {why}"
            self.notify(
                f"{self._model}: the model at this address is not the one whose answers are kept: {why}. "
                "None of them are reused; --reuse always reuses them anyway."
            )
        return probed.to_json(), set()

    def summary(self, counts: Counts) -> str:
        """Where answers came from: `1,200 computed, 119 from the store (asked 2026-11-14, same probes)`."""
        parts = [f"{counts.computed:,} computed"]
        if counts.reused:
            read_from = self._origin.read_from
            days = [_day(at) for at in self.store.dates([origin for origin, n in read_from.items() if n])]
            dates = [f"asked {days[0]}" + (f" to {days[-1]}" if days[-1] != days[0] else "")] if days else []
            how = [*dates, *([self._how] if self._how else [])]
            parts.append(f"{counts.reused:,} from the store" + (f" ({', '.join(how)})" if how else ""))
        elif self._how and self._how != "same probes":
            parts.append(f"none from the store ({self._how})")
        if counts.failed:
            parts.append(f"{counts.failed:,} failed")
        return ", ".join(parts)


def _reason(text: str, probed: Identity) -> str | None:
    try:
        return difference(Identity.from_json(text), probed)
    except (ValueError, LookupError, TypeError):
        return "what was kept about it cannot be read"


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
