"""Responses as text: JSON, so that any SQLite shell can read the store, with a checksum to trust it by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any
from zlib import crc32

from assay.instance import Response

Row = tuple[bytes, str, str | None, int, int, int | None, int | None, str | None]
"""key, response, stop_reason, checksum, origin, prompt_tokens, response_tokens, extras."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def encode_answer(answer: Any) -> str:
    """JSON text; floats keep every bit.

    >>> encode_answer((-1.5, True))
    '[-1.5,true]'
    """
    if type(answer) is tuple and len(answer) == 2 and type(answer[0]) is float and isfinite(answer[0]):
        # Most answers are loglikelihoods; this is what the encoder below would write, three times as fast.
        return f"[{answer[0]!r},{'true' if answer[1] else 'false'}]"
    text = _encode(answer)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which models do emit and UTF-8 cannot hold
            return _encode_ascii(answer)
    return text


def decode_answer(text: str) -> Any:
    """The inverse. A pair of number and bool is a loglikelihood, which is a tuple.

    >>> decode_answer('[-1.5,true]')
    (-1.5, True)
    """
    if text[-6:] == ",true]" and text[1] in "-0123456789":
        return _loglikelihood(text[1:-6], True, text)
    if text[-7:] == ",false]" and text[1] in "-0123456789":
        return _loglikelihood(text[1:-7], False, text)
    return _decode(text)


def _loglikelihood(number: str, greedy: bool, text: str) -> Any:
    try:
        return (float(number), greedy)
    except ValueError:  # a longer list that ends in a bool
        return _decode(text)


def _decode(text: str) -> Any:
    value: Any = json.loads(text)
    if type(value) is list and len(value) == 2 and type(value[1]) is bool and type(value[0]) in (float, int):
        return (value[0], value[1])
    return value


def make_row(key: bytes, response: Response) -> Row:
    """The row of a response, its origin still to be filled in."""
    text, stop_reason = encode_answer(response.answer), response.stop_reason
    if stop_reason and not stop_reason.isascii():
        stop_reason = stop_reason.encode("utf-8", "backslashreplace").decode()  # SQLite holds no lone surrogates
    prompt, answer = response.tokens or (None, None)
    given = response.extras()
    extras = None if given is None else encode_answer(given)
    return (key, text, stop_reason, checksum(key, text, stop_reason, prompt, answer, extras), 0, prompt, answer, extras)


def read_row(row: Row) -> Response:
    tokens = None if row[6] is None else (row[5] or 0, row[6])
    response = Response(decode_answer(row[1]), row[2], tokens=tokens)
    return response if row[7] is None else response.with_extras(json.loads(row[7]))


def checksum(
    key: bytes, response: str, stop_reason: str | None, prompt: int | None, answer: int | None, extras: str | None
) -> int:
    value = crc32(response.encode(), crc32(key))
    if stop_reason:
        value = crc32(stop_reason.encode(), value)
    if answer is not None:
        value = crc32(b"%d %d" % (prompt or 0, answer), value)
    return value if extras is None else crc32(extras.encode(), value)


def parse_row(row: Row) -> Response | None:
    """The answer in a row of `responses`; None unless it is what was written. Anything may stand in a damaged one: no text, half
    a character, a number, or JSON of something else."""
    try:
        key, text, stop_reason, stated, origin, prompt, answer, extras = row
        wrong = (
            type(key) is not bytes
            or len(key) != 32
            or type(text) is not str
            or type(stop_reason) not in (str, type(None))
            or type(origin) is not int
            or any(type(count) not in (int, type(None)) or (count or 0) < 0 for count in (prompt, answer))
            or checksum(key, text, stop_reason, prompt, answer, extras) != stated
        )
        return None if wrong else read_row(row)
    except (TypeError, ValueError, AttributeError, LookupError, RecursionError):
        return None


@dataclass(frozen=True, slots=True)
class StoredOrigin:
    """A row of `origins`: which run of which model answers come from."""

    id: int
    run: str
    model: str
    created: int


LATEST = 253_402_300_799
"""The last second that has a date."""


def parse_origin(row: Sequence[Any]) -> StoredOrigin | None:
    number, run, model, created = row
    right = type(number) is int and type(run) is str and type(model) is str and type(created) is int
    return StoredOrigin(number, run, model, created) if right and 0 <= created <= LATEST else None


def parse_facts(row: Sequence[Any]) -> tuple[int, str] | None:
    """Of a row of `facts`: the origin, and what its model was known by."""
    origin, facts = row
    return (origin, facts) if type(origin) is int and type(facts) is str else None
