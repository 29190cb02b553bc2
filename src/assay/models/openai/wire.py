"""What goes over the wire and what comes of it: jobs and their outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from assay.secret_texts import mask

T = TypeVar("T")

MOST_AT_ONCE = 1024
SLOW_START = 2
LARGEST_REPLY = 2**25
BYTES_OF_A_TOKEN = 256
"""At most, in an echo with log-probabilities: its text, its place, and the most likely token beside it."""


class Unusable(Exception):
    """A reply that came, but is not what was requested. With `again` off it would come the same again."""

    def __init__(self, reason: str, *, again: bool = True) -> None:
        super().__init__(reason)
        self.again = again


@dataclass(frozen=True, slots=True)
class Failed:
    """A request that was given up, and why."""

    reason: str
    refused: bool = False
    """Whether the server declined this very request, rather than being busy, broken or gone."""
    hint: str | None = None
    """What to do about it, where that is known."""


@dataclass(frozen=True, slots=True)
class Retry:
    """A try that failed in a way that may pass."""

    reason: str
    retry_after: float | None = None
    throttled: bool = False
    hint: str | None = None


NOTHING_TO_SCORE = "the continuation has no tokens of its own, so there is nothing to score"
NOT_THERE = "Start the server. With --offline, stored answers are scored without checking the server."
NO_SUCH_HOST = "Check the host's name in base_url: no machine is known by it from here."
NOT_AN_API = "Check base_url, which is the server's address up to /v1: something else answers there, or a proxy does."
TOO_OFTEN = "The server limits how often it is asked: wait, or lower num_concurrent in --model_args."


def read_json(content: bytes) -> Any:
    """What servers send as JSON, NaN and half characters included, which only the standard library takes."""
    import orjson

    try:
        return orjson.loads(content)
    except ValueError:
        return json.loads(content)


class Job(NamedTuple, Generic[T]):
    """What to send, and how to read the reply: a value, or `Unusable`."""

    body: Mapping[str, Any]
    read: Callable[[Any], T]
    goes_on: bool = False
    """Whether what is read may be the next job, which is sent in the place of this one, before any other."""


@dataclass(frozen=True, slots=True)
class Settings:
    url: str
    headers: Mapping[str, str] = field(repr=False)
    """Holds the key: left out of `repr` and out of every message."""
    timeout: float = 300.0
    """Seconds for a whole reply, from the connection to its last byte."""
    max_retries: int = 6
    ceiling: int = MOST_AT_ONCE
    begin_with: int = SLOW_START
    """Requests at once: the most, and those before the server has answered any."""
    backoff: float = 0.5
    gone_after: float = 120.0
    """Seconds without any connection after which the server counts as gone."""
    verify: bool | str = True
    max_reply: int = LARGEST_REPLY
    """Bytes of one reply, unpacked. What is longer is not read."""

    def redact(self, text: str) -> str:
        """Without the key: servers repeat it in error messages, and some echo whole requests."""
        key = self.headers.get("Authorization", self.headers.get("api-key", "")).removeprefix("Bearer ").strip()
        # Servers of one's own are given keys like EMPTY or x, which are words of any message.
        return str(mask(text.replace(key, "…") if len(key) >= 6 else text))


def write_body(body: Mapping[str, Any]) -> bytes | Failed:
    """The JSON to send. What cannot be sent is a failed request, not the end of a run."""
    import orjson

    try:
        written = orjson.dumps(body)
        if b"null" not in written:  # NaN becomes null there, and is then told apart by the standard library
            return written
    except TypeError:
        pass  # the standard library writes more (large integers, keys that are numbers), and says what it cannot
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError as error:
        return Failed(_not_text(error))
    except (TypeError, ValueError) as error:
        return Failed(f"the request cannot be written as JSON: {error}")


def why_unsendable(*texts: str) -> Failed | None:
    """Half a surrogate pair, as careless cutting of UTF-16 leaves it, is no text: tokenizers and servers choke on it."""
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError as error:
        return Failed(_not_text(error))
    return None


def whole_characters(text: str) -> str:
    r"""Halves of surrogate pairs joined, and `�` for those left over: a server may cut a character in two.

    >>> whole_characters("\ud83d\ude00 \ud83d")
    '😀 �'
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _not_text(error: UnicodeEncodeError) -> str:
    found = ord(error.object[error.start])
    return f"the request contains U+{found:04X}, half of a surrogate pair, which is not text and cannot be sent"


def count_in(usage: Any, *path: str) -> int:
    """A count of tokens in what a server says it used; 0 for anything that is none. An answer is not lost for it.

    >>> count_in({"prompt_tokens": 7}, "prompt_tokens"), count_in({"prompt_tokens": "many"}, "prompt_tokens"), count_in([], "x")
    (7, 0, 0)
    """
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    if usage is None:
        return 0
    is_count = type(usage) in (int, float) and 0 <= usage < 1e12
    return int(usage) if is_count else 0


def in_order(reply: Any) -> Any:
    """A reply with its choices by `index`, which servers are free to mix up."""
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list) or len(choices) < 2:
        return reply
    if not all(isinstance(choice, Mapping) and isinstance(choice.get("index"), int) for choice in choices):
        return reply
    return {**reply, "choices": sorted(choices, key=lambda choice: int(choice["index"]))}
