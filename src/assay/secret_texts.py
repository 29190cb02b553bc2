"""Which settings are secrets, and how they are kept out of everything that is written."""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import unquote

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
    return _ADDRESS.sub(lambda found: _bare(found.group()), value) if isinstance(value, str) else value


_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]+")


def _bare(url: str) -> str:
    """An address without its password, and without the keys in its query and behind it.

    >>> _bare("https://host/v1?api_key=abc&version=2"), _bare("https://host/v1?key=abc"), _bare("https://host/v1#key=abc")
    ('https://host/v1?version=2', 'https://host/v1', 'https://host/v1')
    >>> _bare("https://me:word@host/v1")
    'https://host/v1'
    """
    address, _, fragment = url.partition("#")
    base, _, query = address.partition("?")
    if _password(base) is not None:
        scheme, _, rest = base.partition("://")
        base = f"{scheme}://{rest.partition('@')[2]}"
    for mark, parts in (("?", query), ("#", fragment)):
        kept = [part for part in parts.split("&") if _key_in(part) is None]
        base += f"{mark}{'&'.join(kept)}" if any(kept) else ""
    return base


def _password(base: str) -> str | None:
    """Of the address of a server; a name that stands alone may be a key, too."""
    user, at, _ = base.partition("://")[2].partition("/")[0].rpartition("@")
    name, colon, word = user.partition(":")
    if not at or not (colon or _RANDOM.search(name)):
        return None
    return unquote(word or name)


def _key_in(part: str) -> str | None:
    """The key that stands in a part of a query, as `name=key` or alone; None where there is none."""
    name, _, value = part.partition("=")
    if is_secret_parameter(name, value) or is_secret_parameter(unquote(name), unquote(value)):
        return unquote(value or name)
    return None if value or not _RANDOM.search(name) else unquote(name)


_known: dict[str, _Written] = {}
"""Secrets that this process has been given."""


def note_secrets(value: Any, *, secret: bool = False) -> None:
    """Remember the secrets in some settings: what stands under the name of one, and keys in the query of an address.

    From then on `mask` takes them out of everything that is written. A word that is no secret (`EMPTY`, as servers of one's own
    are given) stays in texts.
    """
    if hasattr(value, "model_fields_set"):
        value = dict(value)
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
                _known.setdefault(part, _Written(part))
    elif isinstance(value, str):
        for url in _ADDRESS.findall(value):
            base, *parts = re.split("[?#&;]", url)
            for found in (_password(base), *map(_key_in, parts)):
                note_secrets(found, secret=True)


class _Written:
    """How a secret may be written: as it is, with signs escaped for JSON, HTML or an address, or in base64 or hex."""

    def __init__(self, secret: str) -> None:
        data = secret.encode("utf-8", "surrogatepass")
        self.escaped = re.compile("".join(map(_escaped, secret)))
        coded = [part.decode() for before in range(3) for part in _in_base64(data, before)]
        self.coded = [*dict.fromkeys([*coded, data.hex(), data.hex().upper()])]

    def mask(self, text: str) -> str:
        text = self.escaped.sub("…", text)
        for each in self.coded:
            text = text.replace(each, "…")
        return text


def _escaped(sign: str) -> str:
    if sign.isascii() and sign.isalnum():
        return sign
    address = "".join(f"%(?:25)*{byte:02x}" for byte in sign.encode("utf-8", "surrogatepass"))
    code = ord(sign)
    return (
        rf"(?:\\*{re.escape(sign)}|(?i:{address}|\\+u{code:04x}|&#(?:x0*{code:x}|0*{code});|{re.escape(escape(sign))}))"
    )


def _in_base64(data: bytes, before: int) -> tuple[bytes, bytes]:
    """The characters that are those of the secret alone, with so many bytes before it in its group of three."""
    own = slice(-(-before * 8 // 6), (before + len(data)) * 8 // 6)
    padded = bytes(before) + data
    return b64encode(padded)[own], urlsafe_b64encode(padded)[own]


def any_known() -> bool:
    return bool(_known)


def mask(value: Any) -> Any:
    """The value with `…` for every known secret, in whatever text it stands."""
    if not _known:
        return value
    if isinstance(value, str):
        for written in _known.values():
            value = written.mask(value)
        return value
    if isinstance(value, Mapping):
        return {mask(key): mask(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask(item) for item in value]
    if isinstance(value, tuple):
        return type(value)(*map(mask, value)) if hasattr(value, "_fields") else tuple(map(mask, value))
    return value
