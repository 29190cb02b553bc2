"""What `--model_args` may say of a server: where requests go, the headers they carry, and how they are sent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit, urlunsplit

from assay.errors import ConfigError
from assay.models.openai.wire import BYTES_OF_A_TOKEN, LARGEST_REPLY, MOST_AT_ONCE, SLOW_START, Settings
from assay.secret_texts import note_secrets

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
    note_secrets(base_url)
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
    note_secrets({"api_key": key, "headers": dict(header or {})})
    named = {"api-key": key} if azure else {"Authorization": f"Bearer {key}"}
    return {**(header or {}), **(named if key else {})}


@dataclass(frozen=True, kw_only=True)
class ServerArguments:
    """What `--model_args` may say of a server, beside its address and the model's name."""

    pretrained: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    tokenizer: str | None = None
    tokenizer_backend: str | None = None
    tokenized_requests: bool | None = None
    add_bos_token: bool = False
    revision: str | None = None
    trust_remote_code: bool = False
    max_length: int | None = None
    max_gen_toks: int | None = None
    num_concurrent: int | None = None
    """Requests under way at once, and fewer when the server complains. Without it, what the server bears is found out,
    from two on up to 1,024."""
    batch_size: int | str | None = None
    """Prompts that go into one request to a completions server. Without it (or `auto`) the choices of a question do,
    where the server is known to take them."""
    max_retries: int = 6
    timeout: float = 300
    backoff: float = 0.5
    seed: int | None = 1234
    eos_string: str | None = None
    think_end_token: str | None = None
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    header: Mapping[str, str] | None = None
    verify_certificate: bool = True
    ca_cert_path: str | None = None
    price_in: float = 0.0
    """Of a million tokens."""
    price_out: float = 0.0
    max_image_side: int | None = None
    """Pixels: larger images are scaled down before they are sent."""
    batch: bool = False
    """Hand all requests to OpenAI's batch endpoint."""
    batch_wait: float = 30.0
    """Seconds between two looks whether a batch is answered."""
    api_key: str | None = None

    def __post_init__(self) -> None:
        if self.api_key is not None:
            raise ConfigError(
                "api_key was given as a model argument, where it would be written to the run's config",
                hint=f"Put it in the environment: export {self.api_key_env}=…",
            )

    def settings(self, url: str, *, key_required: bool) -> Settings:
        """How requests are sent to that address."""
        at_once = None if self.num_concurrent is None else int(self.num_concurrent)
        return Settings(
            url=url,
            headers=request_headers(self.header, self.api_key_env, key_required=key_required, azure=is_azure(url)),
            timeout=float(self.timeout),
            max_retries=int(self.max_retries),
            ceiling=MOST_AT_ONCE if at_once is None else max(1, at_once),
            begin_with=SLOW_START if at_once is None else at_once,
            backoff=float(self.backoff),
            verify=self.ca_cert_path or bool(self.verify_certificate),
            max_reply=max(LARGEST_REPLY, BYTES_OF_A_TOKEN * int(self.max_length or 0)),
        )


def prompts_together(batch_size: int | str | None) -> int | None:
    """`auto`, also with a number behind it as lm-evaluation-harness has it, says nothing about a server."""
    if batch_size is None or str(batch_size).startswith("auto"):
        return None
    try:
        return max(1, int(batch_size))
    except ValueError as error:
        raise ConfigError(f"batch_size is {batch_size!r}", hint="Use a number, or auto.") from error
