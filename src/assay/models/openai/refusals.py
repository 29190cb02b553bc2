"""What a reply that is not a 200 means: try again, this request is lost, or all of them are."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any

from assay.errors import ModelError
from assay.models.openai.http import Reply
from assay.models.openai.wire import Failed, Retry

_RETRIED = frozenset({408, 409, 425, 429})
_THROTTLED = frozenset({429, 503})
_NOT_IMPLEMENTED = 501
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
_DECLINES = re.compile(r"\bnot supported\b|\bunsupported\b|\bdoes not support\b", re.IGNORECASE)
_HOPELESS = {
    401: "The key is missing or wrong; set OPENAI_API_KEY in the environment.",
    402: "The account has no credit.",
    403: "The key may not use this model.",
    404: "Check base_url and model; base_url is the server's address up to /v1.",
    405: "Check base_url; this address does not accept requests of this kind.",
}


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
        return Retry(text, retry_after_seconds(reply.retry_after), throttled=status in _THROTTLED)
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
