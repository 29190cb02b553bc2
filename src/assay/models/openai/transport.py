"""Requests out, replies back: each exactly once, or a reason why not.

The requests run on an event loop in a thread of its own, so that plain code can iterate over replies as they come.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from assay.errors import AssayError, ConfigError, ModelError
from assay.models.base import Stop, never
from assay.models.openai.limiter import AdaptiveLimit
from assay.models.openai.refusals import read_refusal
from assay.models.openai.retry import RetryPolicy, Tries
from assay.models.openai.wire import Again, Failed, Job, Settings, Unusable, write_body

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class Transport:
    """Sends jobs to one address."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limit = AdaptiveLimit(settings.ceiling)
        self.retries = 0
        self.chance = random.SystemRandom().random
        """The system's: processes that are throttled together would come back together with a seed of their own."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None
        self._thread: threading.Thread | None = None

    def send_all(self, jobs: Sequence[Job[T]], stop: Stop = never) -> Iterator[tuple[int, T | Failed]]:
        """Yield `(position, value or Failed)` as replies come; raises `ModelError` when going on makes no sense.

        `stop` is asked before each request: once it says yes, those under way are awaited and no others are sent.
        Closing the iterator early cancels what is under way.
        """
        replies: queue.SimpleQueue[tuple[int, T | Failed] | BaseException | None] = queue.SimpleQueue()
        dispatch = Dispatch(self, jobs, replies.put, stop)
        future = asyncio.run_coroutine_threadsafe(dispatch.run(), self._started())
        future.add_done_callback(lambda done: replies.put(None if done.cancelled() else done.exception()))
        try:
            while (reply := replies.get()) is not None:
                if isinstance(reply, BaseException):
                    raise reply
                yield reply
        finally:
            future.cancel()

    def send(self, job: Job[T], stop: Stop = never) -> T | Failed | None:
        """One request; None when it was asked to stop before there was an answer."""
        return next((reply for _, reply in self.send_all([job], stop)), None)

    def get(self, url: str) -> Any:
        """The decoded body of a plain GET, or None where the server has no such page."""

        async def fetch() -> Any:
            response = await self.http().get(url)
            return response.json() if response.status_code == 200 else None

        return self._await(fetch())

    def http(self) -> httpx.AsyncClient:
        """The client, made on first use. Only for the loop's thread."""
        if self._client is None:
            import httpx

            settings = self.settings
            headers = {"Content-Type": "application/json", **settings.headers}
            limits = httpx.Limits(max_connections=settings.ceiling + 1, max_keepalive_connections=settings.ceiling)
            timeout = httpx.Timeout(settings.timeout, connect=min(30.0, settings.timeout), pool=None)
            try:
                self._client = httpx.AsyncClient(
                    headers=headers, timeout=timeout, limits=limits, verify=settings.verify
                )
            except OSError as error:
                raise ConfigError(f"ca_cert_path={settings.verify} cannot be used: {error}") from error
        return self._client

    def close(self) -> None:
        """End the thread and its connections."""
        loop, thread, client = self._loop, self._thread, self._client
        if loop is None or thread is None:
            return
        self._loop = self._thread = self._client = None
        if client is not None:
            asyncio.run_coroutine_threadsafe(client.aclose(), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._started()
        import httpx

        try:
            return asyncio.run_coroutine_threadsafe(work, loop).result()
        except AssayError:
            raise
        except (httpx.HTTPError, ValueError) as error:
            reason = self.settings.redact(f"{type(error).__name__}: {error}")
            raise ModelError(f"{self.settings.url} does not answer: {reason}") from error

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            if find_spec("httpx") is None:
                raise ConfigError("servers need the package httpx", hint="pip install 'assay[api]'")
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="assay-http", daemon=True)
            self._thread.start()
        return self._loop


_LOST_IN_A_ROW = 8
"""After so many requests in a row were given up without any answer between them, the server counts as gone."""
_SLICE = 0.1
"""Seconds slept at a time: whoever waits hears within this time that all is to stop."""
_KEPT = "What was answered is kept. Look at the server, then run the same command again."


