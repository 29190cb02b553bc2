"""Which settings are secrets, and how they are kept out of everything that is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

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


_OF_ADDRESSES = frozenset({"key", "sig", "signature", "code"})
_RANDOM = re.compile(
    r"(?=[^-._/]*\d)(?=[^-._/]*[A-Za-z])[^-._/]{16,}|[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
)


def is_secret_parameter(name: str, value: str) -> bool:
    """Of the query of an address: by its name, or by a value that no version and no model is called by.

    >>> [is_secret_parameter(*each) for each in (("sig", "a"), ("x", "Zx9Qw7Lp3Vt5Rn8Yb2Km"))]
    [True, True]
    >>> [is_secret_parameter(*each) for each in (("api-version", "2024-05-01-preview"), ("model", "gpt-4o-mini-2024-07-18"))]
    [False, False]
    """
    return name.lower() in _OF_ADDRESSES or is_secret(name) or _RANDOM.search(value) is not None


def without_secrets(value: Any) -> Any:
    """The value with every secret left out, however deep it stands. A mask in its place would be sent to a server when
    the recorded config is used again; where the key is missing, the environment is asked.
    """
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if not is_secret(str(key))}
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    if isinstance(value, str) and "://" in value and "?" in value:
        return _without_secret_parameters(value)
    return value


def _without_secret_parameters(url: str) -> str:
    """An address without the keys in its query.

    >>> _without_secret_parameters("https://host/v1?api_key=abc&version=2")
    'https://host/v1?version=2'
    >>> _without_secret_parameters("https://host/v1?key=abc")
    'https://host/v1'
    """
    base, _, query = url.partition("?")
    parts = {part: part.partition("=") for part in query.split("&")}
    kept = [part for part, (name, _, item) in parts.items() if not is_secret_parameter(name, item)]
    return f"{base}?{'&'.join(kept)}" if kept else base


_known: dict[str, re.Pattern[str]] = {}
"""Secrets that this process has been given, and how each may be written: as it is, or with signs escaped for JSON or an address."""


def note_secrets(value: Any, *, secret: bool = False) -> None:
    """Remember the secrets in some settings: what stands under the name of one, and keys in the query of an address.

    From then on `mask` takes them out of everything that is written. A word that is no secret (`EMPTY`, as servers of one's own
    are given) stays in texts.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            note_secrets(item, secret=secret or is_secret(str(key)))
    elif isinstance(value, list | tuple):
        for item in value:
            note_secrets(item, secret=secret)
    elif isinstance(value, str) and secret:
        for part in (value, *value.split()):
            is_path = part.startswith("/") or "://" in part
            if len(part) >= 8 and not is_path and (any(c.isdigit() for c in part) or len(part) >= 16):
                _known[part] = re.compile("".join(map(_written, part)))
    elif isinstance(value, str) and "://" in value and "?" in value:
        for name, item in parse_qsl(value.partition("?")[2]):
            note_secrets(item, secret=is_secret_parameter(name, item))


def _written(sign: str) -> str:
    escaped = "".join(f"%{byte:02x}" for byte in sign.encode("utf-8", "surrogatepass"))
    return sign if sign.isascii() and sign.isalnum() else rf"(?:\\*{re.escape(sign)}|(?i:{escaped}))"


def any_known() -> bool:
    return bool(_known)


def mask(value: Any) -> Any:
    """The value with `…` for every known secret, in whatever text it stands."""
    if not _known:
        return value
    if isinstance(value, str):
        for written in _known.values():
            value = written.sub("…", value)
        return value
    if isinstance(value, Mapping):
        return {mask(key): mask(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask(item) for item in value]
    if isinstance(value, tuple):
        return type(value)(*map(mask, value)) if hasattr(value, "_fields") else tuple(map(mask, value))
    return value
