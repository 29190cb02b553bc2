"""Requests out, replies back: each exactly once, or a reason why not.

The requests run on an event loop in a thread of its own, so that plain code can iterate over replies as they come.
"""

from __future__ import annotations

import asyncio
import queue
import random
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from assay.errors import ConfigError, ModelError
from assay.models.openai.batch import Batch
from assay.models.openai.limiter import AdaptiveLimit
from assay.models.openai.wire import Failed, Job, Settings

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class Transport:
    """Sends jobs to one address."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limit = AdaptiveLimit(settings.ceiling)
        self.retries = 0
        self.should_stop: Callable[[], bool] = lambda: False
        """Asked before each request: once it says yes, those under way are awaited and no others are sent."""
        self.chance = random.SystemRandom().random
        """The system's: processes that are throttled together would come back together with a seed of their own."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None
        self._thread: threading.Thread | None = None

    def send_all(self, jobs: Sequence[Job[T]]) -> Iterator[tuple[int, T | Failed]]:
        """Yield `(position, value or Failed)` as replies come; raises `ModelError` when going on makes no sense.

        Closing the iterator early cancels what is under way.
        """
        replies: queue.SimpleQueue[tuple[int, T | Failed] | BaseException | None] = queue.SimpleQueue()
        batch = Batch(self, jobs, replies.put)
        future = asyncio.run_coroutine_threadsafe(batch.run(), self._started())
        future.add_done_callback(lambda done: replies.put(None if done.cancelled() else done.exception()))
        try:
            while (reply := replies.get()) is not None:
                if isinstance(reply, BaseException):
                    raise reply
                yield reply
        finally:
            future.cancel()

    def send(self, job: Job[T]) -> T | Failed | None:
        """One request; None when it was asked to stop before there was an answer."""
        return next((reply for _, reply in self.send_all([job])), None)

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
                self._client = httpx.AsyncClient(headers=headers, timeout=timeout, limits=limits, verify=settings.verify)  # fmt: skip
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
