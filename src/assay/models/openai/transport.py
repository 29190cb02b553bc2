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
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from assay.errors import AssayError, ConfigError, ModelError
from assay.models.openai.limiter import AdaptiveLimit
from assay.models.openai.wire import Again, Failed, Job, Settings, Unusable, error_message, retry_after_seconds

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")

_RETRIED = frozenset({408, 409, 425, 429})
_HOPELESS = {
    401: "The key is missing or wrong: set OPENAI_API_KEY in the environment.",
    402: "The account has no credit.",
    403: "The key may not use this model.",
    404: "Look at base_url and model; base_url is the server's address up to /v1.",
    405: "Look at base_url: this address takes no requests of this kind.",
}
_LOST_IN_A_ROW = 8
"""After so many requests in a row were given up without any answer between them, the server counts as gone."""


class Transport:
    """Sends jobs to one address."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limit = AdaptiveLimit(settings.ceiling)
        self.retries = 0
        self.should_stop: Callable[[], bool] = lambda: False
        """Asked before each request: once it says yes, those under way are awaited and no others are sent."""
        self._random = random.Random(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None
        self._thread: threading.Thread | None = None

    def send_all(self, jobs: Sequence[Job[T]]) -> Iterator[tuple[int, T | Failed]]:
        """Yield `(position, value or Failed)` as replies come; raises `ModelError` when going on makes no sense.

        Closing the iterator early cancels what is under way.
        """
        replies: queue.SimpleQueue[tuple[int, T | Failed] | BaseException | None] = queue.SimpleQueue()
        batch = _Batch(self, jobs, replies.put)
        future = asyncio.run_coroutine_threadsafe(batch.run(), self._started())
        future.add_done_callback(lambda done: replies.put(None if done.cancelled() else done.exception()))
        try:
            while (reply := replies.get()) is not None:
                if isinstance(reply, BaseException):
                    raise reply
                yield reply
        finally:
            future.cancel()

    def send(self, job: Job[T]) -> T:
        """One request, answered or `ModelError`."""
        for _, reply in self.send_all([job]):
            if isinstance(reply, Failed):
                raise ModelError(f"{self.settings.url}: {reply.reason}")
            return reply
        raise ModelError(f"{self.settings.url} gave no answer")

    def get(self, url: str) -> Any:
        """The decoded body of a plain GET, or None where the server has no such page."""

        async def fetch() -> Any:
            response = await self._http().get(url)
            return response.json() if response.status_code == 200 else None

        return self._await(fetch())

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

    def redact(self, text: str) -> str:
        """Without the key, should a server repeat it in an error message."""
        for value in self.settings.headers.values():
            secret = value.removeprefix("Bearer ").strip()
            if len(secret) >= 6:
                text = text.replace(secret, "…")
        return text

    def delay(self, attempt: int) -> float:
        """Exponential with full jitter: many clients that failed together do not come back together."""
        return self._random.uniform(0.5, 1.0) * min(60.0, self.settings.backoff * 2.0**attempt)

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        import httpx

        try:
            return asyncio.run_coroutine_threadsafe(work, self._started()).result()
        except (httpx.HTTPError, ValueError) as error:
            raise ModelError(f"{self.settings.url} does not answer: {type(error).__name__}: {error}") from error

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="assay-http", daemon=True)
            self._thread.start()
        return self._loop

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            try:
                import httpx
            except ModuleNotFoundError as error:
                raise ConfigError("servers need the package httpx", hint="pip install 'assay[api]'") from error
            limits = httpx.Limits(max_connections=self.settings.ceiling + 1, max_keepalive_connections=self.settings.ceiling)  # fmt: skip
            timeout = httpx.Timeout(self.settings.timeout, connect=min(30.0, self.settings.timeout), pool=None)
            self._client = httpx.AsyncClient(headers=dict(self.settings.headers), timeout=timeout, limits=limits, verify=self.settings.verify)  # fmt: skip
        return self._client


class _Batch(Generic[T]):
    """One call of `send_all`, on the loop."""

    def __init__(
        self, transport: Transport, jobs: Sequence[Job[T]], deliver: Callable[[tuple[int, T | Failed]], None]
    ) -> None:
        self.transport, self.jobs, self.deliver = transport, jobs, deliver
        self.settings, self.limit = transport.settings, transport.limit
        self.active = 0
        self.lost_in_a_row = 0
        self.refused_since: float | None = None
        self.changed = asyncio.Condition()

    async def run(self) -> None:
        # A task group: the first error that concerns all requests cancels the rest and is what the caller sees.
        try:
            async with asyncio.TaskGroup() as group:
                for position, job in enumerate(self.jobs):
                    await self._slot()
                    if self.transport.should_stop():
                        return
                    group.create_task(self._answer(position, job))
        except BaseExceptionGroup as several:
            raise next((e for e in several.exceptions if isinstance(e, AssayError)), several.exceptions[0]) from several

    async def _answer(self, position: int, job: Job[T]) -> None:
        """Try until there is a value, a hopeless reply, or no try left. Holds a slot while a try is under way."""
        errors = throttled = 0
        while True:
            epoch = self.limit.epoch
            outcome = await self._try(job)
            await self._free()
            if not isinstance(outcome, Again):
                break
            if self.transport.should_stop():
                return  # neither answered nor failed: the next run asks again
            self.limit.complained(epoch)
            self.transport.retries += 1
            throttled, errors = (throttled + 1, errors) if outcome.throttled else (throttled, errors + 1)
            # Being told to wait is not an error of the request, so it may happen more often.
            if errors > self.settings.max_retries or throttled > 10 * self.settings.max_retries:
                outcome = self._give_up(outcome, errors + throttled)
                break
            wait = self.transport.delay(errors + throttled // 4)
            if outcome.retry_after is not None:
                wait = min(outcome.retry_after, 600.0) + self.transport.delay(0) / 4
                self.limit.pause(time.monotonic() + outcome.retry_after)
            await asyncio.sleep(wait)
            await self._slot()
        self.deliver((position, outcome))

    async def _try(self, job: Job[T]) -> T | Failed | Again:
        import httpx

        try:
            response = await self.transport._http().post(self.settings.url, json=job.body)
        except httpx.TimeoutException:
            return Again(f"no answer within {self.settings.timeout:g} s")
        except httpx.TransportError as error:
            reason = f"the connection failed: {type(error).__name__} {error}".rstrip()
            if isinstance(error, httpx.ConnectError):
                self._check_still_there(reason)
            return Again(reason)
        self.refused_since = None
        if response.status_code != 200:
            return self._refusal(response)
        try:
            value = job.read(response.json())
        except Unusable as error:
            return Again(f"unusable reply: {error}")
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            return Again(f"malformed reply: {type(error).__name__}: {error}; it began {response.text[:120]!r}")
        self.limit.succeeded()
        self.lost_in_a_row = 0
        return value

    def _refusal(self, response: httpx.Response) -> Failed | Again:
        status = response.status_code
        text = self.transport.redact(f"HTTP {status}: {error_message(response)}")
        if status in _HOPELESS:
            raise ModelError(f"{self.settings.url}: {text}", hint=_HOPELESS[status])
        if status in _RETRIED or status >= 500:
            return Again(text, retry_after_seconds(response.headers.get("retry-after")), throttled=status in (429, 503))
        self.lost_in_a_row = 0  # it refuses this request, but it is there
        return Failed(text)

    def _check_still_there(self, reason: str) -> None:
        """A server that takes no connection at all may be starting again; one that does so for long is gone."""
        now = time.monotonic()
        self.refused_since = self.refused_since or now
        if now - self.refused_since > self.settings.gone_after:
            raise ModelError(
                f"{self.settings.url} has taken no connection for {self.settings.gone_after:g} s: {reason}",
                hint="What was answered is kept. Look at the server, then run the same command again.",
            )

    def _give_up(self, last: Again, tries: int) -> Failed:
        self.lost_in_a_row += 1
        reason = f"given up after {tries} tries; the last: {last.reason}"
        if self.lost_in_a_row >= _LOST_IN_A_ROW:
            raise ModelError(
                f"{self.settings.url} does not answer: {self.lost_in_a_row} requests in a row were {reason}",
                hint="What was answered is kept. Look at the server, then run the same command again.",
            )
        return Failed(reason)

    async def _slot(self) -> None:
        while True:
            wait = self.limit.paused_until - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            async with self.changed:
                if self.active < self.limit.slots:
                    self.active += 1
                    return
                await self.changed.wait()

    async def _free(self) -> None:
        async with self.changed:
            self.active -= 1
            self.changed.notify(2)  # the limit may have grown by one as well
