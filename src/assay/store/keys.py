"""The key of a response: everything that decides it, and nothing else.

    sha256( fingerprint 0 request type 0 | part | part | … | draw )

A part is a tag, a length and bytes: text as UTF-8, anything else as JSON with sorted keys. The lengths keep
`("ab", "c")` and `("a", "bc")` apart, and the tags keep the messages of a chat and a text that is their JSON apart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from assay.errors import StoreError
from assay.instance import Instance, Message, is_chat


class RequestKeys:
    """Keys of the requests of one model and one type.

    The choices of a question share their context, and one benchmark's requests their generation settings: the first
    is hashed once for as long as it repeats, the second is written as JSON once.
    """

    def __init__(self, fingerprint: str, request_type: str) -> None:
        self._base = hashlib.sha256(f"{fingerprint}\0{request_type}\0".encode("utf-8", "surrogatepass"))
        self._last: tuple[object, Any] = (None, self._base)
        self._settings: dict[str, bytes] = {}

    def key(self, arguments: Sequence[Any], draw: int = 0) -> bytes:
        """The 32 bytes under which draw number `draw` of this request is stored."""
        first, context_hash = self._last
        if not arguments or type(arguments[0]) is not str:
            digest = self._base.copy()
            rest: Sequence[Any] = arguments
        else:
            context = arguments[0]
            if context is not first and context != first:
                context_hash = self._base.copy()
                context_hash.update(_text_part(context))
                self._last = (context, context_hash)
            digest = context_hash.copy()
            rest = arguments[1:]
        for part in rest:
            digest.update(_text_part(part) if type(part) is str else self._json_part(part))
        digest.update(b"d%d" % draw)
        return digest.digest()

    def _json_part(self, part: Any) -> bytes:
        # repr tells 1 from 1.0 and True, which equality would not, and costs a third of the JSON.
        spelling = repr(part) if type(part) is dict and len(part) < 32 else None
        known = self._settings.get(spelling) if spelling else None
        if known is None:
            known = _json_bytes(part)
            if spelling and len(self._settings) < 1000:
                self._settings[spelling] = known
        return known


def request_key(fingerprint: str, request_type: str, arguments: Sequence[Any], draw: int = 0) -> bytes:
    """One key; for many of one model, `RequestKeys` is faster.

    >>> request_key("m", "loglikelihood", ("a", " b")) == RequestKeys("m", "loglikelihood").key(("a", " b"))
    True
    """
    return _keys(fingerprint, request_type).key(arguments, draw)


@lru_cache(maxsize=64)
def _keys(fingerprint: str, request_type: str) -> RequestKeys:
    return RequestKeys(fingerprint, request_type)


def _text_part(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return b"s%d:" % len(data) + data


def _json_bytes(part: Any) -> bytes:
    tag = b"m" if is_chat(part) else b"j"
    try:
        data = json.dumps(part, sort_keys=True, separators=(",", ":"), default=_content).encode()
    except (TypeError, ValueError) as error:
        raise StoreError(
            f"a request contains {type(part).__name__} {part!r:.200}, which has no stable content to identify it by: {error}",
            hint="Arguments may be text, numbers, lists, dicts, bytes, or objects with tobytes().",
        ) from error
    return tag + b"%d:" % len(data) + data


def _content(value: Any) -> Any:
    """What stands for a value JSON does not know: messages by their fields, images and arrays by their bytes."""
    if isinstance(value, Message):
        return value.to_dict()
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": hashlib.sha256(value).hexdigest()}
    if isinstance(value, set | frozenset):
        return sorted(value)
    if callable(raw := getattr(value, "tobytes", None)):
        shape = getattr(value, "shape", None) or getattr(value, "size", None)
        kind = str(getattr(value, "dtype", None) or getattr(value, "mode", ""))
        return {"bytes": hashlib.sha256(raw()).hexdigest(), "shape": str(shape), "kind": kind}
    raise TypeError(f"{type(value).__name__} cannot be hashed by content")


def request_digest(instance: Instance) -> bytes:
    """What is requested, whatever the model. The long part of hashing a request, done once."""
    return request_key("", instance.request_type, instance.arguments)


def join_digests(digests: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(digests)).hexdigest()


def request_hash(instances: Sequence[Instance]) -> str:
    """SHA-256 over all requests of a doc: equal hashes mean equal prompts and settings."""
    return join_digests(request_digest(instance) for instance in instances)
