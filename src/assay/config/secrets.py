"""Settings that nobody may read in a file that a run leaves behind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SECRET = re.compile(
    r"api_?key|secret|passw(or)?d|credential|(^|_)(auth|authorization|bearer)(_|$)|^(token|headers?)$"
    r"|(access|private)_key$|(access|api|hf|hub|refresh|session)_token$"
)


def is_secret(key: str) -> bool:
    """
    >>> [is_secret(k) for k in ("api_key", "use_auth_token", "hf_token", "headers")]
    [True, True, True, True]
    >>> [is_secret(k) for k in ("pretrained", "think_end_token", "author")]
    [False, False, False]
    """
    return _SECRET.search(key.lower().replace("-", "_")) is not None


def without_secrets(value: Any) -> Any:
    """The value with every secret left out, however deep it stands. A mask in its place would be sent to a server when
    the recorded config is used again; where the key is missing, the environment is asked.
    """
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if not is_secret(str(key))}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value
