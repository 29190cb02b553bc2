"""One batch of requests on the event loop: who is sent when, who is tried again, and when to give up."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from assay.errors import ModelError
from assay.models.base import Stop
from assay.models.openai.http import HttpClient, Reply, TooLarge, read_refusal
from assay.models.openai.pacing import AdaptiveLimit, RetryPolicy, Tries
from assay.models.openai.wire import (
    NO_SUCH_HOST,
    NOT_AN_API,
    NOT_THERE,
    Failed,
    Job,
    Retry,
    Settings,
    Unusable,
    in_order,
    write_body,
)
from assay.models.waiting import rounded_seconds, told_while

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

_LOST_IN_A_ROW = 8
"""After so many requests in a row were given up without any answer between them, the server counts as gone."""
_SLICE = 0.1
"""Seconds between two looks at whether all is to stop, while there is nothing else to do."""
_GATHER = 0.005
"""Seconds that replies are gathered before they are read and handed over. Read one after the other they take a third of
the time that they take between two exchanges, and waking the other thread for each would cost more than the request."""
_SMALL = 2**16
"""Bytes of a reply that may wait; a large one is read while it is in the processor's caches."""
_SOON, _SOON_TRIES = 1 / 8, 2
"""Share of the usual wait, and how many tries of a request come that soon while failures are rare."""
_FIRST = Tries()
_WORTH_A_WORD, _LONG_SILENCE = 1.0, 30.0
"""Seconds after which those who wait are told what for: while nothing has been answered, and later."""
_STORED = "All answers so far are stored. Check the server, then run the same command again."


_OUTAGE = 5.0
"""Seconds without an answer that are told in the notes of the run."""


class Line(Protocol):
    """What all batches to one server share."""

    settings: Settings
    limit: AdaptiveLimit
    chance: Callable[[], float]
    named: Counter[str]
    outages: list[float]
    """Seconds of each time that nothing was answered while requests failed."""
    retries: int
    batches: list[Dispatch[Any]]
    """Those that are not over, oldest first: it is sent before the next."""

    def http(self) -> HttpClient: ...


class UnreadReply(NamedTuple, Generic[T]):
    """A reply that is still to be read."""

    position: int
    job: Job[T]
    tries: Tries
    epoch: int
    reply: Reply


class Vain(NamedTuple):
    """Tries that fail: why, since when, and until when they go on."""

    reason: str
    since: float
    until: float


class InFlight(NamedTuple):
    """A try that is under way."""

    since: float
    worker: asyncio.Task[None]


