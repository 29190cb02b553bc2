"""Content hashes: what was asked, and under which key the answer is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from assay.instance import Instance
from assay.store import request_key


def request_digest(instance: Instance) -> bytes:
    """What is asked, whatever the model. The long part of hashing a request, done once."""
    return request_key("", instance.request_type, instance.arguments)


def join_digests(digests: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(digests)).hexdigest()


def request_hash(instances: Sequence[Instance]) -> str:
    """SHA-256 over all requests of a doc: equal hashes mean equal prompts and settings."""
    return join_digests(request_digest(instance) for instance in instances)


class AnswerKeys:
    """Keys of one model's answers in the store."""

    def __init__(self, fingerprint: str) -> None:
        self._base = hashlib.sha256(f"{fingerprint}\0".encode("utf-8", "surrogatepass"))

    def key(self, digest: bytes, draw: int) -> bytes:
        whole = self._base.copy()
        whole.update(digest)
        whole.update(b"%d" % draw)
        return whole.digest()
