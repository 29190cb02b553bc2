"""Where requests go, and the headers they carry."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit, urlunsplit

from assay.errors import ConfigError

_SECRET_HEADERS = ("authorization", "api-key", "x-api-key", "cookie")


def endpoint_address(base_url: str | None, endpoint: str) -> str:
    """The full address of an endpoint, from a server, its `/v1`, or the endpoint itself. A query stays at the end.

    >>> endpoint_address("http://localhost:8000", "/completions")
    'http://localhost:8000/v1/completions'
    >>> endpoint_address("http://localhost:8000/v1/", "/completions")
    'http://localhost:8000/v1/completions'
    >>> endpoint_address("https://host/openai/deployments/mine?api-version=2024-10-21", "/chat/completions")
    'https://host/openai/deployments/mine/chat/completions?api-version=2024-10-21'
    """
    parts = _checked(base_url)
    path = parts.path.rstrip("/")
    if not path.endswith(endpoint):
        path = (path or "/v1") + endpoint
    return urlunsplit(parts._replace(path=path, fragment=""))


def sibling_address(url: str, endpoint: str, sibling: str) -> str:
    """Another endpoint of the same server.

    >>> sibling_address("http://host/v1/completions?api-version=1", "/completions", "/models")
    'http://host/v1/models?api-version=1'
    """
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.removesuffix(endpoint) + sibling))


def _checked(base_url: str | None) -> SplitResult:
    if not base_url:
        raise ConfigError("no server was given", hint="Add base_url=http://HOST:PORT/v1 to --model_args.")
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        usable = usable and base_url.isprintable()
    except ValueError:  # a port that is no number, a bracket that is not closed
        usable = False
    if not usable:
        raise ConfigError(f"base_url is {base_url!r}", hint="Use an address like http://localhost:8000/v1.")
    if parts.username or parts.password:
        raise ConfigError(
            "base_url contains a password, which would be written to the run's config",
            hint="Use OPENAI_API_KEY in the environment.",
        )
    return parts


def is_azure(url: str) -> bool:
    """Azure's own endpoints take the key in a header of their own.

    >>> is_azure("https://mine.openai.azure.com/openai/deployments/x/chat/completions"), is_azure("http://localhost/v1")
    (True, False)
    """
    return (urlsplit(url).hostname or "").endswith((".openai.azure.com", ".cognitiveservices.azure.com"))


def request_headers(
    header: Mapping[str, str] | None, api_key_env: str, *, key_required: bool, azure: bool = False
) -> dict[str, str]:
    """The user's headers, and the key where the environment has one; for Azure also from `AZURE_OPENAI_API_KEY`.

    A key read from a file often ends in a line break. It is cut off; any other character that a header cannot hold is
    an error here, because the HTTP library would repeat the whole key in its complaint.
    """
    for name in header or {}:
        if name.lower() in _SECRET_HEADERS:
            raise ConfigError(
                f"the header {name!r} would be written to the run's config",
                hint=f"Put the key in the environment: export {api_key_env}=…",
            )
    if azure and not os.environ.get(api_key_env):
        api_key_env = "AZURE_OPENAI_API_KEY"
    key = os.environ.get(api_key_env, "").strip()
    if key_required and not key:
        raise ConfigError(f"{api_key_env} is not set", hint=f"export {api_key_env}=…")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"the key in {api_key_env} contains a line break or another character that is not allowed in a key",
            hint=f"Set it again: export {api_key_env}=…",
        )
    named = {"api-key": key} if azure else {"Authorization": f"Bearer {key}"}
    return {**(header or {}), **(named if key else {})}
