"""Requests out, replies back: each exactly once, or a reason why not.

The requests run on an event loop in a thread of its own, so that plain code can iterate over replies as they come, and
score and keep them while others are under way.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from importlib.util import find_spec
from math import inf
from typing import Any, TypeVar

from assay.errors import AssayError, ConfigError, ModelError, install_hint
from assay.models.base import Stop, never
from assay.models.openai.dispatch import Dispatch
from assay.models.openai.http import HttpClient, Reply, TooLarge, allow_connections, read_refusal
from assay.models.openai.pacing import TRUST, AdaptiveLimit
from assay.models.openai.wire import NO_SUCH_HOST, NOT_AN_API, NOT_THERE, Failed, Job, Settings, write_body
from assay.models.waiting import rounded_seconds, told_while

T = TypeVar("T")


class Transport:
    """Sends jobs to one address."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limit = AdaptiveLimit(settings.ceiling, limit=settings.begin_with, answers=TRUST)
        self.retries = 0
        self.named: Counter[str] = Counter()
        self.outages: list[float] = []
        """Replies by the model that they name."""
        self.batches: list[Dispatch[Any]] = []
        self.chance = random.SystemRandom().random
        """The system's: processes that are throttled together would come back together with a seed of their own."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: HttpClient | None = None
        self._thread: threading.Thread | None = None
        self._sending: set[Future[None]] = set()

    def send_all(
        self, jobs: Iterable[Job[T]], stop: Stop = never, *, most: float = inf
    ) -> Iterator[tuple[int, T | Failed]]:
        """Yield `(position, value or Failed)` as replies come; raises `ModelError` when going on makes no sense.

        A job is taken from `jobs` when there is room to send it, on the event loop's thread. `stop` is called before
        each request: once it says yes, those under way are awaited and no others are sent. Closing the iterator early
        cancels what is under way. Several may be sent at once: they share the limit, and the older goes first. None of
        these is sent while `most` are under way.
        """
        outcomes: queue.SimpleQueue[list[tuple[int, T | Failed]] | BaseException | None] = queue.SimpleQueue()
        dispatch = Dispatch(self, jobs, outcomes.put, stop, most)
        future = asyncio.run_coroutine_threadsafe(dispatch.run(), self._started())
        self._sending.add(future)
        future.add_done_callback(lambda done: outcomes.put(None if done.cancelled() else done.exception()))
        try:
            while (some := outcomes.get()) is not None:
                if isinstance(some, BaseException):
                    raise some
                yield from some
        finally:
            future.cancel()
            self._sending.discard(future)

    def cancel(self) -> None:
        """Give up all that is under way; whoever waits for it gets no more."""
        for future in [*self._sending]:
            future.cancel()

    def send(self, job: Job[T], stop: Stop = never) -> T | Failed | None:
        """One request; None when it was told to stop before there was an answer."""
        return next((outcome for _, outcome in self.send_all([job], stop)), None)

    def get(self, url: str) -> Any:
        """The decoded body of a plain GET, or None where the server has no such page."""

        async def fetch() -> Any:
            reply = await self.http().get(url)
            if reply.status == 200 and reply.is_page:
                raise ModelError(f"{url} answers with a web page (HTML), not JSON", hint=NOT_AN_API)
            return reply.json() if reply.status == 200 else None

        return self._await(fetch())

    def get_bytes(self, url: str) -> bytes:
        """The body of a GET that must succeed."""
        return self._require(url, lambda: self.http().get(url)).body

    def post(self, url: str, body: Mapping[str, Any], *, tries: int | None = None) -> Any:
        """The decoded reply to a POST beside the usual address, which must succeed, at the first of `tries` at best."""
        content = write_body(body)
        assert isinstance(content, bytes)
        return self._require(url, lambda: self.http().post_to(url, content), tries).json()

    def upload(self, url: str, fields: Mapping[str, str], name: str, content: bytes) -> Any:
        """The decoded reply to a file that is handed over, which must succeed."""
        return self._require(url, lambda: self.http().upload(url, fields, name, content)).json()

    def _require(self, url: str, ask: Callable[[], Coroutine[Any, Any, Reply]], tries: int | None = None) -> Reply:
        """The reply, tried again while the server is busy."""

        async def sent() -> Reply:
            return await ask()

        for number in range(tries or self.settings.max_retries + 1):
            reply = self._await(sent())
            if reply.status == 200:
                return reply
            refusal = read_refusal(url, reply, self.settings.redact)
            if isinstance(refusal, Failed):
                break
            time.sleep(min(60.0, self.settings.backoff * 2**number))
        raise ModelError(f"{url}: {refusal.reason}")

    def http(self) -> HttpClient:
        """The client, made on first use. Only for the loop's thread."""
        if self._client is None:
            self._client = HttpClient(self.settings)
        return self._client

    def close(self) -> None:
        """End the thread and its connections."""
        loop, thread, client = self._loop, self._thread, self._client
        if loop is None or thread is None:
            return
        self._loop = self._thread = self._client = None
        if client is not None:
            asyncio.run_coroutine_threadsafe(client.close(), loop).result(timeout=10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=10)
        loop.close()

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        loop = self._started()
        import aiohttp

        began, longest = time.monotonic(), self.settings.timeout

        def tell(now: float) -> str | None:
            left = rounded_seconds(longest - (now - began))
            return f"waiting for {self.settings.url}: no answer yet; {left} left" if now - began > 1 else None

        try:
            with told_while(tell):
                return asyncio.run_coroutine_threadsafe(work, loop).result()
        except AssayError:
            raise
        except (aiohttp.ClientError, TooLarge, TimeoutError, ValueError, RecursionError) as error:
            reason = self.settings.redact(f"{type(error).__name__}: {error}")
            if isinstance(error, ValueError | RecursionError) and not isinstance(error, TimeoutError | OSError):
                raise ModelError(
                    f"{self.settings.url} answers with what is not JSON: {reason}", hint=NOT_AN_API
                ) from error
            hint = NO_SUCH_HOST if isinstance(error, aiohttp.ClientConnectorDNSError) else NOT_THERE
            raise ModelError(
                f"{self.settings.url} does not answer: {reason}", hint=None if isinstance(error, TooLarge) else hint
            ) from error

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            if missing := [name for name in ("aiohttp", "orjson") if find_spec(name) is None]:
                raise ConfigError(f"servers need the package {missing[0]}", hint=install_hint("api"))
            allow_connections(self.settings.ceiling)
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="assay-http", daemon=True)
            self._thread.start()
        return self._loop
