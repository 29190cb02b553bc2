"""Content hashes that say whether two runs asked the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from assay.instance import Instance
from assay.store import request_key


def request_hash(instances: Sequence[Instance]) -> str:
    """SHA-256 over all requests of a doc, whatever the model: equal hashes mean equal prompts and settings."""
    digest = hashlib.sha256()
    for instance in instances:
        digest.update(request_key("", instance.request_type, instance.arguments))
    return digest.hexdigest()
