"""The guard in front of every request: loopback by default, a token elsewhere, no foreign Host, nothing but reading."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        # Plots set the style of their elements; style cannot run code.
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
COOKIE = "assay_view"

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class RequestGuard:
    """ASGI middleware. `hosts` are the names the server answers to; None means any, and then a token is required."""

    def __init__(
        self, app: Any, *, hosts: frozenset[str] | None, token: str | None = None, writes: str | None = None
    ) -> None:
        if hosts is None and not token:
            raise ValueError("a server that answers to any name needs a token")
        self.app, self.hosts, self.token = app, hosts, token
        self.writes = writes
        """The one path that takes data. It holds a secret, so no other site can make a browser send something there."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        await (self.app if refusal is None else refusal)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        is_write = self.writes is not None and scope["method"] == "POST" and scope["path"] == self.writes
        if scope["method"] not in ("GET", "HEAD") and not is_write:
            # The viewer changes nothing, so there is nothing another site could make a browser do.
            return PlainTextResponse("This server is read-only.", 405, {"Allow": "GET, HEAD"})
        if self.hosts is not None and host_name(headers.get("host", "")) not in self.hosts:
            # A site that points its own name at 127.0.0.1 must not read runs through the visitor's browser.
            return PlainTextResponse("This server does not answer to that name. Open it as 127.0.0.1.", 421)
        return self._check_token(scope, headers)

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        if self.token is None:
            return None
        query = QueryParams(scope.get("query_string", b""))
        given = query.get("token")
        if given is not None and hmac.compare_digest(given.encode(), self.token.encode()):
            rest = "&".join(
                part for part in scope["query_string"].decode("latin-1").split("&") if not part.startswith("token=")
            )
            path = scope["path"] if scope["path"].startswith("/") and not scope["path"].startswith("//") else "/"
            answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if hmac.compare_digest(_cookie(headers).encode(), self.token.encode()):
            return None
        return PlainTextResponse("Open the address that `assay view` printed; it contains the token.", 403)


def host_name(host: str) -> str:
    """The name without the port.

    >>> host_name("127.0.0.1:8000"), host_name("[::1]:8000"), host_name("LocalHost")
    ('127.0.0.1', '[::1]', 'localhost')
    """
    name = host.rsplit(":", 1)[0] if not host.endswith("]") and host.rpartition(":")[2].isdigit() else host
    return name.lower()


def _cookie(headers: Headers) -> str:
    for part in str(headers.get("cookie", "")).split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _with_headers(send: Send) -> Send:
    async def wrapped(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return wrapped
