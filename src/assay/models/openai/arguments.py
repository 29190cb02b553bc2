"""What `--model_args` may say of a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assay.errors import ConfigError
from assay.models.openai.address import is_azure, request_headers
from assay.models.openai.wire import BYTES_OF_A_TOKEN, LARGEST_REPLY, MOST_AT_ONCE, SLOW_START, Settings


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