class Dispatch(Generic[T]):
    """One call of `send_all`. Each request is delivered once, or not at all when it was asked to stop before."""

    def __init__(
        self,
        transport: Transport,
        jobs: Sequence[Job[T]],
        deliver: Callable[[tuple[int, T | Failed]], None],
        stop: Stop,
    ) -> None:
        self.transport, self.jobs, self.deliver, self.stop = transport, jobs, deliver, stop
        self.settings, self.limit = transport.settings, transport.limit
        self.policy = RetryPolicy(self.settings.max_retries, self.settings.backoff)
        self.active = 0
        self.lost_in_a_row = 0
        self.refused_since: float | None = None
        self.changed = asyncio.Condition()

    async def run(self) -> None:
        # A task group: the first error that concerns all requests cancels the rest and is what the caller sees.
        try:
            async with asyncio.TaskGroup() as group:
                for position, job in enumerate(self.jobs):
                    if not await self._slot():
                        return
                    group.create_task(self._answer(position, job))
        except BaseExceptionGroup as several:
            raise next((e for e in several.exceptions if isinstance(e, AssayError)), several.exceptions[0]) from several

    async def _answer(self, position: int, job: Job[T]) -> None:
        """Try until there is an outcome to deliver. Holds a slot while a try is under way, and none while it waits."""
        tries = Tries()
        while True:
            epoch = self.limit.epoch
            outcome = await self._try(job)
            await self._free()
            if not isinstance(outcome, Again):
                self.deliver((position, outcome))
                return
            self.limit.complained(epoch)
            if self.stop():
                return  # neither answered nor failed: the next run asks again
            tries = tries.plus(outcome)
            wait = self.policy.wait_after(tries, outcome, self.transport.chance())
            if wait is None:
                self.deliver((position, self._give_up(outcome, tries.total)))
                return
            self.limit.pause(time.monotonic() + wait.everyone)
            await self._sleep_until(time.monotonic() + wait.own)
            if not await self._slot():
                return
            self.transport.retries += 1

    async def _try(self, job: Job[T]) -> T | Failed | Again:
        import httpx

        content = write_body(job.body)
        if isinstance(content, Failed):
            return content
        try:
            response = await self.transport.http().post(self.settings.url, content=content)
        except httpx.TimeoutException:
            return Again(f"no answer within {self.settings.timeout:g} s")
        except httpx.DecodingError as error:
            return Again(self.settings.redact(f"malformed reply: {error}"))
        except httpx.RequestError as error:
            reason = self.settings.redact(f"the connection failed: {type(error).__name__} {error}".rstrip())
            if isinstance(error, httpx.ConnectError):
                self._check_still_there(reason)
            return Again(reason)
        self.refused_since = None
        if response.status_code == 200:
            outcome = self._read(job, response)
        else:
            outcome = read_refusal(self.settings.url, response, self.settings.redact)
        if not isinstance(outcome, Again):
            self.lost_in_a_row = 0  # even if it refuses this request, it is there
        return outcome

    def _read(self, job: Job[T], response: httpx.Response) -> T | Failed | Again:
        try:
            value = job.read(response.json())
        except Unusable as error:
            reason = self.settings.redact(f"unusable reply: {error}")
            return Again(reason) if error.again else Failed(reason)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            began = self.settings.redact(response.text)[:120]
            why = self.settings.redact(f"{type(error).__name__}: {error}")[:300]
            return Again(f"malformed reply: {why}; it began {began!r}")
        self.limit.succeeded()
        return value

    def _check_still_there(self, reason: str) -> None:
        """A server that takes no connection at all may be starting again; one that does so for long is gone."""
        now = time.monotonic()
        self.refused_since = self.refused_since or now
        if now - self.refused_since > self.settings.gone_after:
            raise ModelError(
                f"{self.settings.url} has taken no connection for {self.settings.gone_after:g} s: {reason}", hint=_KEPT
            )

    def _give_up(self, last: Again, tries: int) -> Failed:
        self.lost_in_a_row += 1
        reason = f"given up after {tries} tries; the last: {last.reason}"
        if self.lost_in_a_row >= _LOST_IN_A_ROW:
            raise ModelError(
                f"{self.settings.url} does not answer: {self.lost_in_a_row} requests in a row were {reason}", hint=_KEPT
            )
        return Failed(reason)

    async def _slot(self) -> bool:
        """Wait for a free slot and take it; False, and none taken, when it is time to stop."""
        while not self.stop():
            if self.limit.paused_until > time.monotonic():
                await self._sleep_until(self.limit.paused_until)
                continue
            async with self.changed:
                if self.active < self.limit.slots:
                    self.active += 1
                    return True
                await self.changed.wait()
        async with self.changed:
            self.changed.notify_all()  # those that wait for a slot are to stop too, and no answer will wake them
        return False

    async def _free(self) -> None:
        async with self.changed:
            self.active -= 1
            self.changed.notify(2)  # the limit may have grown by one as well

    async def _sleep_until(self, moment: float) -> None:
        while (left := moment - time.monotonic()) > 0 and not self.stop():
            await asyncio.sleep(min(left, _SLICE))
