"""Replies with log-probabilities, of which only the end is read.

An echo of 2,000 tokens is 100 kB of JSON, and what is scored are the last few tokens. Building all of its lists takes
longer than everything else that a request needs, so they stay bytes until somebody looks further back than the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from assay.models.openai.wire import read_json

_LOGPROBS = b'"logprobs":{'
_LIST = re.compile(rb',?"(tokens|token_logprobs|top_logprobs|text_offset)":\[')
_END = re.compile(rb'\]\}?,"[a-z_]+":')
"""The end of a list, and the next key. No token's text looks like it: a quote inside a text has a backslash before it."""
_BETWEEN = {b"tokens": b'","', b"top_logprobs": b"},{"}
_SHORT = 2048
"""Bytes of a list that is read whole."""
TAILS = (256, 2048)
"""Bytes that are read of the end of a longer one: for a choice of a few words, and for a sentence or two."""
_BRACE = ord("}")


class UnreadList:
    """A list as JSON, a part of the bytes of a reply. `tail` has its last entries; `whole` is all of it."""

    __slots__ = ("_between", "_length", "_written")

    def __init__(self, written: memoryview, between: bytes) -> None:
        self._written, self._between = written, between
        self._length = 0

    def tail(self, size: int) -> list[Any]:
        """The last entries, out of so many bytes; none where the end is not as servers write it."""
        end = bytes(self._written[-size:])
        at = end.find(self._between)
        try:
            # Begun inside a text, it would end inside one too, and not be JSON.
            return read_json(b"[" + end[at + len(self._between) // 2 + 1 :]) if at >= 0 else []
        except ValueError:
            return []

    def probable_length(self) -> int:
        """The length, if no text in it looks like what stands between two entries."""
        if not self._length:
            import numpy as np

            codes = np.frombuffer(self._written, np.uint8)
            found = codes == self._between[0]
            for at, code in enumerate(self._between[1:], start=1):
                found = found[:-1] & (codes[at:] == code)
            starts_with_null = len(self._between) > 1 and bytes(self._written[:6]) == b"[null,"
            self._length = int(np.count_nonzero(found)) + 1 + starts_with_null
        return self._length

    def has_braces(self, count: int) -> bool:
        """Whether it has so many objects, the first of which may be null: true only if no text in it holds a brace."""
        import numpy as np

        braces = np.count_nonzero(np.frombuffer(self._written, np.uint8) == _BRACE)
        return bool(braces + (bytes(self._written[:6]) == b"[null,") == count)

    @property
    def whole(self) -> list[Any]:
        read: list[Any] = read_json(self._written)
        return read


def read_echo(content: bytes) -> Any:
    """A reply as `read_json` reads it, with long lists beside its log-probabilities as `UnreadList`."""
    lists: list[UnreadList] = []
    rest: list[bytes | memoryview] = []
    view, at = memoryview(content), 0
    for name, begin, end in _long_lists(content):
        # The number stands for the list: no number stands there otherwise.
        rest += [view[at:begin], b"%d" % len(lists)]
        lists.append(UnreadList(view[begin:end], _BETWEEN.get(name, b",")))
        at = end
    if not lists:
        return read_json(content)
    put_back = 0
    try:
        reply = read_json(b"".join([*rest, view[at:]]))
        for choice in reply["choices"]:
            logprobs = choice["logprobs"]
            for name, value in logprobs.items():
                if isinstance(value, int):
                    logprobs[name] = lists[value]
                    put_back += 1
    except (ValueError, LookupError, TypeError, AttributeError):  # written otherwise than was thought
        return read_json(content)
    return reply if put_back == len(lists) else read_json(content)


def read_whole(logprobs: dict[str, Any]) -> dict[str, Any]:
    """With all of its lists read."""
    return {name: value.whole if isinstance(value, UnreadList) else value for name, value in logprobs.items()}


def _long_lists(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, begin and end of the lists in each `logprobs`, while they look as servers write them."""
    at = content.find(_LOGPROBS)
    while at >= 0:
        at += len(_LOGPROBS)
        while (key := _LIST.match(content, at)) is not None:
            begin = key.end() - 1
            at = content.find(b"]", begin) + 1
            while key[1] in _BETWEEN and at and not _END.match(content, at - 1):
                at = content.find(b"]", at) + 1
            if not at:
                return
            if at - begin > _SHORT:
                yield key[1], begin, at
        at = content.find(_LOGPROBS, at)
