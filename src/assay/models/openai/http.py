"""One HTTP exchange: the client, a reply read within limits on its size and on the time that all of it takes, and what a
reply that is not a 200 means: try again, this request is lost, or all of them are.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from assay.errors import ConfigError, ModelError
from assay.models.openai.wire import TOO_OFTEN, Failed, Retry, Settings, read_json

if TYPE_CHECKING:
    import aiohttp


_LONGEST_CONNECT = 30.0
_LONGEST_IDLE = 4.0
"""Seconds that an unused connection stays open: uvicorn, which most servers run on, hangs up after five."""
_MOST_UNDER_WAY = 2**28
"""Bytes of all replies that are being read. More is answered like any overload: with fewer requests at once."""
_BUFFER = 2**18
"""Bytes of a reply that come before the socket is told to wait; an echo of 100 kB would be stopped several times."""
_MOST_OF_A_REFUSAL = 2**16
_FILES_OF_A_RUN = 1024
_RETRIED = frozenset({408, 409, 425, 429})
_THROTTLED = frozenset({429, 503})
_NOT_IMPLEMENTED = 501
_TOO_MANY = 429
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_DECLINES = re.compile(r"\bnot supported\b|\bunsupported\b|\bdoes not support\b", re.IGNORECASE)
_HOPELESS = {
    401: "The key is missing or wrong; set OPENAI_API_KEY in the environment.",
    402: "The account has no credit.",
    403: "The key may not use this model.",
    404: "Check base_url and model; base_url is the server's address up to /v1.",
    405: "Check base_url; this address does not accept requests of this kind.",
}


class TooLarge(Exception):
    """A reply beyond what one may have, or, with `together`, beyond what all that are under way may have."""

    def __init__(self, reason: str, *, together: bool) -> None:
        super().__init__(reason)
        self.together = together


class Reply(NamedTuple):
    status: int
    body: bytes = b""
    reason: str = ""
    retry_after: str | None = None

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        return read_json(self.body)

    @property
    def is_page(self) -> bool:
        """Whether it is a web page, as proxies and wrong addresses answer with."""
        return self.body.lstrip()[:1] == b"<"


class HttpClient:
    """Connections to one server. Made and used on the event loop's thread only."""

    def __init__(self, settings: Settings) -> None:
        import aiohttp
        from yarl import URL

        self.settings = settings
        self._under_way = 0
        connect = min(_LONGEST_CONNECT, settings.timeout / 2)
        timeout = aiohttp.ClientTimeout(total=settings.timeout, sock_connect=connect)
        self._without_timer = aiohttp.ClientTimeout(total=None, sock_connect=connect)
        self._url = URL(settings.url)
        # No limit on connections: how many are open is decided by who sends.
        connector = aiohttp.TCPConnector(limit=0, ssl=_verification(settings), keepalive_timeout=_LONGEST_IDLE)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            headers={"Content-Type": "application/json", **settings.headers},
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_BUFFER,
            proxy=_proxy_for(settings.url),  # looked up once, not with every request
        )

    async def post(self, content: bytes) -> Reply:
        """Raises `TooLarge`, `TimeoutError`, or `aiohttp.ClientError`. A redirect is a reply: the key stays here.

        Only connecting has a time limit here: whoever sends many keeps one clock for all of them.
        """
        async with self._session.post(
            self._url, data=content, allow_redirects=False, timeout=self._without_timer
        ) as response:
            return await self._read(response)

    async def get(self, url: str) -> Reply:
        async with self._session.get(url, allow_redirects=False) as response:
            return await self._read(response)

    async def post_to(self, url: str, content: bytes) -> Reply:
        async with self._session.post(url, data=content, allow_redirects=False) as response:
            return await self._read(response)

    async def upload(self, url: str, fields: Mapping[str, str], name: str, content: bytes) -> Reply:
        """A file, as a browser's form sends it."""
        import aiohttp

        form = aiohttp.FormData()
        for key, value in fields.items():
            form.add_field(key, value)
        form.add_field("file", content, filename=name, content_type="application/jsonl")
        body = form()
        headers = {"Content-Type": body.content_type}
        async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            return await self._read(response)

    async def close(self) -> None:
        await self._session.close()

    async def _read(self, response: aiohttp.ClientResponse) -> Reply:
        announced, headers = response.content_length, response.headers
        if response.status != 200:
            body = await self._read_pieces(response, _MOST_OF_A_REFUSAL)
        elif announced is None or "Content-Encoding" in headers:
            body = await self._read_pieces(response, None)
        else:
            try:
                self._count(announced, announced)
                body = await response.read()
            finally:
                self._under_way -= announced
        return Reply(response.status, body, response.reason or "", headers.get("Retry-After"))

    async def _read_pieces(self, response: aiohttp.ClientResponse, enough: int | None) -> bytes:
        """How long it is, or becomes when it is unpacked, is not known before. `enough` is where to stop reading."""
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in response.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                self._count(len(piece), size)
                if enough is not None and size >= enough:
                    break
        finally:
            self._under_way -= size
        return b"".join(pieces)

    def _count(self, more: int, size: int) -> None:
        self._under_way += more
        if size > self.settings.max_reply:
            raise TooLarge(
                f"the reply has more than {self.settings.max_reply:,} bytes after decompression", together=False
            )
        if self._under_way > _MOST_UNDER_WAY:
            raise TooLarge(f"the replies in progress have more than {_MOST_UNDER_WAY:,} bytes in total", together=True)