class Dispatch(Generic[T]):
    """One call of `send_all`. Each request is delivered once, or not at all when it was told to stop before.

    Nobody waits in line: whenever a try ends, its worker goes on with the next, those that are due to be tried again
    first, and others begin as there is room for them. The work for a request is the same however many are under way.
    """

    def __init__(
        self,
        line: Line,
        jobs: Iterable[Job[T]],
        deliver: Callable[[list[tuple[int, T | Failed]]], None],
        stop: Stop,
        most: float = inf,
    ) -> None:
        self.line, self.deliver, self.stop, self.most = line, deliver, stop, most
        self.settings, self.limit = line.settings, line.limit
        self._no_answer = f"no answer within {self.settings.timeout:g} s"
        self.policy = RetryPolicy(self.settings.max_retries, self.settings.backoff)
        self.lost_in_a_row = 0
        self.refused_since: float | None = None
        self._new = enumerate(jobs)
        self._none_new = False
        self._again: list[
            tuple[float, int, Job[T], Tries]
        ] = []  # a heap, by when they are due; what goes on is due at once
        self._in_flight: dict[int, InFlight] = {}  # oldest first
        self._late: set[int] = set()
        self._last_failure: Vain | None = None
        """The last try that failed, where no answer came after it."""
        self._last_answer = time.monotonic()
        self._answered = 0
        self._unread: list[UnreadReply[T]] = []
        self._outcomes: list[tuple[int, T | Failed]] = []
        self._is_gathering = False
        self._stopped = False
        self._error: BaseException | None = None
        self._changed = asyncio.Event()
        self._create_task: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]

    async def run(self) -> None:
        """Raises the first error that concerns all requests; the others are then cancelled."""
        with told_while(self.waits_for):
            await self._run()

    def waits_for(self, now: float) -> str | None:
        """Who is being tried, since when in vain, and for how much longer; None while answers come."""
        url, last = self.settings.url, self._last_failure
        if last is not None and now - last.since > _WORTH_A_WORD:
            left = rounded_seconds(last.until - now)
            return f"waiting for {url}: {last.reason}; trying again for about {left}"
        silence = now - self._last_answer
        if self._in_flight and silence > (_WORTH_A_WORD if not self._answered else _LONG_SILENCE):
            left = rounded_seconds(self.settings.timeout - silence)
            return f"waiting for {url}: {len(self._in_flight)} requests under way, no answer yet; {left} left for each"
        return None

    def _note_failure(self, last: Retry, tries: Tries, now: float) -> None:
        """What is tried again, since when, and until when if nothing changes."""
        since = now if self._last_failure is None else self._last_failure.since
        until = now + self.policy.time_left(tries, last)
        if self.refused_since is not None:
            until = min(until, self.refused_since + self.settings.gone_after)
        # Of a connection that failed, what it was to; the rest is how Python says it.
        said = (
            last.reason.partition(" ssl:")[0]
            .replace("ClientConnectorError ", "")
            .replace("ClientConnectorDNSError ", "")
        )
        self._last_failure = Vain(said[:120], since, until)

    async def _run(self) -> None:
        self.line.batches.append(self)
        self._create_task = asyncio.get_running_loop().create_task
        try:
            while self._error is None:
                self._cancel_late()
                self._send()
                if not self._in_flight:
                    self._read_all()
                    if self._error is None and (self._stopped or (self._none_new and not self._again)):
                        return
                self._changed.clear()
                await self._change()
            raise self._error
        finally:
            self.line.batches.remove(self)
            left = [each.worker for each in self._in_flight.values()]
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            self._read_all()
            self._hand_over()

    async def _change(self) -> None:
        """Until a try has ended and left nothing to send, or it is time to look at the clock."""
        moment = max(self.limit.paused_until, self._again[0][0] if self._again else 0.0)
        wait = min(max(moment - time.monotonic(), 0.001), _SLICE) if moment else _SLICE
        try:
            async with asyncio.timeout(wait):
                await self._changed.wait()
        except TimeoutError:
            pass

    def _cancel_late(self) -> None:
        """One look at the oldest instead of a timer for each."""
        longest_ago = time.monotonic() - self.settings.timeout
        for position, each in self._in_flight.items():
            if each.since > longest_ago:
                return
            if position not in self._late:
                self._late.add(position)
                each.worker.cancel()

    def _send(self) -> None:
        """Begin as many tries as there is room for."""
        while (following := self._next()) is not None:
            worker = self._create_task(self._work(*following))
            self._in_flight[following[0]] = InFlight(time.monotonic(), worker)

    def _next(self) -> tuple[int, Job[T], Tries] | None:
        """The next try, if there is one, and room for it."""
        if self._error is not None or not self._has_room():
            return None
        if self._stopped or self.stop():
            self._stopped = True
            return None
        now = time.monotonic()
        if self.limit.paused_until > now:
            return None
        if self._again and self._again[0][0] <= now:
            _, position, job, tries = heappop(self._again)
            self.line.retries += bool(tries.total)
            return position, job, tries
        for position, job in self._new:
            return position, job, _FIRST
        self._none_new = True
        return None

    def _has_room(self) -> bool:
        batches = self.line.batches
        in_flight = len(self._in_flight) if len(batches) == 1 else sum([len(batch._in_flight) for batch in batches])
        return in_flight < min(self.limit.slots, self.most)

    async def _work(self, position: int, job: Job[T], tries: Tries) -> None:
        """One try after the other, while there is room: a task for each would cost as much as reading its reply."""
        worker = self._in_flight[position].worker
        await self._answer(position, job, tries)
        while (after := self._go_on(worker)) is not None:
            await self._answer(*after)
        if self._error is not None or not self._in_flight:
            self._changed.set()

    async def _answer(self, position: int, job: Job[T], tries: Tries) -> None:
        """One try, and what follows from it."""
        try:
            epoch = self.limit.epoch
            outcome = await self._try(position, job)
            if not isinstance(outcome, Reply):
                self._settle(position, job, tries, epoch, outcome)
            elif job.goes_on or len(outcome.body) > _SMALL:
                self._settle(position, job, tries, epoch, self._read(job, outcome))
            else:
                self._gather()
                self._unread.append(UnreadReply(position, job, tries, epoch, outcome))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._error = self._error or error
        finally:
            del self._in_flight[position]
            self._late.discard(position)

    def _go_on(self, worker: asyncio.Task[None]) -> tuple[int, Job[T], Tries] | None:
        """What a worker does next, after the older batches began what there is room for."""
        after = None
        for batch in [*self.line.batches]:
            found = batch.fill(worker if batch is self else None)
            after = found if batch is self else after
        return after

    def fill(self, worker: asyncio.Task[None] | None) -> tuple[int, Job[T], Tries] | None:
        """Begin what there is room for, after a try of any batch has ended: first what the free worker is to do."""
        following = None
        try:
            if worker is not None and (following := self._next()) is not None:
                self._in_flight[following[0]] = InFlight(time.monotonic(), worker)
            self._send()
        except BaseException as error:  # a job that cannot be made
            self._error = self._error or error
            self._changed.set()
        return following

    def _settle(self, position: int, job: Job[T], tries: Tries, epoch: int, outcome: T | Failed | Retry) -> None:
        if isinstance(outcome, Retry):
            self.limit.complained(epoch)
            self._put_off(position, job, tries.plus(outcome), outcome)
        elif isinstance(outcome, Job):
            following: Job[T] = outcome
            heappush(self._again, (0.0, position, following, _FIRST))
        else:
            self._keep(position, outcome)

    def _put_off(self, position: int, job: Job[T], tries: Tries, last: Retry) -> None:
        if self.stop():
            return  # neither answered nor failed: the next run asks again
        wait = self.policy.wait_after(tries, last, self.line.chance())
        if wait is None:
            self._keep(position, self._give_up(last, tries.total))
            return
        now = time.monotonic()
        self._note_failure(last, tries, now)
        self.limit.pause(now + wait.everyone)
        # One failure among many answers says little about the server: that request need not hold up the end of the run.
        soon = tries.total <= _SOON_TRIES and not wait.everyone and self.limit.complaints_are_rare
        heappush(self._again, (now + wait.own * (_SOON if soon else 1), position, job, tries))

    def _keep(self, position: int, outcome: T | Failed) -> None:
        self._gather()
        self._outcomes.append((position, outcome))

    def _gather(self) -> None:
        if not self._is_gathering:
            self._is_gathering = True
            asyncio.get_running_loop().call_later(_GATHER, self._gathered)

    def _gathered(self) -> None:
        self._read_all()
        self._hand_over()
        self._is_gathering = False
        if self._error is not None or (self._again and not self._in_flight):
            self._changed.set()

    def _read_all(self) -> None:
        """All replies that came meanwhile, whose requests have room for others by now."""
        unread, self._unread = self._unread, []
        for position, job, tries, epoch, reply in unread:
            try:
                self._settle(position, job, tries, epoch, self._read(job, reply))
            except BaseException as error:  # it is raised where the batch is awaited
                self._error = self._error or error

    def _hand_over(self) -> None:
        if self._outcomes:
            some, self._outcomes = self._outcomes, []
            self.deliver(some)

    async def _try(self, position: int, job: Job[T]) -> Reply | Failed | Retry:
        import aiohttp

        content = write_body(job.body)
        if isinstance(content, Failed):
            return content
        try:
            reply = await self.line.http().post(content)
        except asyncio.CancelledError:
            if position not in self._late or self._in_flight[position].worker.uncancel():
                raise
            return Retry(self._no_answer)
        except TimeoutError as error:
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                self._check_still_there(self._no_answer)
            return Retry(self._no_answer)
        except TooLarge as error:
            return Retry(str(error)) if error.together else Failed(str(error))
        except aiohttp.ClientError as error:
            return self._broken(error)
        self.refused_since = None
        if reply.status == 200:
            return reply
        refusal = read_refusal(self.settings.url, reply, self.settings.redact)
        if isinstance(refusal, Failed):
            self.lost_in_a_row = 0  # it refuses this request, but it is there
        return refusal

    def _read(self, job: Job[T], reply: Reply) -> T | Failed | Retry:
        try:
            said = in_order(reply.json())
            value = job.read(said)
        except Unusable as error:
            reason = self.settings.redact(f"unusable reply: {error}")
            if error.again:
                return Retry(reason)
            self.lost_in_a_row = 0
            return Failed(reason)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            began = self.settings.redact(reply.text)[:120]
            if reply.is_page:
                return Retry(f"the reply is a web page (HTML), not JSON; it began {began!r}", hint=NOT_AN_API)
            if isinstance(error, KeyError) and error.args == ("choices",):
                return Retry(f"the reply has no `choices`; it began {began!r}", hint=NOT_AN_API)
            if not reply.text.strip():
                return Retry("the reply is empty", hint=NOT_AN_API)
            why = self.settings.redact(f"{type(error).__name__}: {error}")[:300]
            return Retry(f"the reply cannot be read ({why}); it began {began!r}", hint=NOT_AN_API)
        self.limit.succeeded()
        self.lost_in_a_row = 0
        now = time.monotonic()
        if self._last_failure is not None and now - max(self._last_failure.since, self._last_answer) > _OUTAGE:
            self.line.outages.append(now - self._last_failure.since)
        self._last_failure, self._last_answer, self._answered = None, now, self._answered + 1
        if isinstance(named := said.get("model"), str):
            self.line.named[named] += 1
        return value

    def _broken(self, error: aiohttp.ClientError) -> Retry:
        import aiohttp

        reason = self.settings.redact(f"the connection failed: {type(error).__name__} {error}".rstrip())
        if isinstance(error, aiohttp.ClientSSLError):
            raise ModelError(
                f"{self.settings.url}: {reason}",
                hint="Check the address and its certificate; ca_cert_path=FILE names your own certificate authority.",
            )
        if isinstance(error, aiohttp.ClientConnectorError):
            self._check_still_there(reason)
            return Retry(reason, hint=NO_SUCH_HOST if isinstance(error, aiohttp.ClientConnectorDNSError) else NOT_THERE)
        return Retry(reason)

    def _check_still_there(self, reason: str) -> None:
        """A server that takes no connection at all may be starting again; one that does so for long is gone."""
        now = time.monotonic()
        self.refused_since = self.refused_since or now
        if now - self.refused_since > self.settings.gone_after:
            raise ModelError(
                f"{self.settings.url} has not accepted a connection for {self.settings.gone_after:g} s: {reason}",
                hint=_STORED,
            )

    def _give_up(self, last: Retry, tries: int) -> Failed:
        self.lost_in_a_row += 1
        reason = f"given up after {tries} tries; the last: {last.reason}"
        if self.lost_in_a_row >= _LOST_IN_A_ROW:
            raise ModelError(
                f"{self.settings.url} does not answer: {self.lost_in_a_row} requests in a row were {reason}",
                hint=f"{_STORED} {last.hint}" if last.hint not in (None, NOT_THERE) else _STORED,
            )
        return Failed(reason, hint=last.hint)
