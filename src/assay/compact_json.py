"""Compact JSON text, many small values of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def compact_encoder(plain: Callable[[Any], Any], *, sort_keys: bool = False) -> Callable[[Any], str]:
    """What `json.dumps` writes without blanks and escapes; `plain` says what stands for a value that JSON cannot hold.

    By one encoder for all values: `json` makes another one inside for each, which costs more than a small value does.

    >>> compact_encoder(str, sort_keys=True)({"b": "ä", "a": [1, None]})
    '{"a":[1,null],"b":"ä"}'
    """
    whole = json.JSONEncoder(sort_keys=sort_keys, ensure_ascii=False, separators=(",", ":"), default=plain).encode
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return whole
    encode = make(None, plain, json.encoder.encode_basestring, None, ":", ",", sort_keys, False, True)
    return lambda value: whole(value) if isinstance(value, str) else "".join(encode(value, 0))