def allow_connections(count: int) -> None:
    """Raise the soft limit on open files where it is below that; many systems begin with 1,024."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _FILES_OF_A_RUN
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _verification(settings: Settings) -> ssl.SSLContext | bool:
    if isinstance(settings.verify, bool):
        return settings.verify
    try:
        return ssl.create_default_context(cafile=settings.verify)
    except OSError as error:
        raise ConfigError(f"ca_cert_path={settings.verify} cannot be used: {error}") from error


def _proxy_for(url: str) -> str | None:
    """What the environment names (`HTTPS_PROXY`, `NO_PROXY`, …)."""
    parts = urlsplit(url)
    proxies = getproxies()
    if proxy_bypass(parts.hostname or ""):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def read_refusal(url: str, reply: Reply, redact: Callable[[str], str]) -> Failed | Retry:
    """The outcome for this request; raises `ModelError` where every other request would meet the same.

    A 429 usually passes, but not one that says that the account's credit is used up.
    """
    status, error = reply.status, _error_of(reply)
    # The key goes before the text is cut: half a key is no longer found.
    text = f"HTTP {status}: {redact(_words(error) or reply.text.strip() or reply.reason)[:300]}"
    codes = {str(error.get(name)) for name in ("code", "type")} if isinstance(error, dict) else set()
    hint = _HOPELESS[402] if codes & _NO_CREDIT else _HOPELESS.get(status)
    if hint:
        raise ModelError(f"{url}: {text}", hint=hint)
    if status >= 500 and _DECLINES.search(text):  # llama.cpp answers so to an image that its model cannot see
        return Failed(text, refused=True)
    if status in _RETRIED or (status >= 500 and status != _NOT_IMPLEMENTED):
        hint = TOO_OFTEN if status == _TOO_MANY else None
        return Retry(text, retry_after_seconds(reply.retry_after), throttled=status in _THROTTLED, hint=hint)
    return Failed(text, refused=True)


def retry_after_seconds(value: str | None) -> float | None:
    """Seconds, from a number or an HTTP date.

    >>> retry_after_seconds("1.5"), retry_after_seconds("-3"), retry_after_seconds("soon")
    (1.5, 0.0, None)
    """
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def _error_of(reply: Reply) -> Any:
    """What stands under `error`, or the whole body; None where it is not JSON."""
    try:
        body = reply.json()
    except (ValueError, RecursionError):
        return None
    return body.get("error", body) if isinstance(body, dict) else body


def _words(error: Any) -> str:
    """The server's own words, from any of the shapes they come in."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return "" if error is None else error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
