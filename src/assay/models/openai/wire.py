"""What goes over the wire and what comes of it: jobs, outcomes, and how errors of servers read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class Unusable(Exception):
    """A reply that came, but is not what was asked for; worth another try."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that was given up, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Job(Generic[T]):
    """What to send, and how to read the reply: a value, or `Unusable` for another try."""

    body: Mapping[str, Any]
    read: Callable[[Any], T]


@dataclass(frozen=True, slots=True)
class Settings:
    url: str
    headers: Mapping[str, str] = field(repr=False)
    """Holds the key: kept out of `repr` and out of every message."""
    timeout: float = 300.0
    max_retries: int = 6
    ceiling: int = 64
    backoff: float = 0.5
    gone_after: float = 120.0
    """Seconds without any connection after which the server counts as gone."""
    verify: bool | str = True


@dataclass(frozen=True, slots=True)
class Again:
    """A try that failed in a way that may pass."""

    reason: str
    retry_after: float | None = None
    throttled: bool = False


def error_message(response: httpx.Response) -> str:
    """The server's own words, from any of the shapes they come in."""
    try:
        body = response.json()
    except ValueError:
        return response.text[:300].strip() or response.reason_phrase
    error = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or error
    return str(error)[:300]


def retry_after_seconds(value: str | None) -> float | None:
    """Seconds, from a number or an HTTP date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
